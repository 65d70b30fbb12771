"""Broken models: read, run on the CPU and beside LiteRT, compiled, and the compiled file run on the NPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

import npu
from npu.api import disassemble
from npu.errors import UserError
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Model
from npu.graph.quantizations import QUANTIZED
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import RuntimeOptions
from npu.tflite.reader import read_model
from npu.tflite.sparsity import is_sparse

from tests.fuzz.answer import Refused, attempt, difference
from tests.fuzz.litert_child import LiteRt
from tests.support.hostile import broken, mutant
from tests.support.open_results import looks_behind_a_map
from tests.support.operator_cases import CASES
from tests.support.ranked_sketches import ranked

TARGETS = ("ethos-u55-128", "ethos-u65-512", "ethos-u55-32", "ethos-u85-256")
PER_TARGET = 500
"""Cases in a row for the same target: every kind of model meets every target."""
MOST_INPUT_BYTES = 1 << 20
MOST_OUTPUT_BYTES = 1 << 26
MOST_VARIABLE_BYTES = 1 << 28
LOOPS = 1000
MODERATE_SCALES = (2.0**-31, 2.0**31)
"""Beyond these LiteRT's kernels shift and cast beyond 32 bits, which C++ leaves open: see docs/exactness.md."""
_MODERATE_RADIUS = (1 << 31) - (1 << 20)
_LITERT = LiteRt()


def case(number: int) -> str:
    """Every third mutant of `tests.support.hostile` is of a compiled file, which only runs."""
    content = _content(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = attempt("read", lambda: read_model(content))
        inputs = _inputs(model, number)
        if sum(_variable_bytes(model)) > MOST_VARIABLE_BYTES:
            raise Refused("variables: larger than tried")
        if any(op.custom_code == "ethos-u" for graph in model.graphs for op in graph.ops):
            return _compiled_file(content, inputs)
        return f"{_on_cpu(content, inputs)}; {_on_npu(content, inputs, TARGETS[number // PER_TARGET % len(TARGETS)])}"


def _content(number: int) -> bytes:
    """A mutant of a model of the NPU's operators, of one operator of any kind and type, or of tensors of any rank."""
    if number % 2:
        return mutant(number // 2).content
    rng = np.random.default_rng([number, 8])
    if number % 8 == 0:
        return broken(ranked(number // 8)[1], rng)
    return broken(CASES[sorted(CASES)[number // 2 % len(CASES)]](rng), rng)


def _inputs(model: Model, seed: int) -> list[np.ndarray]:
    """Random inputs of moderate size for a model of ordinary types; Refused for others."""
    rng, made = np.random.default_rng(seed), []
    for index in model.graphs[0].inputs if model.graphs else ():
        tensor = model.graphs[0].tensors[index]
        dtype = tensor.dtype.numpy
        size = np.prod([float(max(extent, 0)) for extent in tensor.shape])
        if (
            dtype is None
            or dtype.kind not in "fiub"
            or min(tensor.shape, default=0) < 0
            or size * dtype.itemsize > MOST_INPUT_BYTES
        ):
            raise Refused("inputs: of another kind or size than tried")
        if dtype.kind == "f":
            made.append(rng.standard_normal(tensor.shape).astype(dtype))
        elif dtype.kind == "b":
            made.append(rng.integers(0, 2, tensor.shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            made.append(rng.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True))
    return made


def _variable_bytes(model: Model) -> Iterator[float]:
    """What variables of another value than zero honestly need: all their bytes are set when tensors are allocated."""
    for graph in model.graphs:
        for tensor in graph.tensors:
            zero_points = () if tensor.quantization is None else tensor.quantization.zero_points
            if tensor.is_variable and np.any(zero_points):
                yield np.prod([float(max(extent, 0)) for extent in tensor.shape]) * tensor.dtype.bits / 8


def _run(content: bytes, inputs: list[np.ndarray], rounding: str) -> list[np.ndarray]:
    options = RuntimeOptions(fully_connected_rounding=rounding, while_limit=LOOPS)
    interpreter = CpuInterpreter(model_content=content, options=options)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    details = interpreter.get_output_details()
    sizes = (np.prod(detail["shape"], dtype=float) * np.dtype(detail["dtype"]).itemsize for detail in details)
    if sum(sizes) > MOST_OUTPUT_BYTES:
        raise Refused("outputs: larger than tried")
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in details]


def _on_cpu(content: bytes, inputs: list[np.ndarray]) -> str:
    """Our CPU kernels against LiteRT's, where both take the model."""
    ours = attempt("cpu", lambda: _run(content, inputs, "double"))
    again = _run(content, inputs, "double")
    assert not difference(ours, again, exact=True), "two runs differ"
    if not _has_moderate_scales(content) or any(row(content) for row in _ROWS):
        return "cpu: ran, a row of docs/exactness.md"
    reference = _LITERT.outputs(content, inputs)
    if isinstance(reference, str):
        return f"cpu: ran, LiteRT {reference}"
    theirs = [np.array(their) for their in reference]
    found = difference(ours, theirs, exact=False)
    if found and _has_endless_filters(content):  # the row says what differs: no number, at the border of a map
        theirs = [np.where(np.isnan(our), our, their) for our, their in zip(ours, theirs, strict=True)]
        found = difference(ours, theirs, exact=False)
    assert not found, f"CPU against LiteRT: {found}"
    return "cpu: equals LiteRT"


def _has_moderate_scales(content: bytes) -> bool:
    least, most = MODERATE_SCALES
    tensors = [tensor for graph in read_model(content).graphs for tensor in graph.tensors if tensor.dtype in QUANTIZED]
    given = [tensor.quantization.scales for tensor in tensors if tensor.quantization is not None]
    return all(bool(np.all((scales == 0) | ((scales >= least) & (scales < most)))) for scales in given)


def _has_a_bias_read_otherwise(content: bytes) -> bool:
    """An int32 bias of 16-bit maps, which LiteRT takes for one of 64 bits where the options do not say otherwise."""
    for graph in read_model(content).graphs:
        for op in graph.ops:
            says_nothing = getattr(op.attributes, "quantized_bias_type", None) is DType.FLOAT32
            types = [graph.tensors[index].dtype for index in (*op.inputs, *op.outputs) if index != ABSENT]
            if says_nothing and DType.INT16 in types and types.count(DType.INT32):
                return True
    return False


def _reads_sparse_constants(content: bytes) -> bool:
    """Sparse constants that another operator than DENSIFY reads, which LiteRT takes for dense ones."""
    for graph in read_model(content).graphs:
        read = {index for op in graph.ops if op.kind != "DENSIFY" for index in op.inputs if index != ABSENT}
        if any(is_sparse(graph.tensors[index]) for index in read):
            return True
    return False


def _has_endless_neighbours(content: bytes) -> bool:
    """A local response normalization whose radius and channel are added beyond 32 bits."""
    ops = [op for graph in read_model(content).graphs for op in graph.ops if op.kind == "LOCAL_RESPONSE_NORMALIZATION"]
    return any(getattr(op.attributes, "radius", 0) > _MODERATE_RADIUS for op in ops)


def _has_batches_of_three_axes(content: bytes) -> bool:
    """A hybrid BATCH_MATMUL that looks sums up behind those that it has made."""
    for graph in read_model(content).graphs:
        for op in graph.ops:
            ranks = [len(graph.tensors[index].shape) for index in op.inputs if index != ABSENT]
            if op.kind == "BATCH_MATMUL" and getattr(op.attributes, "asymmetric_quantize_inputs", False) and max(ranks) > 4:
                return True
    return False


def _has_a_steep_difference(content: bytes) -> bool:
    """A SUB whose last multiplier is above 1, by which the reference shifts right by a negative number."""
    for graph in read_model(content).graphs:
        for op in graph.ops:
            given = [graph.tensors[index].quantization for index in (*op.inputs, *op.outputs) if index != ABSENT]
            scales = [one.scale for one in given if one is not None]
            bits = 15 if graph.tensors[op.outputs[0]].dtype is DType.INT16 else 20
            if op.kind == "SUB" and len(scales) == 3 and 2 * max(scales[:2]) >= scales[2] * 2.0**bits:
                return True
    return False


def _has_masked_offsets(content: bytes) -> bool:
    """A STRIDED_SLICE whose ends are offsets and masked: it makes room by the offsets and takes elements by the mask."""
    ops = [op for graph in read_model(content).graphs for op in graph.ops if op.kind == "STRIDED_SLICE"]
    return any(getattr(op.attributes, "offset", False) and getattr(op.attributes, "end_mask", 0) for op in ops)


_ROWS = (
    _has_a_steep_difference,
    _has_masked_offsets,
    _has_a_bias_read_otherwise,
    _reads_sparse_constants,
    _has_endless_neighbours,
    _has_batches_of_three_axes,
    looks_behind_a_map,
)
"""Rows of docs/exactness.md whose results the reference leaves open."""


def _has_endless_filters(content: bytes) -> bool:
    """Filters with what is no finite number, which the border of a map multiplies by 0 here and LiteRT leaves out."""
    for graph in read_model(content).graphs:
        for op in graph.ops:
            constants = [graph.tensors[index].data for index in op.inputs if "CONV" in op.kind and index != ABSENT]
            if any(data is not None and data.dtype.kind == "f" and not np.isfinite(data).all() for data in constants):
                return True
    return False


def _on_npu(content: bytes, inputs: list[np.ndarray], target: str) -> str:
    """The compiled file against CPU kernels that round as the NPU does."""
    compiled = _compiled(content, target)
    if not any(op.custom_code == "ethos-u" for graph in read_model(compiled).graphs for op in graph.ops):
        return "npu: nothing for it"
    findings = npu.verify(compiled)
    assert not findings, f"verify of our own file: {findings[0][1].message}"
    try:
        result = npu.run(compiled, inputs).outputs
    except UserError as error:
        raise AssertionError(f"a file that we wrote is refused: {error}") from error
    found = difference(result, _run(content, inputs, "npu"), exact=False)
    if found:  # as where a FULLY_CONNECTED stays on the CPU, whose reference rounds in double precision
        found = difference(result, _run(content, inputs, "double"), exact=False)
    if found and _multiplies_words(content):  # a row of docs/exactness.md, which says what comes of them
        found = difference(result, [_saturated(*inputs)], exact=True)
    assert not found, f"NPU against CPU: {found}"
    return "npu: equals the CPU"


def _compiled(content: bytes, target: str) -> bytes:
    """The compiled file. `check` refuses what `compile` refuses, and has a gate for what is only too large."""
    attempt("check or compile", lambda: npu.check(content, target=target))
    try:
        return npu.compile(content, target=target).content
    except UserError as error:
        if npu.check_report(content, target=target).failed_gates:
            raise Refused("compile: refused") from error
        raise AssertionError(f"check takes what compile refuses: {error}") from error


def _multiplies_words(content: bytes) -> bool:
    """A model of one MUL of int32 without anything behind it."""
    graphs = read_model(content).graphs
    ops = [op for graph in graphs for op in graph.ops]
    if [op.kind for op in ops] != ["MUL"] or graphs[0].inputs != ops[0].inputs:
        return False
    given = ops[0].attributes
    is_bare = given is None or given.fused_activation_function is FusedActivation.NONE
    return is_bare and graphs[0].tensors[ops[0].outputs[0]].dtype is DType.INT32


def _saturated(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Products as the NPU gives them: the nearest number of 32 bits."""
    limits = np.iinfo(np.int32)
    return np.clip(first.astype(np.int64) * second, limits.min, limits.max).astype(np.int32)


def _compiled_file(content: bytes, inputs: list[np.ndarray]) -> str:
    attempt("verify", lambda: npu.verify(content))
    attempt("disasm", lambda: disassemble(content))
    first = attempt("run", lambda: npu.run(content, inputs).outputs)
    second = npu.run(content, inputs).outputs
    assert not difference(first, second, exact=True), "two runs differ"
    return "compiled file: ran"
