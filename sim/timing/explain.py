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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.operations import Convolution, DepthwiseConvolution, Elementwise, Pooling
from sim.timing.kernels import expand as k
from sim.timing.kernels import rows as p
from sim.timing.plan import Plan, expand_rows, make_plan, output_rates
from sim.timing.ports import port_scalars
from sim.timing.preparation import engine_scalars
from sim.timing.scheduler import finish_time

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

Kernel = Convolution | DepthwiseConvolution | Pooling | Elementwise

_MIXING = (k.CONV_DEPTH_FIRST, k.CONV_PART_KERNEL, k.REDUCE_SUM)
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


def explain_operation(operation: Kernel, variant: Variant) -> Explanation:
    """Schedules `operation` alone and again without each cause of loss."""
    plan = make_plan([replace(operation, blockdep=0)], variant, stream_words=0)
    ports, scalars = port_scalars(variant), engine_scalars(variant)
    alone = finish_time(plan, ports, scalars)
    ideal_ports = _without_latency(ports)
    steps = [("latency", finish_time(plan, ideal_ports, scalars))]
    steps.append(("re-fetch", finish_time(_fetched_once(plan), ideal_ports, scalars)))
    silent = _without_traffic(plan)
    steps.append(("memory", finish_time(silent, ideal_ports, scalars)))
    row, rate = plan.operations[0], output_rates([operation], variant)[0]
    base = _Base(row, rate, variant)
    zeros = np.zeros_like(plan.mac_cycles)
    if base.uses_macs:
        steps.append(("output unit", finish_time(replace(silent, output_cycles=zeros), ideal_ports, scalars)))
    else:
        steps.append(("MAC array", finish_time(replace(silent, mac_cycles=zeros), ideal_ports, scalars)))
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
    return Explanation(alone, ideal, parts, _free_shapes(base, row), base.cycles(row))


class _Base:
    """Cycles of the unit that does the work of an operation, for variations of its row of the plan."""

    def __init__(self, row: NDArray[np.int64], rate: float, variant: Variant) -> None:
        self._variant, self._rate = variant, rate
        macs, outputs = self._both(row, has_decoder=True)
        self.is_mac = row[k.KIND] in (k.CONV_DEPTH_FIRST, k.CONV_PART_KERNEL, k.DEPTHWISE)
        self.uses_macs = self.is_mac or macs > outputs

    def cycles(self, row: NDArray[np.int64], *, has_decoder: bool = True) -> float:
        macs, outputs = self._both(row, has_decoder=has_decoder)
        return macs if self.uses_macs else outputs

    def _both(self, row: NDArray[np.int64], *, has_decoder: bool) -> tuple[float, float]:
        _, macs, elements = expand_rows(row[None, :], self._variant, has_decoder=has_decoder)
        return float(macs.sum()), float(elements.sum()) * self._rate

    def products(self, row: NDArray[np.int64]) -> int:
        """Multiply-accumulates of the operation."""
        taps = int(row[k.KERNEL_H] * row[k.KERNEL_W]) * (int(row[k.IFM_D]) if row[k.KIND] in _MIXING else 1)
        return int(row[k.OFM_H] * row[k.OFM_W] * row[k.OFM_D]) * taps

    def pad_depth(self, row: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
        """The row with channels that fill the micro-blocks and the dot products, and the share of them that is there."""
        padded = row.copy()
        unit = self._variant.accelerator.ofm_ublock.depth * self._variant.accelerator.cores
        if row[k.KIND] == k.ELEMENTWISE:
            unit = 16
        padded[k.OFM_D] = _round_up(int(row[k.OFM_D]), unit)
        padded[k.BLOCK_D] = _round_up(int(row[k.BLOCK_D]), unit)
        share = float(row[k.OFM_D] / padded[k.OFM_D])
        if row[k.KIND] in _MIXING:
            lanes = {k.CONV_DEPTH_FIRST: 32, k.CONV_PART_KERNEL: 8, k.REDUCE_SUM: 1}[int(row[k.KIND])]
            lanes = min(lanes, 16) if row[k.IFM_BYTES] > 1 else lanes
            padded[k.IFM_D] = _round_up(int(row[k.IFM_D]), lanes)
            padded[k.IFM_SLICE] = max(int(row[k.IFM_SLICE]), min(lanes, int(padded[k.IFM_D])))
            share *= float(row[k.IFM_D] / padded[k.IFM_D])
        return padded, share

    def pad_plane(self, row: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
        """The row with rows and columns that fill the micro-blocks, and the share of them that is there."""
        padded = row.copy()
        for extent, block, unit in ((k.OFM_H, k.BLOCK_H, k.UBLOCK_H), (k.OFM_W, k.BLOCK_W, k.UBLOCK_W)):
            padded[block] = _round_up(int(row[block]), int(row[unit]))
            padded[extent] = _round_up(int(row[extent]), int(padded[block]) if row[extent] > row[block] else int(row[unit]))
        share = float(row[k.OFM_H] * row[k.OFM_W] / (padded[k.OFM_H] * padded[k.OFM_W]))
        return padded, share


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _without_latency(ports: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ports whose transfers are only bound by their data beats and the windows of an adapter."""
    ideal = ports.copy()
    ideal[:, [p.P_READ_LATENCY, p.P_WRITE_LATENCY, p.P_READ_BURST_CYCLES, p.P_WRITE_BURST_CYCLES]] = 0.0
    return ideal


def _fetched_once(plan: Plan) -> Plan:
    """The plan with the loads of its input scaled down to one read of the map, and weights that are streamed once."""
    rows = plan.operations.copy()
    rows[:, k.STREAM_ONCE] = 1
    loads = plan.loads.copy()
    row = rows[0]
    blocks = loads[:, k.L_FIRST].cumsum() - 1
    depth_blocks = max(1, -(-int(row[k.OFM_D]) // int(row[k.BLOCK_D])))
    loads[blocks >= depth_blocks, k.L_STREAM_BYTES] = 0
    beat = int(plan.beat_bytes)
    depth = _round_up(int(row[k.IFM_D]), 16) if row[k.IFM_LAYOUT] == 1 else int(row[k.IFM_D])
    whole = -(-int(row[k.IFM_H] * row[k.IFM_W]) * depth * int(row[k.IFM_BYTES]) // beat)
    for column in (k.L_IFM_BEATS, k.L_IFM_BURSTS):
        total = int(loads[:, column].sum())
        wanted = total * whole // max(1, int(plan.loads[:, k.L_IFM_BEATS].sum()))
        if total > wanted:
            loads[:, column] = np.diff(loads[:, column].cumsum() * wanted // total, prepend=0)
    return replace(plan, operations=rows, loads=loads)


def _without_traffic(plan: Plan) -> Plan:
    loads = plan.loads.copy()
    traffic = (k.L_IFM_BEATS, k.L_IFM_BURSTS, k.L_IFM2_BEATS, k.L_STREAM_BYTES, k.L_OFM_BEATS, k.L_OFM_BURSTS)
    loads[:, list(traffic)] = 0
    return replace(plan, loads=loads)


def _free_shapes(base: _Base, row: NDArray[np.int64]) -> tuple[FreeShape, ...]:
    """Extents that could grow for nothing, of operations of the MAC array."""
    if not base.is_mac:
        return ()
    axes = [("output channels", k.OFM_D), ("output height", k.OFM_H), ("output width", k.OFM_W)]
    if row[k.KIND] in _MIXING:
        axes.insert(1, ("input channels", k.IFM_D))
    found = (_free_shape(base, row, name, column) for name, column in axes)
    return tuple(each for each in found if each is not None)


def _free_shape(base: _Base, row: NDArray[np.int64], axis: str, column: int) -> FreeShape | None:
    extent, now = int(row[column]), base.cycles(row)
    if extent == 1 and column in (k.OFM_H, k.OFM_W):
        return None
    kinds = [int(row[k.KIND])]
    if column == k.IFM_D and kinds[0] in _TRAVERSALS:
        (other,) = _TRAVERSALS - {kinds[0]}
        # The other traversal may be the faster one for other extents; where it is for this one, something speaks against it.
        kinds += [other] if base.cycles(_with(row, column, extent, other)) >= now else []

    def cost(wanted: int) -> float:
        return min(base.cycles(_with(row, column, wanted, kind)) for kind in kinds)

    free = extent
    while free - extent < _MAX_STEPS and cost(free + 1) <= now:
        free += 1
    if free == extent:
        return None
    cheaper = extent - 1
    while cheaper > max(0, extent - _MAX_STEPS) and cost(cheaper) > now * _CHEAPER:
        cheaper -= 1
    is_cheaper = cheaper > 0 and cost(cheaper) <= now * _CHEAPER
    return FreeShape(axis, extent, free, cheaper if is_cheaper else 0, round(now), round(cost(cheaper) if is_cheaper else now))


def _with(row: NDArray[np.int64], column: int, extent: int, kind: int) -> NDArray[np.int64]:
    """The row with another extent and kind; a block that covered the whole axis still does, as far as micro-blocks allow."""
    changed = row.copy()
    changed[column], changed[k.KIND] = extent, kind
    if column == k.IFM_D:
        step = 4 if row[k.IFM_BYTES] > 1 else 8
        most = 16 if row[k.IFM_BYTES] > 1 or kind == k.CONV_PART_KERNEL else 32
        changed[k.IFM_SLICE] = _round_up(min(extent, most), step)
        return changed
    block = {k.OFM_D: k.BLOCK_D, k.OFM_H: k.BLOCK_H, k.OFM_W: k.BLOCK_W}[column]
    if row[block] >= row[column]:
        changed[block] = max(int(row[block]), extent)
    return changed
