"""TOSA graphs compiled by Vela 5.2, run here, against the outputs of Arm's TOSA reference model.

No code of this project makes the models, the streams or the expected values (`tests.support.tosa_models`).
"""

from __future__ import annotations

import numpy as np
import pytest

from npu.api import disassemble, verify
from npu.numerics.arrays import Array
from npu.toolchain.listing import assemble

from tests.support.compatibility import TARGETS, simulate
from tests.support.tosa_models import ARCHIVE, models
from tests.support.vela_fork import compile_forked

QUICK = (
    "CONV2D-int32", "CONV2D-int16-channels", "RESCALE-int32-int16-single", "RESCALE-int32-int8-double", "MUL-int32-shift",
    "ARITHMETIC_RIGHT_SHIFT-int32", "REVERSE-int32-rows", "REDUCE_SUM-int32-rows", "MATMUL-int8",
)  # fmt: skip


def stored() -> dict[str, tuple[bytes, list[Array], list[Array]]]:
    """Model, inputs and expected outputs by name."""
    with np.load(ARCHIVE) as archive:
        arrays = dict(archive)
    names = [name for name in arrays if "/" not in name]
    ends = {
        name: {part: arrays[f"{name}/{part}"] for part in ("in0", "in1", "out0") if f"{name}/{part}" in arrays}
        for name in names
    }
    return {
        name: (arrays[name].tobytes(), [held[part] for part in held if part[:2] == "in"], [held["out0"]])
        for name, held in ends.items()
    }


STORED = stored()


def check(name: str, target: str) -> None:
    model, inputs, expected = STORED[name]
    compiled = compile_forked(model, target, suffix=".tosa")
    for ours, theirs in zip(simulate(compiled, inputs), expected, strict=True):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs, err_msg=f"{name}, {target}")
    assert verify(compiled) == []
    assert assemble(disassemble(compiled), compiled) == compiled


@pytest.mark.parametrize("name", QUICK)
def test_a_tosa_operator_equals_the_reference_model(name: str) -> None:
    check(name, TARGETS[QUICK.index(name) % len(TARGETS)])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_tosa_operator_equals_the_reference_model(target: str) -> None:
    for name in STORED:
        check(name, target)


def test_the_archive_holds_every_model() -> None:
    assert set(STORED) == set(models())


def test_a_narrowing_cast_saturates_in_velas_stream() -> None:
    """TOSA keeps the low bits; the stream's output is clamped to [-128, 127]."""
    model, (values,), _ = STORED["CAST-int16-int8"]
    wide = (values.astype(np.int32) * 200).astype(np.int16)
    (found,) = simulate(compile_forked(model, "ethos-u55-128", suffix=".tosa"), [wide])
    np.testing.assert_array_equal(found, np.clip(wide, -128, 127).astype(np.int8))
