"""The files of an application, as text: C arrays that any compiler takes, and an inference of TensorFlow Lite Micro in C++."""

from __future__ import annotations

from npu.tflite_micro.application import Application
from npu.tflite_micro.c_text import SECTION_MACRO, array_definition, camel, guarded, head, identifier, in_c, in_comment, quoted
from npu.tflite_micro.inference import inference_source
from npu.tflite_micro.resolver import ResolverEntry


def c_files(application: Application) -> dict[str, str]:
    """Every file by its name; all begin with the application's, as a C identifier."""
    name = identifier(application.name)
    return {
        f"{name}_model.h": _model_header(application, name),
        f"{name}_model.c": _model_source(application, name),
        f"{name}_operators.h": _operators_header(application, name),
        f"{name}_test.h": _test_header(application, name),
        f"{name}_test.c": _test_source(application, name),
        f"{name}_main.cc": inference_source(application, name),
    }


def _model_header(application: Application, name: str) -> str:
    arena, places, big = application.arena, application.memories, name.upper()
    text = f"""#include <stdint.h>

/* The compiled file, for {application.target}. The NPU itself reads it: place it in memory '{places["constants"]}'. */
#define {big}_MODEL_BYTES {len(application.content)}u

/* Tensor arena, in memory '{places["arena"]}': {arena.head} bytes of feature maps and scratch, and up to {arena.tail}
   bytes that TensorFlow Lite Micro keeps; MicroInterpreter::arena_used_bytes() tells what your build takes. */
#define {big}_ARENA_BYTES {arena.total}u

/* Fast scratch, in memory '{places["cache"]}': hand array and size to ethosu_init(). 0: the model needs none. */
#define {big}_FAST_SCRATCH_BYTES {application.fast_scratch_bytes}u

"""
    declaration = f"extern const uint8_t {name}_model[{len(application.content)}];\n"
    if application.fast_scratch_bytes:
        declaration += f"extern uint8_t {name}_fast_scratch[{application.fast_scratch_bytes}];\n"
    return head(f"{application.target}: the compiled file.") + guarded(f"{name}_model.h", text + in_c(declaration))


def _model_source(application: Application, name: str) -> str:
    array = array_definition("const uint8_t", f"{name}_model", "network_model_sec", application.content)
    return f'{head("The compiled file.")}#include "{name}_model.h"\n\n{SECTION_MACRO}\n{array}'


def _operators_header(application: Application, name: str) -> str:
    own = [row for row in application.operators if row.method is None]
    declared = "".join(
        f"/* Your kernel of custom operator '{in_comment(row.name)}'. */\nTFLMRegistration* {_registration(row)}();\n"
        for row in own
    )
    count = len(application.operators)
    lines = "".join(
        f"  if ({_call(row)} != kTfLiteOk) return kTfLiteError;  {_versions(row)}\n" for row in application.operators
    )
    text = f"""#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

{declared}constexpr int k{camel(name)}Operators = {count};

/* All operators of the model, and no other. */
inline TfLiteStatus Add{camel(name)}Operators(tflite::MicroMutableOpResolver<k{camel(name)}Operators>& resolver) {{
{lines}  return kTfLiteOk;
}}
"""
    return head("The operators of the model.") + guarded(f"{name}_operators.h", text)


def _call(row: ResolverEntry) -> str:
    if row.method is not None:
        return f"resolver.{row.method}()"
    return f'resolver.AddCustom("{quoted(row.name)}", {_registration(row)}())'


def _registration(row: ResolverEntry) -> str:
    """The function of the application that has the kernel of a custom operator."""
    return f"Register_{identifier(row.name).upper()}"


def _versions(row: ResolverEntry) -> str:
    return f"/* version {', '.join(map(str, row.versions))} */"


def _test_header(application: Application, name: str) -> str:
    declarations = "".join(
        f"extern const uint8_t {name}_{what}_{index}[{max(1, array.nbytes)}];\n"
        for what, arrays in (("input", application.inputs), ("output", application.outputs))
        for index, array in enumerate(arrays)
    )
    text = "#include <stdint.h>\n\n" + in_c(declarations)
    return head("Inputs, and the outputs that the simulator computes from them.") + guarded(f"{name}_test.h", text)


def _test_source(application: Application, name: str) -> str:
    groups = (("input", "input_data_sec", application.inputs), ("output", "expected_output_data_sec", application.outputs))
    arrays = "\n".join(
        array_definition("const uint8_t", f"{name}_{what}_{index}", section, array.tobytes())
        for what, section, values in groups
        for index, array in enumerate(values)
    )
    return f'{head("Data of the self-test.")}#include "{name}_test.h"\n\n{SECTION_MACRO}\n{arrays}'
