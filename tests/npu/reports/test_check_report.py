"""The report of a check: devices, partitions, what crosses them, costs, and what to change first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.api import check_report, compile, time_model
from npu.errors import ModelError
from npu.graph.attributes import CallOnceOptions, IfOptions, VarHandleOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.reports.check_report import CheckReport, Measured, build_check_report
from npu.tflite.reader import read_model

from tests.support import single_ops as ops
from tests.support.builder import ModelBuilder
from tests.support.check_models import mixed_model
from tests.support.shared import shared_models

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
VARIANT = load_variant("ethos-u55-128")


def report_of(model: Model, profile: str = "v0.1", measured: Measured | None = None) -> CheckReport:
    return build_check_report(model, check(model, profile=profile, variant=VARIANT), "m.tflite", VARIANT, measured)


@pytest.fixture(scope="module")
def report() -> CheckReport:
    return report_of(read_model(mixed_model()))


def test_every_operator_has_a_device(report: CheckReport) -> None:
    assert [row.device for row in report.operators] == [
        "npu", "xnnpack", "npu", "xnnpack", "npu", "xnnpack", "reference",
    ]  # fmt: skip


def test_macs_are_those_of_the_shapes(report: CheckReport) -> None:
    # 20x20 and 4x4 outputs of 16 channels: 3x3 kernels over 8 and 16 channels
    assert [row.base.macs for row in report.operators] == [400 * 16 * 72, 16 * 16 * 144, 16 * 16 * 144, 0, 0, 0, 0]
    assert sum(row.mac_share for row in report.operators) == pytest.approx(1.0)
    assert report.operators[0].mac_share == 400 * 16 * 72 / report.totals.macs


def test_partitions_name_what_they_take_and_hand_over(report: CheckReport) -> None:
    assert [part.operators for part in report.partitions] == [(0,), (2,), (4,)]
    crossings = [[(read.tensor, read.bytes, read.peer) for read in (*part.reads, *part.writes)] for part in report.partitions]
    assert crossings == [
        [("image", 3200, "model"), ("features <& more>", 6400, "1")],
        [("coarse|steps", 256, "1"), ("mixed", 256, "3")],
        [("turned", 256, "3"), ("rectified", 256, "5")],
    ]


def test_operators_between_partitions_split_and_those_after_the_last_do_not(report: CheckReport) -> None:
    assert [row.base.index for row in report.splitting] == [1, 3]


def test_the_parts_add_up_to_the_total(report: CheckReport) -> None:
    spent = sum(row.base.cycles or 0 for row in report.operators)
    assert report.totals.total_cycles == spent + report.overhead_cycles
    assert report.job_starts == 3
    assert sum(device.cycles for device in report.devices.values()) == spent
    assert sum(device.operators for device in report.devices.values()) == 7
    assert report.totals.npu_cycles == report.devices["npu"].cycles


# Around a job with so many bytes in and out: cache lines of 32 bytes, start, interrupt; the model's own are copied
def around(reads: int, writes: int) -> int:
    cpu, ratio = VARIANT.cpu, VARIANT.system.clock_hz / VARIANT.cpu.clock_hz
    lines = (-(-reads // cpu.cache_line_bytes), -(-writes // cpu.cache_line_bytes))
    caches = sum(round(count * cpu.cache_cycles_per_line * ratio) for count in lines)
    return caches + round(cpu.job_start_cycles * ratio) + round(cpu.interrupt_cycles * ratio)


def test_the_cpu_spends_cycles_around_jobs_and_on_copies(report: CheckReport) -> None:
    copies = copy_of(3200) + copy_of(1024)
    assert report.overhead_cycles == around(3200, 6400) + around(256, 256) + around(256, 256) + copies


def test_a_supported_operator_saves_its_cycles_and_a_hand_over(report: CheckReport) -> None:
    total, row = report.totals.total_cycles, report.operators[3]
    assert total is not None
    merged = around(256, 256) - 2 * around(256, 256)
    assert row.total_if_supported == total - row.cpu_cycles + row.npu_cycles + merged
    last = report.operators[6]
    assert last.total_if_supported == total - last.cpu_cycles + last.npu_cycles + around(1024, 1024)


def test_the_ranking_starts_with_what_saves_most(report: CheckReport) -> None:
    saved = [item.saved_cycles for item in report.ranking]
    assert saved == sorted(saved, reverse=True)
    assert report.ranking[0].what == "operator 1 CONV_2D"
    assert all(item.total_cycles + item.saved_cycles == report.totals.total_cycles for item in report.ranking)


def chain(kinds: list[str], shape: tuple[int, ...] = (1, 8, 8, 16)) -> Model:
    """Operators of one input and output in a row, all maps of one shape."""
    tensor = ops.tensor(shape)
    tensors = tuple(replace(tensor, name=f"t{index}") for index in range(len(kinds) + 1))
    made = tuple(Op(kind, (index,), (index + 1,)) for index, kind in enumerate(kinds))
    return Model((Graph("main", tensors, made, (0,), (len(kinds),)),))


def test_a_kind_of_which_several_are_on_the_cpu_is_ranked_as_a_whole() -> None:
    report = report_of(chain(["RELU", "SIGN", "RELU", "SIGN", "RELU"]))
    assert {item.what for item in report.ranking} == {"operator 1 SIGN", "operator 3 SIGN", "every SIGN (2)"}
    every = next(item for item in report.ranking if item.what == "every SIGN (2)")
    assert every.operators == ("1", "3")
    assert every.total_cycles == sum(row.npu_cycles for row in report.operators) + around(1024, 1024) + 2 * copy_of(1024)


def copy_of(size: int) -> int:
    return round(size * VARIANT.cpu.copy_cycles_per_byte * VARIANT.system.clock_hz / VARIANT.cpu.clock_hz)


def test_a_model_of_many_cpu_operators_asks_only_about_the_costliest() -> None:
    report = report_of(chain(["SIGN", "RELU"] * 300))
    asked = [row for row in report.operators if row.total_if_supported is not None]
    assert 1 <= len(asked) < 300
    assert any(item.what == "every SIGN (300)" for item in report.ranking)


def test_measured_cycles_replace_the_estimates_of_the_npu() -> None:
    model = read_model(mixed_model())
    report = report_of(model, measured=Measured({(0, 0): 1000, (0, 2): 200}, {"sram_bytes": 4096}))
    assert [row.base.cycles for row in report.operators if row.device == "npu"] == [1000, 200, 0]
    assert report.cycles_from == "compilation"
    assert report.totals.sram_bytes == 4096


def test_every_subgraph_is_in_the_report() -> None:
    first, second = ops.conv(stride=(4, 4)).graphs[0], ops.conv().graphs[0]
    report = report_of(Model((first, second)))
    assert [(row.graph, row.number, row.device) for row in report.operators] == [(0, "0", "xnnpack"), (1, "1:0", "npu")]
    assert [(part.graph, part.number) for part in report.partitions] == [(1, 0)]


def test_the_xnnpack_profile_tells_the_two_cpu_paths_apart() -> None:
    model = read_model(mixed_model())
    report = report_of(model, "xnnpack")
    assert {row.base.placement for row in report.operators} == {"cpu"}
    assert {row.device for row in report.operators} == {"reference"}
    floating = ops.op_model("ABS", [ops.tensor((1, 4), ops.DType.FLOAT32)], [ops.tensor((1, 4), ops.DType.FLOAT32)])
    assert [row.device for row in report_of(floating, "xnnpack").operators] == ["xnnpack"]


def test_a_job_of_a_compiled_file_is_on_the_npu() -> None:
    tensor = ops.tensor((1, 8))
    graph = Graph("main", (tensor,) * 6, (Op("CUSTOM", (0, 1, 2, 3, 4), (5,), custom_code="ethos-u"),), (4,), (5,))
    assert [row.device for row in report_of(Model((graph,))).operators] == ["npu"]


def test_control_flow_and_absent_tensors_have_a_place() -> None:
    flow = Graph("main", (ops.tensor((1,)),) * 3, (Op("IF", (0, 1), (2,), IfOptions(0, 0)), Op("RELU", (), ())), (0, 1), (2,))
    rows = report_of(Model((flow,))).operators
    assert [(row.base.type, row.base.name) for row in rows] == [("IF", "t"), ("RELU", "")]
    assert rows[0].device == "reference"


# Jobs that would only copy


def test_a_reshape_between_cpu_operators_is_no_job_of_its_own_and_says_why() -> None:
    model = chain(["RELU", "SIGN", "SQUEEZE", "SIGN", "RELU"], (8, 8, 16))
    report = report_of(model, "u55-u65")
    assert [row.base.placement for row in report.operators] == ["npu", "cpu", "cpu", "cpu", "npu"]
    assert [part.operators for part in report.partitions] == [(0,), (4,)]
    (reason,) = report.operators[2].base.violations
    assert reason.rule == "JOB-WORK"
    assert reason.message.startswith("SQUEEZE computes nothing")
    assert report.operators[2].base.reasons == (reason.message,)
    assert {item.what for item in report.ranking} == {"operator 1 SIGN", "operator 3 SIGN", "every SIGN (2)"}


def test_a_reshape_joins_the_job_of_an_operator_that_would_be_supported() -> None:
    report = report_of(chain(["SIGN", "SQUEEZE", "SIGN"], (8, 8, 16)), "u55-u65")
    total, row = report.totals.total_cycles, report.operators[0]
    assert total is not None
    saved = row.cpu_cycles + report.operators[1].cpu_cycles - row.npu_cycles
    assert row.total_if_supported == total - saved + around(1024, 1024)


def test_a_profile_that_is_read_as_a_document_gets_no_reason_that_is_not_in_it() -> None:
    model = chain(["SIGN", "RESHAPE", "SIGN"])
    graph = model.graphs[0]
    shape = replace(ops.constant((1, 8, 8, 16)), name="shape")
    made = (graph.ops[0], replace(graph.ops[1], inputs=(1, 4)), graph.ops[2])
    constant_shape = Model((replace(graph, tensors=(*graph.tensors, shape), ops=made),))
    report = report_of(constant_shape, "v0.1")
    assert [row.base.placement for row in report.operators] == ["cpu", "npu", "cpu"]
    assert [row.base.placement for row in report_of(constant_shape, "u55-u65").operators] == ["cpu"] * 3


@pytest.mark.parametrize(("profile", "expected"), [("u55-u65", ["cpu"] * 3), ("v0.1", ["cpu", "npu", "cpu"])])
def test_check_in_python_is_the_placement_of_the_report(profile: str, expected: list[str]) -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 8), DType.INT8, scale=0.5)
    axis = b.constant(np.array([1], np.int32))
    x = b.op("REVERSE_V2", [x, axis], (1, 4, 4, 8), DType.INT8, 0.5)
    x = b.op("RESHAPE", [x, b.constant(np.array([1, 128], np.int32))], (1, 128), DType.INT8, 0.5)
    b.output(b.op("REVERSE_V2", [x, axis], (1, 128), DType.INT8, 0.5))
    found = npu.check(b.build(), profile=profile)
    assert [op.device.value for op in found.ops] == expected
    assert [row.base.placement for row in check_report(b.build(), profile=profile).operators] == expected


@pytest.mark.skipif("movenet_lightning_int8" not in shared_models(), reason="the model is not here")
def test_reshapes_and_single_values_of_movenet_are_no_jobs_of_their_own() -> None:
    ops = npu.check(shared_models()["movenet_lightning_int8"]).ops
    assert sum(op.device is Device.NPU for op in ops) == 128
    alone = [op.index for op in ops if [violation.rule for violation in op.violations] == ["JOB-WORK"]]
    assert alone == [93, 94, 95, 98, 99, 129, 142, 153]


def test_the_memory_of_a_compiled_job_is_no_data_that_it_takes() -> None:
    compiled = compile(DIGITS).content
    (part,) = check_report(compiled).partitions
    assert len(part.reads) == 1


def test_a_compiled_file_is_timed_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "compiled.tflite"
    path.write_bytes(compile(DIGITS).content)
    report = check_report(path, is_compiled=True)
    assert [row.base.type for row in report.operators] == ["ethos-u"]
    assert report.totals.total_cycles == time_model(path).report.totals.total_cycles
    assert report.cycles_from == "compilation"


def two_graphs(caller: str, options: IfOptions | CallOnceOptions) -> bytes:
    """ABS of 64 x 64 in the main subgraph, of 16 x 16 in the one that the options name."""
    main, other = ModelBuilder(), ModelBuilder("other")
    for builder, size in ((main, 64), (other, 16)):
        is_called_once = builder is other and caller == "CALL_ONCE"
        shape = (1, size, size, 8)
        x = builder.constant(np.zeros(shape, np.float32)) if is_called_once else builder.input(shape, DType.FLOAT32)
        y = builder.op("ABS", [x], shape, DType.FLOAT32)
        if is_called_once:
            handle = builder.op("VAR_HANDLE", [], (1,), DType.RESOURCE, attributes=VarHandleOptions(shared_name="v"))
            builder.multi_op("ASSIGN_VARIABLE", [handle, y], [])
        else:
            builder.output(y)
    main.subgraph(other)
    inputs = [main.input((1,), DType.BOOL), 0] if caller == "IF" else []
    outputs = [main.tensor((1, 16, 16, 8), DType.FLOAT32)] if caller == "IF" else []
    main.multi_op(caller, inputs, outputs, attributes=options)
    return main.build()


def test_what_only_initialises_is_listed_and_not_part_of_the_total() -> None:
    report = check_report(two_graphs("CALL_ONCE", CallOnceOptions(1)))
    assert sum(row.base.cycles or 0 for row in report.operators if row.graph == 1) > 0
    counted = sum(row.base.cycles or 0 for row in report.operators if row.graph == 0)
    assert report.totals.total_cycles == counted + report.overhead_cycles
    assert sum(device.cycles for device in report.devices.values()) == counted


def test_a_model_that_cannot_be_compiled_is_judged_by_the_rules_and_says_why() -> None:
    b = ModelBuilder()
    x = b.input((1, 1, 8, 8), DType.INT8, scale=0.5, shape_signature=(1, -1, 8, 8))
    b.output(b.op("ABS", [x], (1, 1, 8, 8), DType.INT8, 0.5))
    report = check_report(b.build())
    assert report.cycles_from == "estimate"
    (gate,) = report.failed_gates
    assert gate.condition == "compiles"
    assert gate.failure is not None
    assert gate.failure.startswith("npu compile refuses the model: input")
    assert "--input-shape" in gate.failure
    with pytest.raises(ModelError, match="--input-shape"):
        check_report(b.build(), is_compiled=True)


def test_profiles_of_documents_are_read_without_compiling() -> None:
    for profile in ("v0.1", "xnnpack"):
        report = check_report(DIGITS, profile=profile)
        assert report.cycles_from == "estimate"
        assert report.totals.sram_bytes is None
    assert check_report(DIGITS, profile="v0.1", is_compiled=True).cycles_from == "compilation"


def test_an_operator_of_one_graph_is_asked_about_with_the_cycles_of_the_others() -> None:
    report = check_report(two_graphs("IF", IfOptions(1, 1)))
    rows = {operator.graph: operator for operator in report.operators if operator.base.type == "ABS"}
    cycles = {graph: row.base.cycles or 0 for graph, row in rows.items()}
    total = report.totals.total_cycles
    assert cycles[0] > 4 * cycles[1] > 0
    for graph, row in rows.items():
        assert row.total_if_supported is not None
        assert total - cycles[graph] <= row.total_if_supported < total
