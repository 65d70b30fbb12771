"""When each tensor and storage of a graph is live, and which of them may share one buffer although both are live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from npu.compiler.allocate import LiveRange, round_up
from npu.compiler.ir import ElementwiseStep, PoolingStep, Program, Step, Storage, View
from npu.compiler.layout import reads, storage_bytes, views
from npu.compiler.pointwise import is_pointwise
from npu.graph.graph import ABSENT, Graph
from npu.isa.operations import IDENTITY, Layout
from npu.records import dataclass

LogicalBuffer: TypeAlias = int | Storage
"""What gets memory, its own or shared: a tensor that the graph sees, by index, or a storage inside a partition."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanNode:
    """What runs at one go: operators `ops` on the NPU, with their program once it is made, or one operator on the CPU."""

    ops: tuple[int, ...]
    program: Program | None = None
    is_npu: bool = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the program, none without one."""
        return self.program.steps if self.program else ()


def steps_of(nodes: Iterable[PlanNode]) -> list[Step]:
    """The steps of all nodes in order."""
    return [step for node in nodes for step in node.steps]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Spans of everything that needs memory; node i has the events [starts[i], starts[i + 1]).

    `lasting` are the tensors whose values are read after the last event: graph outputs and variables.
    """

    spans: Mapping[LogicalBuffer, LiveRange]
    starts: tuple[int, ...]
    lasting: frozenset[int] = frozenset()

    @property
    def events(self) -> int:
        return self.starts[-1]


def buffer_of(storage: Storage) -> LogicalBuffer:
    """The buffer that a computed storage is."""
    return storage.tensor if storage.is_boundary and storage.tensor is not None else storage


def trace_lifetimes(
    graph: Graph, nodes: Sequence[PlanNode], works: Sequence[Sequence[Step]], layouts: Mapping[Storage, Layout]
) -> Lifetimes:
    """Lifetimes when node i runs the kernel operations `works[i]`, one event each; a CPU operator is one event.

    Graph inputs are live from the start, graph outputs to the end, variables always.
    """
    recorder = _LifetimeRecorder(graph, layouts)
    starts = [0]
    for node, steps in zip(nodes, works, strict=True):
        start = starts[-1]
        end = start + max(len(steps), 1)
        if node.program is None:
            for index in node.ops:
                op = graph.ops[index]
                recorder.touch_tensors((*op.inputs, *op.outputs, *op.intermediates), start)
        else:
            recorder.touch_steps(steps, start)
            recorder.touch_tensors((tensor for tensor, _ in node.program.inputs), start)
            recorder.touch_tensors((tensor for tensor, _ in node.program.outputs), end - 1)
        starts.append(end)
    last = max(starts[-1] - 1, 0)
    recorder.touch_tensors(graph.inputs, 0)
    recorder.touch_tensors(graph.outputs, last)
    variables = [index for index, tensor in enumerate(graph.tensors) if tensor.is_variable]
    recorder.touch_tensors(variables, 0)
    recorder.touch_tensors(variables, last)
    return Lifetimes(recorder.spans, tuple(starts), frozenset((*graph.outputs, *variables)))


def touched_by_steps(steps: Sequence[Step], layouts: Mapping[Storage, Layout], start: int) -> dict[LogicalBuffer, LiveRange]:
    """When steps alone use storages, one event each from `start` on."""
    recorder = _LifetimeRecorder(None, layouts)
    recorder.touch_steps(steps, start)
    return recorder.spans


class _LifetimeRecorder:
    def __init__(self, graph: Graph | None, layouts: Mapping[Storage, Layout]) -> None:
        self._tensors = () if graph is None else graph.tensors
        self._layouts = layouts
        self._spans: dict[LogicalBuffer, list[int]] = {}
        """Bytes, first and last event: changed in place, since every operand of every operation passes here."""
        self._of_storage: dict[Storage, list[int]] = {}

    @property
    def spans(self) -> dict[LogicalBuffer, LiveRange]:
        return {buffer: LiveRange(*span) for buffer, span in self._spans.items()}

    def touch_tensors(self, indices: Iterable[int], event: int) -> None:
        for index in indices:
            tensor = None if index == ABSENT else self._tensors[index]
            if tensor is not None and not tensor.is_constant and tensor.bytes:
                self._touch(index, tensor.bytes, event)

    def touch_steps(self, steps: Sequence[Step], start: int) -> None:
        spans = self._of_storage
        for event, step in enumerate(steps, start):
            for view in views(step):
                span = spans.get(view.storage)
                if span is None:
                    self._touch_first(view.storage, event)
                elif event > span[2]:
                    span[2] = event
                elif event < span[1]:
                    span[1] = event

    def _touch_first(self, storage: Storage, event: int) -> None:
        if storage.data is None:
            size = storage_bytes(storage, self._layouts.get(storage, Layout.NHWC))
            self._of_storage[storage] = self._touch(buffer_of(storage), size, event)

    def _touch(self, buffer: LogicalBuffer, size: int, event: int) -> list[int]:
        span = self._spans.setdefault(buffer, [size, event, event])
        if size > span[0]:
            span[0] = size
        _stretch(span, event)
        return span


def _stretch(span: list[int], event: int) -> None:
    if event < span[1]:
        span[1] = event
    elif event > span[2]:
        span[2] = event


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """For every buffer the one whose memory it uses, and the byte of that memory where it begins.

    `has_leads`: some begin in front of what they are made from.
    """

    owner: Mapping[LogicalBuffer, LogicalBuffer]
    starts: Mapping[LogicalBuffer, int]
    has_leads: bool = False

    @classmethod
    def among(
        cls, owner: Mapping[LogicalBuffer, LogicalBuffer], starts: Mapping[LogicalBuffer, int], *, has_leads: bool = False
    ) -> Sharing:
        """The same where `starts` may be negative: memory begins with the first of the buffers that use it."""
        lowest: dict[LogicalBuffer, int] = {}
        for buffer, root in owner.items():
            lowest[root] = min(lowest.get(root, starts[buffer]), starts[buffer])
        return cls(owner, {buffer: starts[buffer] - lowest[root] for buffer, root in owner.items()}, has_leads)


class _Sharer:
    """Buffers that use the memory of others, while these are found."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.has_leads = False
        self.owner: dict[LogicalBuffer, LogicalBuffer] = {buffer: buffer for buffer in lifetimes.spans}
        self.starts: dict[LogicalBuffer, int] = dict.fromkeys(lifetimes.spans, 0)
        self.lasting: set[LogicalBuffer] = set(lifetimes.lasting)
        self.alone, self.spans = lifetimes.spans, dict(lifetimes.spans)
        """Of buffers, and of all that use the memory of one."""
        self.latest: dict[LogicalBuffer, LogicalBuffer] = {}
        """Of a memory that several use, the last that was found."""
        self.others_last: dict[LogicalBuffer, int] = {}
        """Of a memory that several use, the last event of those before that one."""

    def place(self, buffer: LogicalBuffer) -> int:
        """Where a buffer begins in the memory that it uses."""
        start = 0
        while self.owner[buffer] != buffer:
            start, buffer = start + self.starts[buffer], self.owner[buffer]
        return start

    def share(self, target: LogicalBuffer, operand: LogicalBuffer, lead: int = 0) -> None:
        """A buffer takes the place of another, or begins `lead` bytes in front of it."""
        root = root_of(self.owner, operand)
        self.owner[target], self.starts[target] = root, self.place(operand) - lead
        if target in self.lasting:
            self.lasting.add(root)
        self.latest[root] = self.latest.get(target, target)
        self.others_last[root] = max(self.spans[root].last, self.others_last.get(target, -1))
        self.spans[root] = self.spans[root].joined(self.spans[target])


def share_in_place(
    lifetimes: Lifetimes,
    nodes: Sequence[PlanNode],
    works: Sequence[Sequence[Step]],
    layouts: Mapping[Storage, Layout],
    *,
    has_leads: bool = False,
) -> Sharing:
    """Whose memory each buffer uses: a result of single elements may replace an operand that is not read again.

    Block n of the result is written after block n of the operands was read and lies where that block lay, so both must be
    whole maps of the same shape, layout and element size, and the operand must not be broadcast. `has_leads`: a map made in
    stripes may begin in front of one that is read in stripes, and go on where rows of that are not read again.
    """
    sharer = _Sharer(lifetimes)
    owner, spans = sharer.owner, sharer.spans
    for number, (node, steps) in enumerate(zip(nodes, works, strict=True)):
        if node.program is None:
            continue
        for event, step in enumerate(steps, lifetimes.starts[number]):
            if not goes_in_place(step) or not step.ofm.fills_storage:
                continue
            target = buffer_of(step.ofm.storage)
            if lifetimes.spans[target].first != event or owner[target] != target:
                continue
            for view in reads(step):
                root = root_of(owner, buffer_of(view.storage)) if view.storage.data is None else None
                if root is None or spans[root].last != event or root in sharer.lasting:
                    continue
                others = [value for value in reads(step) if value.storage is view.storage]
                if not all(_is_same_place(other, step.ofm, layouts) for other in others):
                    continue
                sharer.share(target, buffer_of(view.storage))
                break
        _share_rows(steps, lifetimes.starts[number], sharer, layouts, has_leads=has_leads)
    roots = {buffer: root_of(owner, buffer) for buffer in owner}
    if not sharer.has_leads:
        return Sharing(roots, sharer.starts)
    return Sharing.among(roots, {buffer: sharer.place(buffer) for buffer in owner}, has_leads=True)


_RowRule: TypeAlias = Callable[[Storage, Storage, Sequence[Step], Sequence[int]], bool]
"""Whether a map that the steps at some positions make may lie where an operand did."""


def _share_rows(
    steps: Sequence[Step], start: int, sharer: _Sharer, layouts: Mapping[Storage, Layout], *, has_leads: bool
) -> None:
    """Give maps made in stripes of rows the memory of an operand that each may replace, row by row.

    Nobody may read a row of the operand after that row was replaced: in a cascade the steps in front are always ahead.
    """
    writers: dict[Storage, list[int]] = {}
    for position, step in enumerate(steps):
        writers.setdefault(step.ofm.storage, []).append(position)
    owner, spans = sharer.owner, sharer.spans
    newest: dict[LogicalBuffer, Storage] = {}
    for storage, positions in writers.items():
        target = buffer_of(storage)
        if len(positions) < 2 or storage.is_rolling or owner[target] != target or spans[target].first != start + positions[0]:
            continue
        if not _is_shared_in_rows(steps, positions, start, sharer, layouts, newest) and has_leads:
            shared = _share_with_lead(storage, positions, steps, start, sharer, layouts)
            if shared is not None:
                newest[shared], sharer.has_leads = storage, True


def _is_shared_in_rows(
    steps: Sequence[Step],
    positions: Sequence[int],
    start: int,
    sharer: _Sharer,
    layouts: Mapping[Storage, Layout],
    newest: dict[LogicalBuffer, Storage],
) -> bool:
    """Give a map that the steps at `positions` make the memory of an operand, if there is one that it may replace."""
    first, users = steps[positions[0]], steps[positions[0] : positions[-1]]
    storage, ways = first.ofm.storage, list[tuple[_RowRule, range, list[Storage]]]()
    if goes_in_place(first):
        ends = range(positions[-1], positions[-1] + 1)
        ways.append((_is_replaced, ends, [view.storage for view in reads(first)]))
    if not isinstance(first, ElementwiseStep):
        seen = [view.storage for step in users for view in reads(step) if view.storage.is_boundary]
        ways.append((_is_left_behind, range(positions[0], positions[-1]), seen))
    target, owner, spans = buffer_of(storage), sharer.owner, sharer.spans
    for is_replaced, ends, candidates in ways:
        for operand in dict.fromkeys(storage for storage in candidates if storage.data is None):
            root = root_of(owner, buffer_of(operand))
            is_last = root != target and newest.get(root, operand) is operand and spans[root].last - start in ends
            if is_last and layouts[operand] is layouts[storage] and is_replaced(operand, storage, steps, positions):
                newest[root] = storage
                if root not in sharer.lasting:
                    sharer.share(target, buffer_of(operand))
                return True
    return False


def _share_with_lead(
    storage: Storage,
    positions: Sequence[int],
    steps: Sequence[Step],
    start: int,
    sharer: _Sharer,
    layouts: Mapping[Storage, Layout],
) -> LogicalBuffer | None:
    """Let a map made in stripes begin in front of one that its stripes read, if no more is lost elsewhere than shared.

    The buffer whose memory it uses then.
    """
    target, spans = buffer_of(storage), sharer.spans
    users = steps[positions[0] : positions[-1] + 1]
    for operand in dict.fromkeys(view.storage for step in users for view in reads(step) if view.storage.data is None):
        own = buffer_of(operand)
        root = root_of(sharer.owner, own)
        is_latest = sharer.latest.get(root, own) == own and sharer.others_last.get(root, -1) < start + positions[0]
        is_left = start + positions[0] <= spans[root].last <= start + positions[-1]
        if root == target or root in sharer.lasting or not is_latest or not is_left:
            continue
        old_bytes, new_bytes = sharer.alone[own].size_bytes, sharer.alone[target].size_bytes
        most = (old_bytes + new_bytes + min(old_bytes, new_bytes)) // 2
        lead = _lead(operand, storage, users, layouts) if max(old_bytes, new_bytes) <= most else None
        if lead is not None and old_bytes + lead <= most:
            sharer.share(target, own, lead)
            return root
    return None


def _lead(operand: Storage, result: Storage, users: Sequence[Step], layouts: Mapping[Storage, Layout]) -> int | None:
    """Bytes that a result must begin in front of an operand so that no step writes what it or a later one reads."""
    old, new = (storage_bytes(storage, layouts[storage]) // storage.shape[0] for storage in (operand, result))
    needed, lead = None, 0
    for step in reversed(users):
        if step.ofm.storage is operand:
            return None
        for view in reads(step):
            if view.storage is operand:
                read = _rows_among(view)
                if read is None:
                    return None
                needed = read[0] * old if needed is None else min(needed, read[0] * old)
        if step.ofm.storage is result:
            written = _rows_among(step.ofm)
            if written is None:
                return None
            if needed is not None:
                lead = max(lead, written[1] * new - needed)
    return round_up(lead)


def _leaves_little(operand: Storage, result: Storage) -> bool:
    """Whether no more of an operand would stay as long as the result does than is shared."""
    return operand.bytes <= 2 * result.bytes


def _is_left_behind(operand: Storage, result: Storage, steps: Sequence[Step], positions: Sequence[int]) -> bool:
    """Whether every row of `result` lies, from the beginning of `operand` on, where nobody reads that any more."""
    needed = max(operand.bytes, result.bytes)
    if not _leaves_little(operand, result):
        return False
    for step in reversed(steps[positions[0] : positions[-1] + 1]):
        if step.ofm.storage is operand:
            return False
        for view in reads(step):
            if view.storage is operand:
                read = _rows_among(view)
                if read is None:
                    return False
                needed = min(needed, read[0] * _row_bytes(operand))
        if step.ofm.storage is result:
            written = _rows_among(step.ofm)
            if written is None or written[1] * _row_bytes(result) > needed:
                return False
    return True


def _row_bytes(storage: Storage) -> int:
    return storage.bytes // storage.shape[0]


def _is_replaced(operand: Storage, result: Storage, steps: Sequence[Step], positions: Sequence[int]) -> bool:
    """Whether every row of `result` is made from the same row of `operand`, which is not read any more then."""
    if operand.shape != result.shape or operand.element.bits != result.element.bits:
        return False
    done = 0
    for step in steps[positions[0] : positions[-1] + 1]:
        written = step.ofm.storage
        views = [view for view in reads(step) if view.storage is operand]
        if not views and written is not operand and written is not result:
            continue
        if written is operand or any(view.offset[0] < done or not is_rows(view) for view in views):
            return False
        if written is result:
            same = [view.offset == step.ofm.offset and view.shape == step.ofm.shape for view in views]
            if not (same and all(same) and goes_in_place(step) and is_rows(step.ofm)):
                return False
            done = max(done, step.ofm.offset[0] + step.ofm.shape[0])
    return True


def goes_in_place(step: Step) -> bool:
    """Whether each block of the result comes from those at the same place of the operands, or from single elements.

    A copy is made to be elsewhere.
    """
    return isinstance(step, ElementwiseStep) or (is_pointwise(step) and not _changes_nothing(step))


def _changes_nothing(step: Step) -> bool:
    is_plain = isinstance(step, PoolingStep) and step.lut is None and step.function is None and step.scale == IDENTITY
    limits = (step.ofm.element.minimum, step.ofm.element.maximum)
    return is_plain and step.ifm.zero_point == step.ofm.zero_point and (step.minimum, step.maximum) == limits


def is_rows(view: View) -> bool:
    """Whether it is whole rows of its storage, in the storage's own shape."""
    shape = view.storage.shape
    is_own = view.full == shape and view.pitch is None and not view.storage.is_rolling
    return is_own and view.shape[1:] == shape[1:] and view.offset[1:] == (0, 0)


def _rows_among(view: View) -> tuple[int, int] | None:
    """The rows of its storage, from the first to the last, of which it is a part; None where that has others at each time."""
    if view.storage.is_rolling or view.row_places is None:
        return None
    first, apart = view.row_places
    return first, first + (view.shape[0] - 1) * apart + 1


def shared_spans(lifetimes: Lifetimes, sharing: Sharing) -> dict[LogicalBuffer, LiveRange]:
    """One span for all buffers that use the same memory."""
    groups: dict[LogicalBuffer, LiveRange] = {}
    for buffer, root in sharing.owner.items():
        span, begin = lifetimes.spans[buffer], sharing.starts[buffer]
        if begin:
            span = LiveRange(begin + span.size_bytes, span.first, span.last)
        groups[root] = groups[root].joined(span) if root in groups else span
    return groups


def root_of(owner: Mapping[LogicalBuffer, LogicalBuffer], buffer: LogicalBuffer) -> LogicalBuffer:
    while owner[buffer] != buffer:
        buffer = owner[buffer]
    return buffer


def _is_same_place(view: View, ofm: View, layouts: Mapping[Storage, Layout]) -> bool:
    same = view.shape == ofm.shape and view.element.bits == ofm.element.bits
    return same and view.fills_storage and layouts[view.storage] is layouts[ofm.storage]
