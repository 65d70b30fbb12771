"""Addresses of views, element by element, against the layouts' definitions; and which storages become NHCWB16."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.compiler.ir import ElementwiseStep, PoolingStep, Storage, View
from npu.compiler.layout import choose_layouts, feature_map, storage_bytes
from npu.isa.operations import INT8, INT16, INT32, Elementwise, ElementwiseMode, Layout, PoolingMode, Scale

from tests.support.architectures.layers import Layers
from tests.support.ethos_u85 import exact_operations


def element_address(fm_base: int, strides: tuple[int, int, int], layout: Layout, size: int, y: int, x: int, c: int) -> int:
    """The hardware's address formula, written out."""
    if layout is Layout.NHWC:
        return fm_base + y * strides[0] + x * strides[1] + c * size
    return fm_base + y * strides[0] + (c // 16) * strides[2] + x * 16 * size + (c % 16) * size


def position(shape: tuple[int, int, int], layout: Layout, size: int, y: int, x: int, c: int) -> int:
    """Byte of an element in a dense map, by definition of the layouts."""
    height, width, depth = shape
    if layout is Layout.NHWC:
        return int(np.ravel_multi_index((y, x, c), shape)) * size
    bricks = -(-depth // 16)
    return int(np.ravel_multi_index((y, c // 16, x, c % 16), (height, bricks, width, 16))) * size


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("element", [INT8, INT16, INT32], ids=str)
def test_every_element_of_a_view_has_its_place(layout: Layout, element: object) -> None:
    shape = (3, 5, 40)
    storage = Storage("s", shape, element)  # type: ignore[arg-type]
    view = View(storage, shape, (1, 2, 16), (2, 3, 20), storage.element)
    fm = feature_map(view, layout, 1, 64, (2, 3, 4), channel=16)
    for y, x, c in np.ndindex(2, 3, 4):
        found = element_address(
            fm.addresses[0], (fm.stride_y, fm.stride_x, fm.stride_c), layout, storage.element.bytes, y, x, c
        )
        assert found == 64 + position(shape, layout, storage.element.bytes, y + 1, x + 2, c + 32)


def copy(source: View, target: View, mode: PoolingMode = PoolingMode.AVERAGE) -> PoolingStep:
    return PoolingStep(source=0, ifm=source, ofm=target, minimum=-128, maximum=127, mode=mode, scale=Scale())


def storage(depth: int, *, boundary: bool = False, element: object = INT8) -> Storage:
    return Storage("m", (4, 4, depth), element, None if not boundary else 0, boundary)  # type: ignore[arg-type]


def test_inner_maps_of_whole_bricks_are_bricked_and_boundary_maps_are_not() -> None:
    inner, outer = storage(32), storage(32, boundary=True)
    layouts = choose_layouts([copy(View.whole(outer), View.whole(inner))])
    assert layouts == {inner: Layout.NHCWB16, outer: Layout.NHWC}
    assert storage_bytes(inner, Layout.NHCWB16) == 4 * 4 * 32


@pytest.mark.parametrize("depth", [16, 32])
def test_a_boundary_map_of_one_brick_is_bricked_for_sums_for_it_has_the_same_bytes(depth: int) -> None:
    read, copied, inner = storage(depth, boundary=True), storage(depth, boundary=True), storage(depth)
    total = ElementwiseStep(
        source=0, ifm=View.whole(read), ofm=View.whole(inner), minimum=-128, maximum=127, mode=ElementwiseMode.ADD,
        ifm2=View.whole(inner), scale=Scale(),
    )  # fmt: skip
    layouts = choose_layouts([copy(View.whole(copied), View.whole(inner)), total])
    assert layouts[read] is (Layout.NHCWB16 if depth == 16 else Layout.NHWC)
    assert layouts[copied] is Layout.NHWC
    shape, places = (4, 4, depth), list(np.ndindex(4, 4, depth))
    plain, bricked = ([position(shape, layout, 1, *place) for place in places] for layout in (Layout.NHWC, Layout.NHCWB16))
    assert (plain == bricked) is (depth == 16)


@pytest.mark.parametrize(
    ("mode", "depth", "layout"),
    [
        (ElementwiseMode.ADD, 8, Layout.NHCWB16),
        (ElementwiseMode.SUB, 24, Layout.NHCWB16),
        (ElementwiseMode.ADD, 7, Layout.NHWC),  # more padding than channels
        (ElementwiseMode.MUL, 8, Layout.NHWC),  # reads both layouts alike
    ],
)
def test_operands_that_are_scaled_are_bricked_sooner(mode: ElementwiseMode, depth: int, layout: Layout) -> None:
    first, second, result = (View.whole(storage(depth)) for _ in range(3))
    step = ElementwiseStep(source=0, ifm=first, ifm2=second, ofm=result, minimum=-128, maximum=127, mode=mode, scale=Scale())
    layouts = choose_layouts([step])
    assert (layouts[first.storage], layouts[second.storage], layouts[result.storage]) == (layout, layout, Layout.NHWC)


@pytest.mark.parametrize("case", ["reshaped", "odd_channel_offset", "padding_does_not_pay", "wide_sum"])
def test_maps_that_cannot_or_should_not_be_bricked_stay_nhwc(case: str) -> None:
    target = View.whole(storage(32))
    source = View.whole(storage(32))
    mode = PoolingMode.AVERAGE
    if case == "reshaped":
        source = replace(source, full=(8, 2, 32), shape=(8, 2, 32))
    elif case == "odd_channel_offset":
        source = replace(source, offset=(0, 0, 8), shape=(4, 4, 16))
    elif case == "padding_does_not_pay":
        source = View.whole(storage(17))
    else:
        source, mode = View.whole(storage(32, element=INT32)), PoolingMode.REDUCE_SUM
    assert choose_layouts([copy(source, target, mode)])[source.storage] is Layout.NHWC


@pytest.mark.parametrize(
    ("target", "extent", "is_one_row"),
    [("ethos-u85-256", 40, True), ("ethos-u65-256", 40, True), ("ethos-u85-256", 4, False), ("ethos-u55-128", 40, False)],
)
def test_products_that_are_written_to_afar_are_one_row_where_that_saves_more_than_a_latency(
    target: str, extent: int, is_one_row: bool
) -> None:
    net = Layers(1)
    x = net.input(extent, extent, 32)
    content = net.finish(net.mul(net.conv(x, 32, k=1), net.conv(x, 32, k=1)))
    *_, product = [one for one in exact_operations(content, target) if isinstance(one, Elementwise)]
    assert {fm.layout is Layout.NHWC for fm in product.ifms} == {is_one_row}
    assert (product.ofm.depth <= 16) == is_one_row


@pytest.mark.parametrize(("target", "layout"), [("ethos-u85-1024", Layout.NHWC), ("ethos-u55-128", Layout.NHCWB16)])
def test_operands_of_sums_fill_a_part_of_a_brick_only_where_they_are_read_faster_so(target: str, layout: Layout) -> None:
    net = Layers(1)
    x = net.input(20, 20, 8)
    content = net.finish(net.conv(net.add(net.conv(x, 8, k=1), net.conv(x, 8, k=1)), 8, k=1))
    (total,) = [one for one in exact_operations(content, target) if isinstance(one, Elementwise)]
    assert {fm.layout for fm in total.ifms} == {layout}
