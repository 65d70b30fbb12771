"""What `npu check` says of a model is what `npu compile` makes of it and what `npu run` times: placement, cycles, memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import npu
from npu.api import check_report
from npu.compiler.targets import compiler_targets
from npu.errors import UserError
from npu.graph.ethos_u import is_compiled
from npu.toolchain.session import Session

from tests.support.shared import shared_models

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = {"digits": EXAMPLES / "digits.tflite", "partial": EXAMPLES / "digits_partial.tflite"} | {
    name: path for name, path in shared_models().items() if name in ("okay_nabu_stream_int8", "dtln_int8", "rnnoise_int8")
}
MEMORY = ("sram_bytes", "dram_bytes", "flash_bytes")
CYCLES = ("total_cycles", "npu_cycles", "cpu_cycles")


def assert_the_same(path: Path, target: str) -> None:
    """The compiled file is timed as it was written, read anew."""
    session = Session(npu.Hardware(target))
    checked, compiled = check_report(path, session=session), npu.compile(path, session=session)
    timed = npu.time_model(compiled.content, target=target).report
    for name in MEMORY:
        assert getattr(checked.totals, name) == getattr(compiled.report.totals, name), name
    for name in CYCLES:
        assert getattr(checked.totals, name) == getattr(timed.totals, name), name
    placed = [(row.graph, row.base.index, row.base.placement) for row in checked.operators]
    assert placed == [(op.graph, op.index, op.device.value) for op in compiled.compiled_model.placement.ops]
    assert checked.cycles_from == "compilation"


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("name", FEW)
def test_a_check_tells_what_is_compiled(name: str, target: str) -> None:
    assert_the_same(FEW[name], target)


@pytest.mark.slow
@pytest.mark.parametrize("target", compiler_targets())
@pytest.mark.parametrize("name", sorted(shared_models()))
def test_a_check_tells_what_is_compiled_of_every_model(name: str, target: str) -> None:
    path = shared_models()[name]
    try:
        is_plain = not is_compiled(npu.load(path))
    except UserError:
        is_plain = False
    if is_plain:
        assert_the_same(path, target)
    else:
        with pytest.raises(UserError):
            npu.compile(path, target)
