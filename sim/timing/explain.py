"""Where the cycles of a kernel operation go: the same operation scheduled again with one cause of loss after another removed.

Each part is the difference between two evaluations of the block model, so that the parts of an operation add up to its
cycles. In the order in which the causes are removed:

- latency: memory latencies and limits of outstanding transactions become nothing;
- re-fetch: every input element and every weight crosses its port once;
- memory: nothing crosses a port;
- output unit: the output unit takes no time (for operations that the output unit bounds: the MAC array);
- start-up: hand-over, and what is left of filling and draining the pipeline;
- weight decode: the decoder hands over weights at any rate;
- channel padding: as many channels as fill the micro-blocks, cycles scaled back to the channels that are there;
- block remainder: as many rows and columns as fill the blocks, scaled back likewise;
- kernel under-use: what then is above one full MAC array: steps of kernel elements, bubbles, depthwise lanes, 16-bit data.

No part is negative: where taking a cause away would leave the operation longer (other blocks arrive at the ports in another
order, or a later cause takes its place), that cause counts nothing, and the later ones only what is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.operations import Convolution, DepthwiseConvolution, Elementwise, Pooling
from npu.layouts import BRICK_DEPTH
from npu.machine.kernels import rows as k
from npu.machine.parameters import machine_rows, port_rows
from npu.machine.rules import ARRAY_CHANNELS, SET_DEPTH, deep_set_depth, ifm_block_depth, round_up
from npu.records import dataclass
from sim.timing.preparation import engine_rows
from sim.timing.scheduler import finish_time
from sim.timing.stream_rows import StreamRows, expand_rows, stream_rows

PARTS = (
    "latency",
    "re-fetch",
    "memory",
    "output unit",
    "MAC array",
    "start-up",
    "weight decode",
    "channel padding",
    "block remainder",
    "kernel under-use",
)
"""Causes of loss of an operation that runs alone; the rest is the ideal."""

BlockOperation = Convolution | DepthwiseConvolution | Pooling | Elementwise

_MIXING = (k.CONV_DEPTH_FIRST, k.CONV_PART_KERNEL, k.REDUCE_SUM)
_TRAFFIC = ("ifm_beats", "ifm_bursts", "ifm2_beats", "stream_bytes", "ofm_beats", "ofm_bursts")
_TRAVERSALS = {k.CONV_DEPTH_FIRST, k.CONV_PART_KERNEL}
_MAX_STEPS = 64
"""How far from the present extent a free shape is looked for."""
_CHEAPER = 0.99
"""Part of the present cycles that a smaller extent may take at most to be called cheaper."""


@dataclass(frozen=True, slots=True)
class FreeShape:
    """An extent of an operation that may change: up to `free_up_to` costs the same, `cheaper` is the next that saves a percent.

    `cheaper_cycles` are the cycles of the MAC array (of the output unit where it does all the work) at that extent, against
    `cycles` at the present one; `cheaper` is 0 if no smaller extent does.
    """

    axis: str
    extent: int
    free_up_to: int
    cheaper: int
    cycles: int
    cheaper_cycles: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """One kernel operation on its own: `cycles` = `ideal` + the sum of `parts` (not negative), by the names of `PARTS`."""

    cycles: float
    ideal: float
    parts: dict[str, float]
    shapes: tuple[FreeShape, ...]
    unit_cycles: float
    """Cycles of the unit that does the work, as in `FreeShape.cycles`."""


def explain_operation(operation: BlockOperation, variant: Variant, *, with_shapes: bool = True) -> Explanation:
    """Schedules `operation` alone and again without each cause of loss; `with_shapes` also looks for free shapes."""
    stream = stream_rows([replace(operation, blockdep=0)], variant, stream_words=0)
    ports, engines = port_rows(variant), engine_rows(variant)
    alone = finish_time(stream, ports, engines)
    ideal_ports = _without_latency(ports)
    steps = [("latency", finish_time(stream, ideal_ports, engines))]
    steps.append(("re-fetch", finish_time(_fetched_once(stream), ideal_ports, engines)))
    silent = _without(stream, *_TRAFFIC)
    steps.append(("memory", finish_time(silent, ideal_ports, engines)))
    row = stream.operations
    base = _ExplanationBase(row, variant)
    if base.uses_macs:
        steps.append(("output unit", finish_time(_without(silent, "output_cycles"), ideal_ports, engines)))
    else:
        steps.append(("MAC array", finish_time(_without(silent, "mac_cycles"), ideal_ports, engines)))
    steps.append(("start-up", base.cycles(row)))
    steps.append(("weight decode", base.cycles(row, has_decoder=False)))
    padded, share = base.pad_depth(row)
    steps.append(("channel padding", base.cycles(padded, has_decoder=False) * share))
    filled, plane_share = base.pad_plane(padded)
    last = base.cycles(filled, has_decoder=False) * share * plane_share
    steps.append(("block remainder", last))
    ideal = base.products(row) / variant.accelerator.macs_per_cycle if base.is_mac else last
    steps.append(("kernel under-use", ideal))
    ideal = min(ideal, alone)
    parts, before = {}, alone
    for name, cycles in steps:
        after = min(max(cycles, ideal), before)
        parts[name] = before - after
        before = after
    return Explanation(alone, ideal, parts, _free_shapes(base, row) if with_shapes else (), base.cycles(row))


_ALL_AT_ONCE = 1 << 40
"""Weights per cycle by which they never hold the MAC array up."""


class _ExplanationBase:
    """Cycles of the unit that does the work of an operation, for variations of its row, each a table of one row."""

    def __init__(self, row: NDArray[Any], variant: Variant) -> None:
        self._variant = variant
        machine = machine_rows(variant)
        undecoded = machine.copy()
        undecoded["weights_per_cycle"] = _ALL_AT_ONCE
        self._machines = {True: machine, False: undecoded}
        self._known: dict[tuple[bytes, bool], tuple[float, float]] = {}
        macs, outputs = self._both(row, has_decoder=True)
        self.is_mac = row["kind"][0] in (k.CONV_DEPTH_FIRST, k.CONV_PART_KERNEL, k.DEPTHWISE)
        self.uses_macs = self.is_mac or macs > outputs

    def cycles(self, row: NDArray[Any], *, has_decoder: bool = True) -> float:
        macs, outputs = self._both(row, has_decoder=has_decoder)
        return macs if self.uses_macs else outputs

    def _both(self, row: NDArray[Any], *, has_decoder: bool) -> tuple[float, float]:
        key = row.tobytes(), has_decoder
        if key not in self._known:
            fetches = expand_rows(row, self._machines[has_decoder])
            self._known[key] = float(fetches["mac_cycles"].sum()), float(fetches["output_cycles"].sum())
        return self._known[key]

    def products(self, row: NDArray[Any]) -> int:
        """Multiply-accumulates of the operation."""
        op = row[0]
        taps = int(op["kernel_height"] * op["kernel_width"]) * (int(op["ifm"]["depth"]) if op["kind"] in _MIXING else 1)
        return int(op["ofm"]["height"] * op["ofm"]["width"] * op["ofm"]["depth"]) * taps

    def pad_depth(self, row: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """The row with channels that fill the micro-blocks and the dot products, and the share of them that is there."""
        padded = row.copy()
        op, full = row[0], padded[0]
        unit = int(op["ublock_depth"]) * self._variant.accelerator.cores
        if op["kind"] == k.ELEMENTWISE:
            unit = BRICK_DEPTH
        full["ofm"]["depth"] = round_up(op["ofm"]["depth"], unit)
        full["block_depth"] = round_up(op["block_depth"], unit)
        share = float(op["ofm"]["depth"] / full["ofm"]["depth"])
        if op["kind"] in _MIXING:
            lanes = {k.CONV_DEPTH_FIRST: SET_DEPTH, k.CONV_PART_KERNEL: ARRAY_CHANNELS, k.REDUCE_SUM: 1}[int(op["kind"])]
            lanes = min(lanes, 16) if op["ifm"]["element_bytes"] > 1 else lanes
            lanes = min(lanes, ARRAY_CHANNELS) if op["set_depth"] else lanes
            full["ifm"]["depth"] = round_up(op["ifm"]["depth"], lanes)
            share *= float(op["ifm"]["depth"] / full["ifm"]["depth"])
        if op["kind"] in _TRAVERSALS:
            _fit_ifm_block(full)
        return padded, share

    def pad_plane(self, row: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """The row with rows and columns that fill the micro-blocks, and the share of them that is there."""
        padded = row.copy()
        op, full = row[0], padded[0]
        for axis in ("height", "width"):
            extent, block, unit = op["ofm"][axis], op[f"block_{axis}"], op[f"ublock_{axis}"]
            full[f"block_{axis}"] = round_up(block, unit)
            full["ofm"][axis] = round_up(extent, full[f"block_{axis}"] if extent > block else unit)
        share = float(op["ofm"]["height"] * op["ofm"]["width"] / (full["ofm"]["height"] * full["ofm"]["width"]))
        return padded, share


def _without_latency(ports: NDArray[Any]) -> NDArray[Any]:
    """Ports whose transfers are only bound by their data beats and the windows of an adapter."""
    ideal = ports.copy()
    for channel in ("read", "write"):
        for cycles in ("latency", "burst_cycles"):
            ideal[channel][cycles] = 0.0
    return ideal


def _fetched_once(stream: StreamRows) -> StreamRows:
    """The stream with the fetches of its input scaled down to one read of the map, and weights that are streamed once."""
    rows = stream.operations.copy()
    rows["streams_once"] = 1
    fetches = stream.fetches.copy()
    row = rows[0]
    blocks = fetches["is_first"].cumsum() - 1
    depth_blocks = max(1, -(-int(row["ofm"]["depth"]) // int(row["block_depth"])))
    fetches["stream_bytes"][blocks >= depth_blocks] = 0
    beat = int(stream.beat_bytes)
    ifm = row["ifm"]
    depth = round_up(int(ifm["depth"]), BRICK_DEPTH) if ifm["layout"] == 1 else int(ifm["depth"])
    whole = -(-int(ifm["height"] * ifm["width"]) * depth * int(ifm["element_bytes"]) // beat)
    for column in ("ifm_beats", "ifm_bursts"):
        total = int(fetches[column].sum())
        wanted = total * whole // max(1, int(stream.fetches["ifm_beats"].sum()))
        if total > wanted:
            fetches[column] = np.diff(fetches[column].cumsum() * wanted // total, prepend=0)
    return replace(stream, operations=rows, fetches=fetches)


def _without(stream: StreamRows, *costs: str) -> StreamRows:
    """The stream whose fetches do not have these costs."""
    fetches = stream.fetches.copy()
    for cost in costs:
        fetches[cost] = 0
    return replace(stream, fetches=fetches)


def _free_shapes(base: _ExplanationBase, row: NDArray[Any]) -> tuple[FreeShape, ...]:
    """Extents that could grow for nothing, of operations of the MAC array."""
    if not base.is_mac:
        return ()
    axes = [("output channels", "ofm", "depth"), ("output height", "ofm", "height"), ("output width", "ofm", "width")]
    if row["kind"][0] in _MIXING:
        axes.insert(1, ("input channels", "ifm", "depth"))
    shapes = (_free_shape(base, row, *axis) for axis in axes)
    return tuple(shape for shape in shapes if shape is not None)


def _free_shape(base: _ExplanationBase, row: NDArray[Any], name: str, of: str, axis: str) -> FreeShape | None:
    extent, now = int(row[of][axis][0]), base.cycles(row)
    if extent == 1 and axis != "depth":
        return None
    kinds = [int(row["kind"][0])]
    if of == "ifm" and kinds[0] in _TRAVERSALS:
        (other,) = _TRAVERSALS - {kinds[0]}
        # The other traversal may be the faster one for other extents; where it is for this one, something speaks against it.
        kinds += [other] if base.cycles(_with(row, of, axis, extent, other)) >= now else []

    def cost(wanted: int) -> float:
        return min(base.cycles(_with(row, of, axis, wanted, kind)) for kind in kinds)

    free = extent
    while free - extent < _MAX_STEPS and cost(free + 1) <= now:
        free += 1
    if free == extent:
        return None
    cheaper = extent - 1
    while cheaper > max(0, extent - _MAX_STEPS) and cost(cheaper) > now * _CHEAPER:
        cheaper -= 1
    is_cheaper = cheaper > 0 and cost(cheaper) <= now * _CHEAPER
    return FreeShape(name, extent, free, cheaper if is_cheaper else 0, round(now), round(cost(cheaper) if is_cheaper else now))


def _with(row: NDArray[Any], of: str, axis: str, extent: int, kind: int) -> NDArray[Any]:
    """The row with another extent and kind; a block that covered the whole axis still does, as far as micro-blocks allow."""
    changed = row.copy()
    op, new = row[0], changed[0]
    new[of][axis], new["kind"] = extent, kind
    block = f"block_{axis}"
    if of == "ofm" and op[block] >= op[of][axis]:
        new[block] = max(int(op[block]), extent)
    if kind in _TRAVERSALS:
        _fit_ifm_block(new)
    return changed


def _fit_ifm_block(op: np.void) -> None:
    """Gives a changed operation the IFM blocks that it would have."""
    is_part_kernel = bool(op["kind"] == k.CONV_PART_KERNEL)
    if op["set_depth"]:
        op["ifm_block_depth"] = op["set_depth"] = deep_set_depth(is_part_kernel)
    else:
        op["ifm_block_depth"] = ifm_block_depth(int(op["ifm"]["depth"]), int(op["ifm"]["element_bytes"]), is_part_kernel)
