"""One inference of TensorFlow Lite Micro with its self-test, in C++."""

from __future__ import annotations

import numpy as np

from npu.tflite_micro.application import Application
from npu.tflite_micro.c_text import SECTION_MACRO, camel, head

_FLOAT_COMPARISON = """/* Float kernels may add in another order: each value within 1/10,000 of the largest expected one. */
static bool is_near(const void* made, const void* expected, size_t count) {
  float largest = 0, difference = 0;
  for (size_t i = 0; i < count; i++) {
    float is, should;
    memcpy(&is, static_cast<const char*>(made) + i * sizeof(float), sizeof(float));
    memcpy(&should, static_cast<const char*>(expected) + i * sizeof(float), sizeof(float));
    largest = fmaxf(largest, fabsf(should));
    if (is == should || (isnan(is) && isnan(should))) continue;
    if (!isfinite(is) || !isfinite(should)) return false;
    difference = fmaxf(difference, fabsf(is - should));
  }
  return difference <= largest / 10000;
}

"""


def inference_source(application: Application, name: str) -> str:
    """The C++ file: arena, fast scratch, `NAME_self_test` and a `main` that calls it."""
    big, kind = name.upper(), camel(name)
    has_floats = any(array.dtype == np.float32 for array in application.outputs)
    return f"""{head("One inference with its self-test, for TensorFlow Lite Micro.")}{_includes(application, name, has_floats)}
{SECTION_MACRO}
static uint8_t arena[{big}_ARENA_BYTES] IN_SECTION(".bss.tensor_arena");
#if {big}_FAST_SCRATCH_BYTES
uint8_t {name}_fast_scratch[{big}_FAST_SCRATCH_BYTES] IN_SECTION(".bss.ethosu_scratch");
#endif

{_FLOAT_COMPARISON if has_floats else ""}/* 0 if {_success(has_floats)}. */
int {name}_self_test(void) {{
  tflite::MicroMutableOpResolver<k{kind}Operators> resolver;
  if (Add{kind}Operators(resolver) != kTfLiteOk) return 1;
{_interpreter(application, name)}  if (interpreter.AllocateTensors() != kTfLiteOk) return 2;
  MicroPrintf("arena: %u of %u bytes", static_cast<unsigned>(interpreter.arena_used_bytes()),
              static_cast<unsigned>(sizeof(arena)));
{_fills(application, name)}  if (interpreter.Invoke() != kTfLiteOk) return 3;
  int failures = 0;
{_checks(application, name)}  if (failures) {{
    MicroPrintf("self-test: %d of {len(application.outputs)} outputs differ", failures);
    return 4;
  }}
  MicroPrintf("self-test: passed");
  return 0;
}}

/* On a board: first clocks, console, and ethosu_init() with the address and interrupt of the NPU. */
int main(void) {{ return {name}_self_test(); }}
"""


def _includes(application: Application, name: str, has_floats: bool) -> str:
    needed = ["micro_interpreter", "micro_log"]
    if application.resource_variables:
        needed += ["micro_allocator", "micro_resource_variable"]
    runtime = "".join(f'#include "tensorflow/lite/micro/{header}.h"\n' for header in sorted(needed))
    return f"""{"#include <math.h>" + chr(10) if has_floats else ""}#include <string.h>

{runtime}#include "tensorflow/lite/schema/schema_generated.h"

#include "{name}_model.h"
#include "{name}_operators.h"
#include "{name}_test.h"
"""


def _success(has_floats: bool) -> str:
    if has_floats:
        return "every output is what the simulator computed: integers byte for byte, floats nearly"
    return "every output equals, byte for byte, what the simulator computed"


def _interpreter(application: Application, name: str) -> str:
    """The interpreter; resource variables (`VAR_HANDLE`) live in a table that shares its allocator."""
    if not application.resource_variables:
        return f"  tflite::MicroInterpreter interpreter(tflite::GetModel({name}_model), resolver, arena, sizeof(arena));\n"
    return f"""  tflite::MicroAllocator* allocator = tflite::MicroAllocator::Create(arena, sizeof(arena));
  if (allocator == nullptr) return 2;
  tflite::MicroResourceVariables* variables =
      tflite::MicroResourceVariables::Create(allocator, {application.resource_variables});
  tflite::MicroInterpreter interpreter(tflite::GetModel({name}_model), resolver, allocator, variables);
"""


def _fills(application: Application, name: str) -> str:
    return "".join(
        f"  memcpy(interpreter.input({index})->data.raw, {name}_input_{index}, {array.nbytes});\n"
        for index, array in enumerate(application.inputs)
    )


def _checks(application: Application, name: str) -> str:
    lines = []
    for index, array in enumerate(application.outputs):
        places = f"interpreter.output({index})->data.raw, {name}_output_{index}"
        is_float = array.dtype == np.float32
        lines.append(f"!is_near({places}, {array.size})" if is_float else f"memcmp({places}, {array.nbytes}) != 0")
    return "".join(f"  failures += {line};\n" for line in lines)
