"""Memory layout of storages: which are NHCWB16, how long each is, and the feature map that a view of one becomes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from npu.compiler.ir import ElementwiseStep, GatherStep, PoolingStep, Step, Storage, View
from npu.isa.operations import FeatureMap, Layout, PoolingMode
from npu.isa.rules import ALIGNMENT_BYTES
from npu.layouts import BRICK_DEPTH, MapShape, dense_steps, element_offset
from npu.machine.rules import round_up

_MAX_PADDING = 1 / 8
"""Padding channels that bricks may add before NHWC, which has none, is the better choice."""

_MAX_COSTLY_PADDING = 1.0
"""The same where NHWC costs more: operands of ADD and SUB, which take half as long again to read it, and maps behind a fast
memory of the NPU's own, where every 16 bytes of NHWC output are a burst that waits for the slow memory."""


def views(step: Step) -> tuple[View, ...]:
    """Every view that a step reads or writes, inputs first."""
    return (step.ifm, step.ofm) if step.ifm2 is None else (step.ifm, step.ifm2, step.ofm)


def reads(step: Step) -> tuple[View, ...]:
    """Every view that a step reads."""
    return views(step)[:-1]


def choose_layouts(steps: Iterable[Step], far: Collection[Storage] = ()) -> dict[Storage, Layout]:
    """The layout of every storage that `steps` use: NHCWB16 where every use of it allows that and it pays.

    `far` are the maps known to lie behind a fast memory of the NPU's own.
    """
    scaled, of_sums = set[Storage](), set[Storage]()
    is_allowed: dict[Storage, bool] = {}
    for step in steps:
        used = views(step)
        for view in used:
            storage = view.storage
            if is_allowed.setdefault(storage, True) and (not _allows_bricks(view) or isinstance(step, GatherStep)):
                is_allowed[storage] = False
        if _scales_operands(step):
            scaled.update(view.storage for view in used[:-1])
            of_sums.update(view.storage for view in used)
        elif isinstance(step, PoolingStep) and step.mode is PoolingMode.REDUCE_SUM and step.ifm.element.bits == 32:
            is_allowed[step.ifm.storage] = False
    costly = scaled.union(far)
    return {
        storage: _preferred(storage, is_costly=storage in costly, is_of_sum=storage in of_sums) if allowed else Layout.NHWC
        for storage, allowed in is_allowed.items()
    }


def _scales_operands(step: Step) -> bool:
    return isinstance(step, ElementwiseStep) and step.mode.scales_operands and step.ifm.element.bits < 32


def lies_alike(storage: Storage) -> bool:
    """Whether a map has the same bytes in both layouts: one full brick for each position."""
    return storage.shape[2] == BRICK_DEPTH


def _preferred(storage: Storage, *, is_costly: bool, is_of_sum: bool) -> Layout:
    """Bricks where they pay; whole ones of a single position lie as NHWC would, and ADD and SUB read them faster.

    So they read those of a boundary where the bytes are the same; everybody else reads a boundary as NHWC.
    """
    depth = storage.shape[2]
    is_seen = storage.is_boundary and not (is_of_sum and lies_alike(storage))
    is_plain = is_seen or storage.data is not None or (storage.shape[:2] == (1, 1) and depth % BRICK_DEPTH != 0)
    pays = round_up(depth, BRICK_DEPTH) <= depth * (1 + (_MAX_COSTLY_PADDING if is_costly else _MAX_PADDING))
    return Layout.NHCWB16 if pays and not is_plain else Layout.NHWC


def _allows_bricks(view: View) -> bool:
    return view.full == view.storage.shape and view.offset[2] % BRICK_DEPTH == 0 and view.pitch is None


def storage_bytes(storage: Storage, layout: Layout) -> int:
    """Bytes of a storage in a layout."""
    height, width, depth = storage.shape
    channels = round_up(depth, BRICK_DEPTH) if layout is Layout.NHCWB16 else depth
    return height * width * channels * storage.element.bytes


def feature_map(
    view: View,
    layout: Layout,
    region: int,
    address: int,
    shape: MapShape | None = None,
    channel: int = 0,
    before: FeatureMap | None = None,
) -> FeatureMap:
    """The feature map of `view` when its storage starts at byte `address` of `region`.

    `shape` replaces the view's own where an operation reads or writes less of it; `channel` is added to its channel offset.
    Tiles 1 and 3 are never used: the height of tile 1 is the same for all maps, so that streams say it once.
    Strides that do not matter are those of the map `before`, if there is one and they are aligned: the one that the layout
    ignores, from brick to brick in NHWC and from column to column in NHCWB16, that of rows of a map of one row, that of bricks
    of a map of one brick. But that from pixel to pixel always matters: it tells whether they lie without gaps.
    """
    height, width, depth = shape or view.shape
    full_height, full_width, full_depth = view.full
    y, x, c = view.offset[0], view.offset[1], view.offset[2] + channel
    size = view.element.bytes
    is_bricked = layout is Layout.NHCWB16
    steps = dense_steps(full_width, full_depth, size, is_bricked=is_bricked)
    if not is_bricked:
        row, pixel = view.pitches
        steps = (row * size, pixel * size, steps[2])
    stride_y, stride_x, stride_c = steps[0], steps[1], steps[2] if is_bricked else size
    if before is not None:
        alignment = ALIGNMENT_BYTES if is_bricked else size
        if max(height, full_height) == 1 and before.stride_y % alignment == 0:
            stride_y = before.stride_y
        if is_bricked:
            stride_x = before.stride_x
        if not is_bricked or (max(depth, full_depth) <= BRICK_DEPTH and before.stride_c % alignment == 0):
            stride_c = before.stride_c
    start = address + element_offset(y, x, c, steps, size)
    above, wrapped = height, 0
    if view.storage.is_rolling and view.row_places:
        first, apart = view.row_places
        until = -((first - view.storage.shape[0]) // apart)
        if height > until:
            above, wrapped = until, start - (view.storage.shape[0] // apart - until) * steps[0]
    return FeatureMap(
        region=region, height=height, width=width, depth=depth, element=view.element, layout=layout,
        zero_point=view.zero_point, addresses=(start, 0, wrapped, 0), tile_height_0=above, tile_height_1=1,
        tile_width_0=width, stride_y=stride_y, stride_x=stride_x, stride_c=stride_c,
    )  # fmt: skip
