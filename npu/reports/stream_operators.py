"""Operators of a command stream that names none: what the rows of a report are for a file of another compiler.

A compiler cuts an operator into stripes and depth slices; operations that differ in nothing but their place are put together
again, so that a row is as near to an operator of the source model as the stream tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.isa.decoded import Decoded
from npu.isa.operations import (
    AddressRange,
    Convolution,
    Dma,
    Elementwise,
    FeatureMap,
    KernelOperation,
    Pooling,
    Resizing,
    Stop,
    WeightedOperation,
    WindowOperation,
)
from npu.layouts import element_offset
from npu.records import dataclass

_NEAR = 16
"""Stripes of one operator are at most this many kernel operations apart: cascades are not deeper."""

_BUFFERS = 64
"""Weights are looked for in so many transfers before their use."""


@dataclass(frozen=True, slots=True)
class StreamOperator:
    """One operator of a stream: `type` in the words of the command, `shape` of its output, the multiplications it makes.

    Rows that stripes compute again count again.
    """

    type: str
    shape: str
    macs: int


Staged = dict[tuple[int, int], tuple[int, AddressRange]]
"""Transfers by region and address of their destination: their length, and where they come from."""


@dataclass(slots=True)
class _Group:
    """Operations of one operator. `stripe` is the OFM of the first of the latest rows."""

    first: KernelOperation
    last: KernelOperation
    last_position: int
    stripe: FeatureMap
    height: int
    depth: int
    stripes: int = 1
    is_whole: bool = True
    """Whether each stripe lies below the one before it, so that their heights add up to that of the output."""
    macs: int = 0

    def continues(self, operation: KernelOperation, position: int) -> bool:
        """Whether an operation that is alike may be a part of the same operator: near, and without weights just below."""
        if position - self.last_position > _NEAR or operation.ofm.region != self.last.ofm.region:
            return False
        if isinstance(operation, WeightedOperation) and operation.weights:
            return True
        return operation.ofm.addresses[0] == _below(self.last.ofm) and _are_rows_apart(operation.ifm, self.last.ifm)

    def add(self, operation: KernelOperation, position: int) -> None:
        """Count an operation: further channels if its input is that of the operation before, else further rows."""
        if position > self.last_position:
            if operation.ifm != self.last.ifm:
                self.is_whole &= operation.ofm.addresses[0] == _below(self.stripe)
                self.stripes += 1
                self.height += operation.ofm.height
                self.stripe = operation.ofm
            elif self.stripes == 1:
                self.depth += operation.ofm.depth
        self.last, self.last_position = operation, position
        self.macs += _macs(operation)

    @property
    def shape(self) -> str:
        """Height, width and depth of the output; those of one stripe and their number where rows overlap or share a buffer."""
        ofm = self.first.ofm
        if self.is_whole:
            return f"{self.height}x{ofm.width}x{self.depth}"
        return f"{ofm.height}x{ofm.width}x{self.depth} ({self.stripes} stripes)"


def _are_rows_apart(one: FeatureMap, other: FeatureMap) -> bool:
    """Whether maps begin in other rows of one map; those of a single row may be the same."""
    distance = one.addresses[0] - other.addresses[0]
    return distance % one.stride_y == 0 if distance and one.stride_y else one.height == 1


def _below(fm: FeatureMap) -> int:
    return fm.addresses[0] + fm.height * fm.stride_y


def operators_of_stream(decoded: Sequence[Decoded]) -> tuple[list[StreamOperator], tuple[int, ...]]:
    """The operators of one stream in order, and for every operation the position of the one that it works for.

    Transfers work for the kernel operation behind them; the end of the stream for none (-1).
    """
    groups: list[_Group] = []
    owners: list[int] = []
    recent: dict[object, int] = {}
    staged: Staged = {}
    position = 0
    for started in decoded:
        operation = started.operation
        owners.append(-1)
        if isinstance(operation, Dma):
            stage(operation, staged)
        elif isinstance(operation, KernelOperation):
            identity = _identity(operation, staged)
            known = recent.get(identity, -1)
            if known < 0 or not groups[known].continues(operation, position):
                known = len(groups) - 1
                if not groups or not _is_slice(operation, groups[known].last):
                    known = len(groups)
                    ofm = operation.ofm
                    groups.append(_Group(operation, operation, position, ofm, ofm.height, ofm.depth))
            groups[known].add(operation, position)
            owners[-1] = recent[identity] = known
            position += 1
    return [_named(group) for group in groups], _with_transfers(decoded, owners)


def stage(transfer: Dma, staged: Staged) -> None:
    source, destination = transfer.source, transfer.destination
    if source.region is not None and destination.region is not None:
        origin = AddressRange(source.region, source.address, transfer.length_bytes)
        place = destination.region, destination.address
        staged.pop(place, None)
        staged[place] = transfer.length_bytes, origin
        if len(staged) > _BUFFERS:
            del staged[next(iter(staged))]


def _is_slice(operation: KernelOperation, before: KernelOperation) -> bool:
    """Whether two operations in a row compute further channels of one output."""
    return (
        isinstance(operation, WeightedOperation)
        and type(operation) is type(before)
        and isinstance(before, WeightedOperation)
        and (operation.kernel, operation.ifm, operation.padding) == (before.kernel, before.ifm, before.padding)
        and (operation.ofm.region, operation.ofm.zero_point, operation.ofm.width, operation.ofm.height)
        == (before.ofm.region, before.ofm.zero_point, before.ofm.width, before.ofm.height)
        and operation.activation == before.activation
        and operation.ofm.addresses[0] == _behind(before.ofm)
    )


def _behind(fm: FeatureMap) -> int:
    """Where the channels behind those of a map begin, in a map that has more of them."""
    return fm.addresses[0] + element_offset(0, 0, fm.depth, fm.steps, fm.element.bytes)


def _identity(operation: KernelOperation, staged: Staged) -> object:
    """What operations of one operator have in common: the same weights; without weights all but the place."""
    if isinstance(operation, WeightedOperation) and operation.weights:
        return type(operation), operation.kernel, tuple(origin_of(weight, staged) for weight in operation.weights)
    ifm, ofm = operation.ifm, operation.ofm
    mode = operation.mode if isinstance(operation, Pooling | Elementwise) else None
    window = operation.kernel if isinstance(operation, WindowOperation) else None
    second = operation.ifm2.width if isinstance(operation, Elementwise) and operation.ifm2 is not None else None
    maps = tuple((fm.region, fm.width, fm.depth, fm.zero_point, fm.element, fm.stride_y) for fm in (ifm, ofm))
    return type(operation), mode, window, second, maps, operation.scale, operation.activation


def origin_of(weights: AddressRange, staged: Staged) -> tuple[int, int]:
    """Where weights come from: a buffer that a transfer has filled is named by the transfer's source."""
    for (region, start), (length, source) in reversed(staged.items()):
        if region == weights.region and start <= weights.address < start + length:
            return source.region, source.address + weights.address - start
    return weights.region, weights.address


def _macs(operation: KernelOperation) -> int:
    """Multiplications of the weights: of a pooling or an elementwise operation none, as in reports of source models."""
    if not isinstance(operation, WeightedOperation):
        return 0
    ofm, kernel = operation.ofm, operation.kernel
    channels = operation.ifm.depth if isinstance(operation, Convolution) else 1
    return ofm.height * ofm.width * ofm.depth * kernel.height * kernel.width * channels


def _named(group: _Group) -> StreamOperator:
    operation = group.first
    if isinstance(operation, Elementwise):
        name = operation.mode.name
    elif isinstance(operation, Pooling):
        name = f"{operation.mode.name}_POOL {_window(operation)}"
    elif isinstance(operation, Resizing):
        name = f"RESIZE_{operation.mode.name}"
    else:
        assert isinstance(operation, WeightedOperation)
        name = f"{'CONV' if isinstance(operation, Convolution) else 'DEPTHWISE'} {_window(operation)}"
    element = operation.ofm.element
    kind = f"{'' if element.is_signed else 'u'}int{element.bits}"
    return StreamOperator(name, group.shape if kind == "int8" else f"{group.shape} {kind}", group.macs)


def _window(operation: WindowOperation) -> str:
    kernel = operation.kernel
    stride = "" if kernel.stride_y == kernel.stride_x == 1 else f"/{max(kernel.stride_y, kernel.stride_x)}"
    return f"{kernel.height}x{kernel.width}{stride}"


def _with_transfers(decoded: Sequence[Decoded], owners: list[int]) -> tuple[int, ...]:
    """`owners` with transfers and waits given to the kernel operation behind them."""
    completed, following = list(owners), -1
    for index in reversed(range(len(owners))):
        if owners[index] >= 0:
            following = owners[index]
        elif not isinstance(decoded[index].operation, Stop):
            completed[index] = following
    return tuple(completed)
