"""The whole compiler: exact results on the simulated machine, sound streams, and files laid out as runtimes expect."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tflite

import npu
from npu.compiler.block_config import BlockChooser
from npu.compiler.compiled import NO_SOURCE, CompiledModel
from npu.compiler.compiler import compile_model
from npu.compiler.goal import Goal
from npu.compiler.lower.table import LOWERED
from npu.errors import CompileError
from npu.graph.attributes import SoftmaxOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.graph.placement import Device, OpPlacement, Placement, Violation
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.operations import DepthwiseConvolution, Dma, Interrupt, Stop
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.container import jobs_of
from sim.machine import Machine
from sim.memory import NpuMemory
from sim.verify.verifier import verify

from tests.support import single_ops as ops
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.random_graphs import chains
from tests.support.shared import shared_models
from tests.support.single_ops import binary, conv
from tests.support.vela import compile_with_vela, only_job

VARIANTS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
SMALL = [name for name in ("mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_ad_int8") if name in shared_models()]
LARGE = [name for name in ("mlperf_vww_int8", "mobilenet_v2_1.0_224_INT8", "person_detect_int8") if name in shared_models()]
CHAINS = {case.name: write_model(case.model) for case in chains(6, 11)}
LEFT_OUT = Violation("TEST", "left out", "-", "-")


def everywhere(model: Model, *, cpu: tuple[int, ...] = ()) -> Placement:
    """Every operator that can be lowered on the NPU, except those of subgraph 0 in `cpu`."""
    ops = []
    for number, graph in enumerate(model.graphs):
        for index, op in enumerate(graph.ops):
            is_left = op.kind not in LOWERED or (number == 0 and index in cpu)
            ops.append(OpPlacement(number, index, op.kind, op.name, (LEFT_OUT,) if is_left else ()))
    return Placement("test", tuple(ops))


def compile_whole(
    content: bytes, variant: Variant, *, cpu: tuple[int, ...] = (), goal: Goal = Goal.PERFORMANCE
) -> CompiledModel:
    model = read_model(content)
    return compile_model(model, everywhere(model, cpu=cpu), BlockChooser(variant), goal=goal)


def simulate(compiled: CompiledModel, variant: Variant, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run a file with one NPU job: the arena is laid out by the metadata alone."""
    (job,) = jobs_of(compiled.model)
    graph = compiled.model.graphs[0]
    offsets = np.frombuffer(compiled.model.metadata["OfflineMemoryAllocation"], "<i4")[3:]
    op = graph.ops[job.index]
    constants = graph.tensors[op.inputs[1]].data
    arena = np.full(job.region_bytes[1], 0x5A, np.uint8)
    fast = arena if op.inputs[2] == op.inputs[3] else np.full(job.region_bytes[2], 0x5A, np.uint8)
    memory = NpuMemory({0: np.zeros(0, np.uint8) if constants is None else constants, 1: arena, 2: fast}, variant)
    for tensor, value in zip(graph.inputs, inputs, strict=True):
        arena[offsets[tensor] : offsets[tensor] + value.nbytes] = value.view(np.uint8).ravel()
    Machine(variant).run(job.payload.words, memory)
    found = []
    for index in graph.outputs:
        tensor = graph.tensors[index]
        assert tensor.dtype.numpy is not None
        size = tensor.elements * tensor.dtype.numpy.itemsize
        found.append(arena[offsets[index] : offsets[index] + size].view(tensor.dtype.numpy).reshape(tensor.shape))
    return found


def assert_exact(content: bytes, variant: Variant, seeds: tuple[int, ...] = (0, 1)) -> CompiledModel:
    compiled = compile_whole(content, variant)
    for seed in seeds:
        inputs = random_inputs(content, seed)
        expected = run_reference(content, inputs, fully_connected="npu")
        for ours, theirs in zip(simulate(compiled, variant, inputs), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    return compiled


def assert_sound(compiled: CompiledModel, variant: Variant) -> None:
    """No hazard, nothing outside the regions, nothing read before it is written."""
    for job in jobs_of(compiled.model):
        assert verify(decode(job.payload.words, variant), variant, job.region_bytes, job.given) == []


@pytest.mark.parametrize("variant_name", VARIANTS)
@pytest.mark.parametrize("name", CHAINS)
def test_random_chains_are_exact_and_sound(name: str, variant_name: str) -> None:
    variant = load_variant(variant_name)
    assert_sound(assert_exact(CHAINS[name], variant, (0,)), variant)


@pytest.mark.parametrize("mode", ["Sram_Only", "Dedicated_Sram"])
@pytest.mark.parametrize("name", list(CHAINS)[:3])
def test_other_memory_modes_are_exact_and_sound(name: str, mode: str) -> None:
    variant = load_variant("ethos-u65-256", memory_mode=mode)
    compiled = assert_exact(CHAINS[name], variant, (0,))
    assert_sound(compiled, variant)
    transfers = [
        o for p in compiled.partitions for o in p.operations if isinstance(o, Dma) and o.destination.region is not None
    ]
    assert mode == "Dedicated_Sram" or transfers == []


@pytest.mark.parametrize("name", SMALL)
def test_small_real_models_are_exact_and_sound(name: str) -> None:
    variant = load_variant("ethos-u55-128")
    assert_sound(assert_exact(shared_models()[name].read_bytes(), variant), variant)


@pytest.mark.slow
@pytest.mark.parametrize("variant_name", VARIANTS)
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_real_models_are_exact_and_sound_on_every_variant(name: str, variant_name: str) -> None:
    variant = load_variant(variant_name)
    assert_sound(assert_exact(repaired(shared_models()[name].read_bytes()), variant), variant)


@pytest.mark.parametrize("name", list(CHAINS)[:2])
def test_the_same_input_gives_the_same_bytes(name: str) -> None:
    variant = load_variant("ethos-u55-128")
    first, second = (write_model(compile_whole(CHAINS[name], variant).model) for _ in range(2))
    assert first == second


def test_a_placement_without_npu_operators_gives_the_model_back() -> None:
    model = conv()
    placement = everywhere(model, cpu=(0,))
    compiled = compile_model(model, placement, BlockChooser(load_variant("ethos-u55-128")))
    assert compiled.model is model
    assert compiled.partitions == ()
    assert compiled.cpu_source_of == {0: 0}


def test_a_placement_of_another_model_is_refused() -> None:
    model = conv()
    with pytest.raises(CompileError, match="placement: must decide on all 1 operators"):
        compile_model(model, Placement("test", ()), BlockChooser(load_variant("ethos-u55-128")))


def test_a_compiled_model_is_refused() -> None:
    variant = load_variant("ethos-u55-128")
    model = compile_whole(write_model(conv()), variant).model
    with pytest.raises(CompileError, match="must be a plain TFLite model"):
        compile_model(model, everywhere(model), BlockChooser(variant))


def three_convolutions() -> bytes:
    """Three 1x1 convolutions in a row on a 12x12 map."""
    single = conv(ifm=(1, 12, 12, 8), kernel=(1, 1))
    graph = single.graphs[0]
    tensors, ops, last = list(graph.tensors), list(graph.ops), graph.outputs[0]
    (op,) = ops
    weights = graph.tensors[op.inputs[1]]
    depth = graph.tensors[last].shape[3]
    square = np.resize(np.asarray(weights.data), (depth, 1, 1, depth))
    tensors.append(replace(weights, name="square", shape=square.shape, data=square))
    for number in range(2):
        tensors.append(replace(tensors[last], name=f"next {number}"))
        ops.append(replace(op, inputs=(last, len(graph.tensors), op.inputs[2]), outputs=(len(tensors) - 1,)))
        last = len(tensors) - 1
    return write_model(replace(single, graphs=(replace(graph, tensors=tuple(tensors), ops=tuple(ops), outputs=(last,)),)))


def test_a_cpu_operator_in_the_middle_splits_the_model() -> None:
    variant = load_variant("ethos-u55-128")
    compiled = compile_whole(three_convolutions(), variant, cpu=(1,))
    graph = compiled.model.graphs[0]
    assert [op.name for op in graph.ops] == ["ethos-u", "CONV_2D", "ethos-u"]
    assert [partition.ops for partition in compiled.partitions] == [(0,), (2,)]
    assert [partition.op_index for partition in compiled.partitions] == [0, 2]
    assert compiled.cpu_source_of == {1: 1}
    first, cpu, second = graph.ops
    assert first.inputs[1:4] == second.inputs[1:4]
    assert first.outputs[0] == cpu.inputs[0]
    assert cpu.outputs[0] == second.inputs[4]
    assert_sound(compiled, variant)


def test_live_tensors_of_the_graph_do_not_overlap_in_the_arena() -> None:
    compiled = compile_whole(three_convolutions(), load_variant("ethos-u55-128"), cpu=(1,))
    graph = compiled.model.graphs[0]
    offsets = np.frombuffer(compiled.model.metadata["OfflineMemoryAllocation"], "<i4")[3:]
    for op in graph.ops:
        maps = [index for index in (*op.inputs, *op.outputs) if int(offsets[index]) >= 0]
        maps = [index for index in maps if not graph.tensors[index].name.startswith("ethos-u/")]
        spans = sorted((int(offsets[index]), int(offsets[index]) + graph.tensors[index].elements) for index in maps)
        assert len(spans) == 2
        assert spans[0][1] <= spans[1][0]
        assert all(start % 16 == 0 for start, _ in spans)


def test_the_custom_operator_has_the_structure_that_runtimes_expect() -> None:
    content = write_model(compile_whole(write_model(conv(ifm=(1, 8, 8, 16))), load_variant("ethos-u55-128")).model)
    theirs = compile_with_vela(write_model(conv(ifm=(1, 8, 8, 16))), "ethos-u55-128")
    rows = []
    for item in (content, theirs):
        model = tflite.Model.GetRootAsModel(item, 0)
        graph, code = model.Subgraphs(0), model.OperatorCodes(0)
        op = graph.Operators(0)
        names = [model.Metadata(i).Name() for i in range(model.MetadataLength())]
        entry = model.Metadata(names.index(b"OfflineMemoryAllocation"))
        plan = model.Buffers(entry.Buffer()).DataAsNumpy().view("<i4")
        kinds = [
            (graph.Tensors(i).Type(), model.Buffers(graph.Tensors(i).Buffer()).DataLength() > 0) for i in op.InputsAsNumpy()
        ]
        rows.append(
            (
                model.Version(), graph.OperatorsLength(), code.BuiltinCode(), code.DeprecatedBuiltinCode(), code.CustomCode(),
                code.Version(), op.BuiltinOptionsType(), op.CustomOptionsAsNumpy().tobytes(), op.CustomOptionsFormat(),
                op.InputsAsNumpy().tolist(), op.OutputsAsNumpy().tolist(), kinds, plan[:3].tolist(), plan[3:6].tolist(),
            )
        )  # fmt: skip
    assert rows[0] == rows[1]
    assert (
        only_job(content).payload[:32] == only_job(theirs).payload[:32]
        or only_job(content).payload[:28] == only_job(theirs).payload[:28]
    )


def test_fast_scratch_is_a_tensor_of_its_own_where_it_is_a_memory_of_its_own() -> None:
    compiled = compile_whole(three_convolutions(), load_variant("ethos-u65-256"))
    op = compiled.model.graphs[0].ops[0]
    assert op.inputs[2] != op.inputs[3]
    assert compiled.model.graphs[0].tensors[op.inputs[3]].shape == (compiled.usage.fast_bytes,)
    assert compiled.usage.fast_bytes > 0


def test_every_operation_has_its_source_operator() -> None:
    compiled = compile_whole(three_convolutions(), load_variant("ethos-u55-128"))
    (partition,) = compiled.partitions
    assert len(partition.source_of) == len(partition.operations)
    assert set(partition.source_of[:-1]) == {0, 1, 2}
    assert partition.source_of[-1] == NO_SOURCE
    assert isinstance(partition.operations[-1], Stop)
    assert not any(isinstance(operation, (Interrupt, DepthwiseConvolution)) for operation in partition.operations)


def test_an_addition_may_overwrite_its_operand() -> None:
    content = write_model(binary("ADD", ((1, 16, 16, 16), (1, 16, 16, 16))))
    variant = load_variant("ethos-u55-128")
    assert assert_exact(content, variant).usage.arena_bytes == 2 * 16 * 16 * 16


def with_budget(size: int) -> Variant:
    variant = load_variant("ethos-u55-128")
    return replace(variant, memory_mode=replace(variant.memory_mode, arena_cache_bytes=size))


def test_maps_beyond_the_budget_are_cut_and_stay_exact() -> None:
    content = three_convolutions()
    whole = compile_whole(content, load_variant("ethos-u55-128"))
    inner = whole.usage.arena_bytes
    model = read_model(content)
    ends = sum(model.graphs[0].tensors[i].elements for i in (*model.graphs[0].inputs, *model.graphs[0].outputs))
    variant = with_budget(ends + (inner - ends) // 2 if inner > ends else ends + 256)
    compiled = assert_exact(content, variant)
    assert all(op.device is Device.NPU for op in compiled.placement.ops)
    assert compiled.usage.arena_bytes <= max(variant.memory_mode.arena_cache_bytes, ends + 1024)


def test_an_operator_whose_tensors_exceed_the_budget_stays_on_the_npu_for_the_cpu_would_need_them_too() -> None:
    compiled = compile_whole(write_model(conv(ifm=(1, 12, 12, 8))), with_budget(512))
    assert [partition.ops for partition in compiled.partitions] == [(0,)]
    assert compiled.usage.arena_bytes > 512
    assert compiled.placement.ops[0].violations == ()


def wide_softmax(*, keeps: int = 0) -> bytes:
    """SOFTMAX over 32 rows of 64, whose steps need maps of 32 bits; and the negative of a tensor of `keeps` bytes after it."""
    b = ModelBuilder()
    x = b.input((32, 64), DType.INT8, scale=0.1)
    other = b.input((1, keeps), DType.INT8, scale=0.1) if keeps else None
    b.output(b.op("SOFTMAX", [x], (32, 64), DType.INT8, 1 / 256, -128, attributes=SoftmaxOptions(1.0)))
    if other is not None:
        b.output(b.op("ABS", [other], (1, keeps), DType.INT8, 0.1))
    return b.build()


def test_an_operator_whose_tensors_alone_fit_the_budget_goes_to_the_cpu_and_says_why() -> None:
    whole = compile_whole(wide_softmax(), load_variant("ethos-u55-128")).usage.arena_bytes
    assert whole > 3 * 32 * 64
    compiled = compile_whole(wide_softmax(), with_budget(2 * 32 * 64))
    assert compiled.partitions == ()
    (violation,) = compiled.placement.ops[0].violations
    assert violation.rule == "MEMORY-ARENA"
    assert "4096 bytes which Shared_Sram gives the arena; its tensors alone fit" in violation.message


def test_nothing_goes_to_the_cpu_for_memory_if_that_does_not_make_the_model_fit() -> None:
    compiled = compile_whole(wide_softmax(keeps=8000), with_budget(3 * 32 * 64))
    assert all(op.device is Device.NPU for op in compiled.placement.ops)


def test_a_reshape_between_cpu_operators_is_not_compiled_and_says_why() -> None:
    content = write_model(reshape_between())
    compiled = compile_whole(content, load_variant("ethos-u55-128"), cpu=(1, 3))
    assert [partition.ops for partition in compiled.partitions] == [(0,), (4,)]
    assert [violation.rule for violation in compiled.placement.ops[2].violations] == ["JOB-WORK"]
    assert [op.kind for op in compiled.model.graphs[0].ops] == ["CUSTOM", "ABS", "RESHAPE", "ABS", "CUSTOM"]


def reshape_between() -> Model:
    """ABS, ABS, RESHAPE, ABS, ABS in a row."""
    wide, flat = ops.tensor((1, 4, 4, 8)), ops.tensor((1, 128))
    kinds = ("ABS", "ABS", "RESHAPE", "ABS", "ABS")
    tensors = tuple(replace(wide if index < 3 else flat, name=f"t{index}") for index in range(6))
    made = tuple(Op(kind, (index,), (index + 1,)) for index, kind in enumerate(kinds))
    made = tuple(replace(op, inputs=(2, 6)) if op.kind == "RESHAPE" else op for op in made)
    return Model((Graph("main", (*tensors, ops.constant((1, 128))), made, (0,), (5,)),))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1_000_000, 700_000, 500_000, 320_000])  # 317,360 bytes are the least that is found
@pytest.mark.skipif("mobilenet_v2_1.0_224_INT8" not in shared_models(), reason="the model is not beside the project")
def test_mobilenet_fits_small_arenas(budget: int) -> None:
    variant = with_budget(budget)
    compiled = assert_exact(shared_models()["mobilenet_v2_1.0_224_INT8"].read_bytes(), variant, (0,))
    assert compiled.usage.arena_bytes <= budget
    assert all(op.device is Device.NPU for op in compiled.placement.ops)


@pytest.mark.slow
@pytest.mark.skipif("mobilenet_v2_1.0_224_INT8" not in shared_models(), reason="the model is not beside the project")
def test_mobilenet_needs_no_more_memory_than_with_vela_where_size_counts() -> None:
    content = shared_models()["mobilenet_v2_1.0_224_INT8"].read_bytes()
    usage = compile_whole(content, load_variant("ethos-u55-128"), goal=Goal.SIZE).usage
    job = only_job(compile_with_vela(content, "ethos-u55-128"))
    assert usage.arena_bytes <= 1.05 * job.scratch_bytes
    assert usage.read_only_bytes + usage.command_stream_bytes <= 1.05 * (job.read_only.size + len(job.payload))


def test_compiling_loads_neither_interpreter_nor_simulator(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    code = (
        "import sys; from npu.cli.main import main; "
        f"main(['compile', {str(root / 'examples' / 'digits.tflite')!r}, '-o', {str(tmp_path / 'out.tflite')!r}]); "
        "print([name for name in sys.modules if name.startswith(('npu.runtime.kernels', 'sim.functional', 'sim.timing'))])"
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_arena_beyond_what_a_tensor_can_say_is_an_error() -> None:
    b = ModelBuilder()
    x = b.input((1, 60000, 40000, 1), DType.INT8, scale=0.1, zero_point=0)
    b.output(b.op("ABS", [x], (1, 60000, 40000, 1), DType.INT8, scale=0.1, zero_point=0))
    with pytest.raises(CompileError, match=r"arena: must take at most 2,147,483,647 bytes, .* got 2,400,000,000"):
        npu.compile(b.build(), "ethos-u55-128")
