"""The reference page: checked in as generated, and it says what the table says."""

from __future__ import annotations

import pytest

from npu.isa.document import reference_page
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.family import Family

from tests.support.shared import ROOT


def test_the_page_is_checked_in_as_generated() -> None:
    page = ROOT / "docs" / "command-stream-reference.md"
    assert page.read_text() == reference_page((ETHOS_U55_U65, ETHOS_U85)), (
        f"write it anew: npu isa --output {page.relative_to(ROOT)}"
    )


@pytest.mark.parametrize("family", [ETHOS_U55_U65, ETHOS_U85], ids=["u55-u65", "u85"])
def test_every_command_has_one_row(family: Family) -> None:
    page = reference_page([family])
    assert [page.count(f"| `{command.name}` |") for command in family.commands] == [1] * len(family.commands)


def test_rows_are_as_written_out() -> None:
    lines = reference_page([ETHOS_U55_U65]).splitlines()
    assert (
        "| 258 (0x102) | `NPU_SET_IFM_PAD_RIGHT` | U55, U65 | `value` | 7..0 | 0..128 "
        "| `padding.right` | columns of padding on the right |" in lines
    )
    assert "|  |  |  | `stride_y_m1` | 9, 1 | 0..3 | `kernel.stride_y` - 1 | vertical stride, minus 1 |" in lines
    assert "| 291 (0x123) | `NPU_SET_PARALLEL_MODE` | U65 | `mode` | 0 | 0 SINGLE_CORE, 1 DUAL_CORE_DEPTH |" in "\n".join(lines)
