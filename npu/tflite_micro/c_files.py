"""The files of an application, as text: C arrays that any compiler takes, and an inference of TensorFlow Lite Micro in C++.

The linker sections are those of Arm's ethos-u core platform: `network_model_sec` for the model, `.bss.tensor_arena`,
`.bss.ethosu_scratch` for the fast scratch, `input_data_sec` and `expected_output_data_sec` for the self-test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.plain import printable
from npu.records import dataclass
from npu.tflite_micro.arena import ALIGNMENT, ArenaSize
from npu.tflite_micro.resolver import ResolverEntry
from npu.version import __version__

_BYTES_A_LINE = 16
_HEX = tuple(f"0x{value:02x}," for value in range(256))


@dataclass(frozen=True, slots=True)
class Application:
    """What the files are made of. `memories` names the memory of `constants`, `arena` and `cache` (the fast scratch).

    `fast_scratch_bytes` is 0 where the fast scratch is part of the arena. `inputs` and `outputs` are those of the self-test, in
    model order.
    """

    name: str
    target: str
    content: bytes
    operators: Sequence[ResolverEntry]
    arena: ArenaSize
    fast_scratch_bytes: int
    memories: Mapping[str, str]
    inputs: Sequence[npt.NDArray[np.generic]]
    outputs: Sequence[npt.NDArray[np.generic]]


def c_files(application: Application) -> dict[str, str]:
    """Every file by its name; all begin with the application's, as a C identifier."""
    name = identifier(application.name)
    return {
        f"{name}_model.h": _model_header(application, name),
        f"{name}_model.c": _model_source(application, name),
        f"{name}_operators.h": _operators_header(application, name),
        f"{name}_test.h": _test_header(application, name),
        f"{name}_test.c": _test_source(application, name),
        f"{name}_main.cc": _main_source(application, name),
    }


def identifier(name: str) -> str:
    """A C identifier made of a name: other characters become underscores."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "model"
    return f"model_{plain}" if plain[0].isdigit() else plain


def array_text(content: bytes) -> str:
    """The initializers of a byte array, in lines."""
    starts = range(0, len(content), _BYTES_A_LINE)
    return "\n".join(f"  {' '.join(_HEX[value] for value in content[start : start + _BYTES_A_LINE])}" for start in starts)


def _head(what: str) -> str:
    return f"/* {what} Made by npu export, npulab {__version__}; do not edit. */\n"


def _guarded(file: str, text: str) -> str:
    guard = f"{identifier(file).upper()}_"
    return f"#ifndef {guard}\n#define {guard}\n\n{text}\n#endif /* {guard} */\n"


def _in_c(text: str) -> str:
    return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{text}\n#ifdef __cplusplus\n}}\n#endif\n'


def _array(kind: str, name: str, section: str, content: bytes) -> str:
    """A definition; the section counts for ELF targets without an operating system only, a host has none of that name."""
    values = array_text(content) or "  0x00,"  # C has no empty arrays
    return f'{kind} {name}[{max(1, len(content))}] IN_SECTION("{section}") = {{\n{values}\n}};\n'


_SECTION_MACRO = f"""#if defined(__arm__) && !defined(__linux__)
#define IN_SECTION(name) __attribute__((section(name), aligned({ALIGNMENT})))
#else
#define IN_SECTION(name) __attribute__((aligned({ALIGNMENT})))
#endif
"""


def _model_header(application: Application, name: str) -> str:
    arena, places, big = application.arena, application.memories, name.upper()
    text = f"""#include <stdint.h>

/* The compiled file, for {application.target}. The NPU itself reads it: place it in memory '{places["constants"]}'. */
#define {big}_MODEL_BYTES {len(application.content)}u

/* Tensor arena, in memory '{places["arena"]}': {arena.head} bytes of feature maps and scratch, and up to {arena.tail}
   bytes that TensorFlow Lite Micro keeps; MicroInterpreter::arena_used_bytes() tells what your build takes. */
#define {big}_ARENA_BYTES {arena.total}u

/* Fast scratch for ethosu_init(), in memory '{places["cache"]}'; 0: the model needs none. */
#define {big}_FAST_SCRATCH_BYTES {application.fast_scratch_bytes}u

"""
    declaration = f"extern const uint8_t {name}_model[{len(application.content)}];\n"
    return _head(f"{application.target}: the compiled file.") + _guarded(f"{name}_model.h", text + _in_c(declaration))


def _model_source(application: Application, name: str) -> str:
    array = _array("const uint8_t", f"{name}_model", "network_model_sec", application.content)
    return f'{_head("The compiled file.")}#include "{name}_model.h"\n\n{_SECTION_MACRO}\n{array}'


def _operators_header(application: Application, name: str) -> str:
    own = [row for row in application.operators if row.method is None]
    declared = "".join(
        f"/* Your kernel of custom operator '{_in_comment(row.name)}'. */\nTFLMRegistration* {_registration(row)}();\n"
        for row in own
    )
    count = len(application.operators)
    lines = "".join(
        f"  if ({_call(row)} != kTfLiteOk) return kTfLiteError;  {_versions(row)}\n" for row in application.operators
    )
    text = f"""#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

{declared}constexpr int k{_camel(name)}Operators = {count};

/* All operators of the model, and no other. */
inline TfLiteStatus Add{_camel(name)}Operators(tflite::MicroMutableOpResolver<k{_camel(name)}Operators>& resolver) {{
{lines}  return kTfLiteOk;
}}
"""
    return _head("The operators of the model.") + _guarded(f"{name}_operators.h", text)


def _call(row: ResolverEntry) -> str:
    if row.method is not None:
        return f"resolver.{row.method}()"
    return f'resolver.AddCustom("{_quoted(row.name)}", {_registration(row)}())'


def _registration(row: ResolverEntry) -> str:
    """The function of the application that has the kernel of a custom operator."""
    return f"Register_{identifier(row.name).upper()}"


def _in_comment(text: str) -> str:
    return printable(text).replace("*/", "* /")


def _quoted(text: str) -> str:
    """The contents of a C string literal."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode("utf-8")
    )


def _versions(row: ResolverEntry) -> str:
    return f"/* version {', '.join(map(str, row.versions))} */"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _test_header(application: Application, name: str) -> str:
    declarations = "".join(
        f"extern const uint8_t {name}_{what}_{index}[{max(1, array.nbytes)}];\n"
        for what, arrays in (("input", application.inputs), ("output", application.outputs))
        for index, array in enumerate(arrays)
    )
    text = "#include <stdint.h>\n\n" + _in_c(declarations)
    return _head("Inputs, and the outputs that the simulator computes from them.") + _guarded(f"{name}_test.h", text)


def _test_source(application: Application, name: str) -> str:
    groups = (("input", "input_data_sec", application.inputs), ("output", "expected_output_data_sec", application.outputs))
    arrays = "\n".join(
        _array("const uint8_t", f"{name}_{what}_{index}", section, array.tobytes())
        for what, section, values in groups
        for index, array in enumerate(values)
    )
    return f'{_head("Data of the self-test.")}#include "{name}_test.h"\n\n{_SECTION_MACRO}\n{arrays}'


def _main_source(application: Application, name: str) -> str:
    big, camel = name.upper(), _camel(name)
    fills = "".join(
        f"  memcpy(interpreter.input({index})->data.raw, {name}_input_{index}, {array.nbytes});\n"
        for index, array in enumerate(application.inputs)
    )
    checks = "".join(
        f"  failures += memcmp(interpreter.output({index})->data.raw, {name}_output_{index}, {array.nbytes}) != 0;\n"
        for index, array in enumerate(application.outputs)
    )
    return f"""{_head("One inference with its self-test, for TensorFlow Lite Micro.")}#include <cstring>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_log.h"
#include "tensorflow/lite/schema/schema_generated.h"

extern "C" {{
#include "{name}_model.h"
#include "{name}_test.h"
}}
#include "{name}_operators.h"

{_SECTION_MACRO}
static uint8_t arena[{big}_ARENA_BYTES] IN_SECTION(".bss.tensor_arena");
#if {big}_FAST_SCRATCH_BYTES
/* Hand both to ethosu_init(driver, base_address, fast_scratch, fast_scratch_size, ...) before the first inference. */
uint8_t {name}_fast_scratch[{big}_FAST_SCRATCH_BYTES] IN_SECTION(".bss.ethosu_scratch");
#endif

/* 0 if every output equals, byte for byte, what the simulator computed. */
int {name}_self_test(void) {{
  tflite::MicroMutableOpResolver<k{camel}Operators> resolver;
  if (Add{camel}Operators(resolver) != kTfLiteOk) return 1;
  tflite::MicroInterpreter interpreter(tflite::GetModel({name}_model), resolver, arena, sizeof(arena));
  if (interpreter.AllocateTensors() != kTfLiteOk) return 2;
  MicroPrintf("arena: %u of %u bytes", static_cast<unsigned>(interpreter.arena_used_bytes()),
              static_cast<unsigned>(sizeof(arena)));
{fills}  if (interpreter.Invoke() != kTfLiteOk) return 3;
  int failures = 0;
{checks}  if (failures) {{
    MicroPrintf("self-test: %d outputs differ", failures);
    return 4;
  }}
  MicroPrintf("self-test: passed");
  return 0;
}}

int main(void) {{ return {name}_self_test(); }}
"""
