"""Streams whose result would depend on the order of blocks, or on a padding value that does not exist, are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.errors import SimulationError
from npu.hardware.catalogue import load_variant
from npu.isa.operations import (
    INT8,
    INT16,
    UINT8,
    ActivationFunction,
    Convolution,
    ElementType,
    FeatureMap,
    KernelOperation,
    Layout,
    WindowOperation,
)
from sim.functional.execute import check
from sim.memory import NpuMemory
from sim.undefined import overlaps_itself, undefined
from sim.verify.footprint import bytes_of_map

from tests.sim.verify.test_verifier import TARGET, changed, first_kernel, job_of, judge

EXTENTS = st.integers(1, 20)


@st.composite
def maps(draw: st.DrawFn) -> FeatureMap:
    element, layout = draw(st.sampled_from((INT8, INT16))), draw(st.sampled_from(Layout))
    step = 16 if layout is Layout.NHCWB16 else 1
    stride = st.integers(-400 // step, 400 // step).map(lambda n: n * step)
    addresses = st.integers(0, 60).map(lambda n: 4096 + 16 * n)
    return FeatureMap(
        region=1, height=draw(EXTENTS), width=draw(EXTENTS), depth=draw(EXTENTS), element=element, layout=layout, zero_point=0,
        addresses=draw(st.tuples(*[addresses] * 4)), tile_height_0=draw(EXTENTS), tile_height_1=draw(EXTENTS),
        tile_width_0=draw(EXTENTS), stride_y=draw(stride), stride_x=draw(st.integers(-40, 40)), stride_c=draw(stride),
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(fm=maps())
def test_a_map_overlaps_itself_where_its_bytes_are_fewer_than_its_elements_need(fm: FeatureMap) -> None:
    distinct = int(np.count_nonzero(bytes_of_map(fm).mask))
    assert overlaps_itself(fm) == (distinct < fm.height * fm.width * fm.depth * fm.element.bytes)


def test_a_huge_map_in_plain_order_does_not_overlap_itself() -> None:
    plain = FeatureMap(1, 4096, 4096, 64, INT8, Layout.NHWC, 0, (0, 0, 0, 0), 4096, 4096, 4096, 4096 * 64, 64, 1)
    assert not overlaps_itself(plain)
    assert overlaps_itself(replace(plain, stride_x=63))


def _overlapping(operation: KernelOperation) -> KernelOperation:
    return replace(operation, ofm=replace(operation.ofm, layout=Layout.NHWC, stride_x=operation.ofm.depth - 1))


def _padded(operation: KernelOperation, element: ElementType, zero_point: int) -> KernelOperation:
    """With a row of padding above, so that one row of the IFM less is read."""
    assert isinstance(operation, WindowOperation)
    ifm = replace(operation.ifm, element=element, zero_point=zero_point, height=operation.ifm.height - 1)
    return replace(operation, ifm=ifm, padding=replace(operation.padding, top=operation.padding.top + 1))


def _clamped(operation: KernelOperation, minimum: int, maximum: int) -> KernelOperation:
    activation = replace(operation.activation, function=ActivationFunction.LUT_0, minimum=minimum, maximum=maximum)
    return replace(operation, activation=activation)


UNDEFINED = {
    "a clamp that nothing passes": (lambda item: _clamped(item, 7, -5), "activation: minimum must be at most the maximum"),
    "pixels of an output share bytes": (_overlapping, "OFM: every element must have bytes of its own"),
    "padding that int8 does not have": (lambda item: _padded(item, INT8, 128), r"IFM zero point: must be in \[-128, 127\]"),
    "padding that uint8 does not have": (lambda item: _padded(item, UINT8, 256), r"IFM zero point: must be in \[0, 255\]"),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_what_the_hardware_leaves_open_is_neither_verified_nor_executed(case: str) -> None:
    change, message = UNDEFINED[case]
    decoded, index, operation = first_kernel(lambda item: isinstance(item, Convolution))
    wild = change(operation)
    findings = judge(job_of(TARGET), TARGET, changed(decoded, index, wild))
    assert "UNDEFINED" in {finding.rule for finding in findings}
    job = job_of(TARGET)
    memory = NpuMemory({region: np.zeros(size, np.uint8) for region, size in job.region_bytes.items()}, load_variant(TARGET))
    with pytest.raises(SimulationError, match=message):
        check(wild, memory)


@pytest.mark.parametrize("zero_point", [-128, 127])
def test_padding_with_any_value_of_the_type_is_defined(zero_point: int) -> None:
    _, _, operation = first_kernel(lambda item: isinstance(item, Convolution))
    assert undefined(_padded(operation, INT8, zero_point)) is None
