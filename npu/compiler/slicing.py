"""What an operation with constants is cut into: slices of its channels, their blocks, and which constants are copied."""

from __future__ import annotations

from npu.compiler.block_config import BlockChoice, BlockChooser
from npu.compiler.block_estimate import BlockProblem
from npu.compiler.pace import COMMAND_BYTES, JOB_CYCLES, Pace
from npu.isa.shram import Work
from npu.layouts import MapShape
from npu.machine.port_rates import PortRate
from npu.machine.rules import ARRAY_CHANNELS, ceil_div, round_up
from npu.memo import cached_property
from npu.records import dataclass, replace

LARGEST_SLICE_BYTES = 32 * 1024
"""A weight slice is not made longer than this: its transfer must hide behind one or two kernels."""

_MUCH_FASTER = 0.9
"""Longer slices must be by so much: their first copy takes longer, and the next operation's copies find less room."""

_WIDE_SLICES_BYTES = (64 * 1024, 128 * 1024)
"""Such slices are made where every slice reads much of the IFM again, or from afar."""

SMALLEST_SLICE_BYTES = 5 * 1024
"""Below this a further cut costs more kernel starts than it saves memory."""

_CLEARLY_FASTER = 0.97
"""Slices of whole blocks are the more uneven ones: they need more memory at a time."""

_WORTH_WAITING = 2
"""How many times the cycles for which finer slices keep later copies waiting they save behind the first kernel: these may be
what everything waits for."""

_WORTH_SRAM = 3.0
"""How many times the cycles of copied constants those in place may take where SRAM counts more."""

_WORTH_READING_AGAIN = 0.8
"""The same for constants that are read again and again although there is room for copies."""

_MOST_PREFETCHED_BYTES = 128 * 1024
"""Copies that are made while the port of the constants is idle take no more than this."""

_WORTH_PREFETCHING = 0.1
"""Such copies save at least this part of the operation's own cycles."""

WORTH_MEMORY = 0.01
"""Copies that take memory which maps leave free save at least this part of the cycles so far."""

_LEAD = 0.15
"""Part of the room that copies ahead of their kernels find in the mean, where they take longer than to read in place: of values
from 0 to 1 the best one for ten networks on four sizes of Ethos-U85."""

_MOST_ROOMS = 2
"""Copies of constants that are read once may take so many times the room there is: slices are whole blocks of channels."""


@dataclass(frozen=True, slots=True, eq=False)
class Slicing:
    """How an operation with constants is computed: channels and block of each slice, and how many of the first are copied.

    `copied` are what `PortRate.copy_cycles` says of each copy, and the cycles of the kernel that uses it. `in_place` are those
    for which each other slice keeps the port that copies would take, and of its kernel. `room` is what copies take: the bytes
    of two slices at a time.
    """

    slices: tuple[tuple[int, BlockChoice], ...]
    staged: int
    copied: tuple[tuple[float, float, float], ...]
    in_place: tuple[tuple[float, float], ...]
    room: float

    @property
    def is_staged(self) -> bool:
        """Whether all are copied."""
        return not self.in_place

    def is_like(self, other: Slicing) -> bool:
        """Whether slices, blocks and copies are the same."""
        return self.slices == other.slices and self.staged == other.staged

    def ends(self, pace: Pace) -> tuple[float, float]:
        """When kernels and copies are free behind its last slice, as `Pace.after` has it; constants that are read in place pass
        the port that copies would take, and a kernel of less than the latency waits for them."""
        kernel_free, engine_free = pace.kernel_free, pace.engine_free
        for read, there, cycles in self.copied:
            ready = engine_free + there
            engine_free += read
            kernel_free = (ready if ready > kernel_free else kernel_free) + cycles + JOB_CYCLES
        for read, cycles in self.in_place:
            engine_free = (kernel_free if kernel_free > engine_free else engine_free) + read
            kernel_free += cycles + JOB_CYCLES
        return kernel_free, engine_free

    def cycles(self, pace: Pace) -> float:
        """How much later both are free."""
        kernel_free, engine_free = self.ends(pace)
        return (engine_free if engine_free > kernel_free else kernel_free) - pace.end


class Forms:
    """What an operation can be cut into, worked out once for each problem: gathered rows and stripes ask again and again."""

    def __init__(self, problem: BlockProblem, chooser: BlockChooser, port: PortRate) -> None:
        self.problem, self.chooser, self.port = problem, chooser, port
        self._copied: dict[tuple[int, int], Slicing] = {}
        self._alike: dict[int, tuple[Slicing, Slicing | None]] = {}
        self._left: dict[tuple[int, BlockChoice], float] = {}

    @cached_property
    def best(self) -> BlockChoice:
        """The block of the whole operation, its constants copied if it has any."""
        return self.chooser.choose(self.problem)

    @cached_property
    def in_place(self) -> BlockChoice:
        """The block of the whole operation where its constants stay where they are."""
        return self.chooser.choose(self.problem.part(self.problem.ofm[2], in_place=True))

    @cached_property
    def channel_bytes(self) -> float:
        """Expected bytes of constants per output channel."""
        return self.in_place.constant_bytes / self.problem.ofm[2]

    @cached_property
    def kept(self) -> Slicing:
        """All channels at once, with constants in place."""
        return self.sliced(((self.problem.ofm[2], self.in_place),), staged=0)

    @cached_property
    def plane_blocks(self) -> int:
        """Blocks of a plane where constants are in place."""
        return plane_blocks(self.problem.ofm, self.in_place)

    @cached_property
    def array_cycles(self) -> float:
        """What the MAC array works at least: a depthwise channel leaves all but one of its input channels idle."""
        problem = self.problem
        height, width, channels = problem.ofm
        inputs = ARRAY_CHANNELS if problem.work is Work.DEPTHWISE else problem.ifm_depth
        products = height * width * channels * problem.kernel.height * problem.kernel.width * inputs
        return float(products / self.chooser.variant.accelerator.macs_per_cycle)

    def least_copied(self, pace: Pace) -> float:
        """How much later kernels and copies are free at least if all constants are copied."""
        kernel_free = pace.kernel_free + self.array_cycles + JOB_CYCLES
        engine_free = pace.engine_free + self.port.copy_cycles(self.in_place.constant_bytes)[0]
        return max(kernel_free, engine_free) - pace.end

    @cached_property
    def bytes_at_once(self) -> float:
        """What copies take at least: two of the smallest slices, or all constants if they are fewer."""
        return min(2 * SMALLEST_SLICE_BYTES, self.in_place.constant_bytes)

    def copied(self, total: int, depth: int) -> Slicing:
        """Slices of `depth` channels of the first `total`, and what is left of them, all of them copied."""
        known = self._copied.get((total, depth))
        if known is None:
            counts = [min(depth, total - channel) for channel in range(0, total, depth)]
            choices = {count: self.chooser.choose(self.problem.part(count)) for count in dict.fromkeys(counts)}
            slices = tuple([(count, choices[count]) for count in counts])
            known = self._copied[total, depth] = self.sliced(slices, len(slices))
        return known

    def sliced(self, slices: tuple[tuple[int, BlockChoice], ...], staged: int) -> Slicing:
        """These slices with what they cost; the first `staged` are copied."""
        port, ofm = self.port, self.problem.ofm
        copied = [(*port.copy_cycles(choice.constant_bytes + COMMAND_BYTES), choice.cycles) for _, choice in slices[:staged]]
        in_place = [
            (choice.constant_bytes * plane_blocks(ofm, choice) / port.read, _late(choice, port) + choice.cycles)
            for _, choice in slices[staged:]
        ]
        largest = sorted([choice.constant_bytes for _, choice in slices[:staged]])[-2:]
        return Slicing(slices, staged, tuple(copied), tuple(in_place), sum(largest))

    def cycles_if_left(self, channels: int, choice: BlockChoice) -> float:
        """Those of a slice that was to be copied and stays in place, where its input passes the same port."""
        problem, mode = self.problem, self.chooser.variant.memory_mode
        if not problem.ifm_in_arena or mode.constants is not mode.arena:
            return choice.cycles
        key = channels, choice
        if key not in self._left:
            in_place = replace(problem.part(channels, in_place=True), traversal=choice.traversal)
            self._left[key] = self.chooser.cycles_of(in_place, choice)
        return self._left[key]

    def alike(self, form: Slicing, *, is_staged: bool) -> Slicing | None:
        """The slices of a form with blocks for this operation; None if one of them has no such block."""
        key = id(form) * 2 + is_staged  # the form stays, and with it its identity
        if key not in self._alike:
            self._alike[key] = form, self._make_alike(form, is_staged)
        return self._alike[key][1]

    def _make_alike(self, form: Slicing, is_staged: bool) -> Slicing | None:
        slices: list[tuple[int, BlockChoice]] = []
        for count, other in form.slices:
            choice = self.chooser.choose_alike(self.problem.part(count, in_place=not is_staged), other)
            if choice is None:
                return None
            slices.append((count, choice))
        return self.sliced(tuple(slices), len(slices) if is_staged else 0)


def _late(choice: BlockChoice, port: PortRate) -> float:
    """Cycles that a kernel waits for constants that it reads in place."""
    return port.read_latency if choice.cycles < port.read_latency else 0.0


def choose_form(forms: Forms, room: int, pace: Pace, *, is_bound: bool) -> Slicing:
    """Constants where they are, or copies of them, for which `room` bytes are free.

    What is faster by the estimate is taken, with two weights: reading constants again for every block of the plane keeps the
    port from other copies, which shows only later; and where memory is bound, what needs more of it must be much
    faster. Copies of what is read once are made within reason only.
    """
    kept, mode = forms.kept, forms.chooser.variant.memory_mode
    is_read_once = forms.plane_blocks == 1
    if not mode.stages_weights:
        return kept
    if forms.port.copy < forms.port.weights:
        pace = pace.led_by(_LEAD * room / forms.port.copy)
    if is_read_once and not mode.has_separate_cache:
        kept = _prefetched(forms, pace, room if is_bound else _MOST_PREFETCHED_BYTES) or kept
    if is_read_once and room < (forms.bytes_at_once if mode.has_separate_cache else 2 * SMALLEST_SLICE_BYTES):
        return kept
    problem, in_place_cycles = forms.problem, kept.cycles(pace)
    is_too_large = is_bound and min(problem.ofm[2], forms.chooser.slice_unit) * forms.channel_bytes > room
    if is_too_large and in_place_cycles <= _WORTH_SRAM * forms.least_copied(pace):
        return kept  # without a look at the blocks of slices
    copied = _cut(forms, room, pace, is_bound=is_bound)
    needed = copied.room
    if is_read_once and needed > _MOST_ROOMS * room:
        return kept
    copied_cycles = copied.cycles(pace)
    worth = 1.0
    if needed > room and is_bound:
        worth = _WORTH_SRAM
    elif needed <= room and not is_read_once:
        worth = _WORTH_READING_AGAIN
    return kept if in_place_cycles <= worth * copied_cycles else copied


def _prefetched(forms: Forms, pace: Pace, most: int) -> Slicing | None:
    """The first channels from copies that are made while nothing else passes the port of the constants, the others in place.

    None where that saves little of the operation, or of what the program has taken so far: it takes memory.
    """
    problem, chooser = forms.problem, forms.chooser
    total, unit = problem.ofm[2], chooser.slice_unit
    room = min(pace.idle_cycles * pace.port.read, most, _MOST_PREFETCHED_BYTES)
    count = min(int(room / forms.channel_bytes) // unit * unit, total)
    if count < unit:
        return None
    depth = _even(count, int(LARGEST_SLICE_BYTES / forms.channel_bytes) // unit * unit, unit)
    form = forms.copied(count, depth)
    if count < total:
        rest = total - count
        in_place = chooser.choose(problem.part(rest, in_place=True))
        form = forms.sliced((*form.slices, (rest, in_place)), form.staged)
    saved = pace.kernel_free + forms.in_place.cycles + JOB_CYCLES - form.ends(pace)[0]
    return form if saved > max(_WORTH_PREFETCHING * forms.in_place.cycles, WORTH_MEMORY * pace.kernel_free) else None


def plane_blocks(ofm: MapShape, choice: BlockChoice) -> int:
    """Blocks of a plane of the OFM: so many times constants that lie in place are read."""
    return -(-ofm[0] // choice.block.height) * -(-ofm[1] // choice.block.width)


def _cut(forms: Forms, room: int, pace: Pace, *, is_bound: bool) -> Slicing:
    """Copied slices: as few equal ones as fit, or whole blocks of the best depth where that is clearly faster; more of them as
    long as the first copy is what the kernels wait for.

    Two slices should fit into `room` bytes, if they must however small they are then; a slice is not larger than what can be
    copied behind one or two kernels.
    """
    problem, unit = forms.problem, forms.chooser.slice_unit
    total = problem.ofm[2]
    if total <= unit:
        return forms.copied(total, total)
    smallest: float = SMALLEST_SLICE_BYTES * (2 if problem.ofm[:2] == (1, 1) else 1)
    if is_bound and room < min(2 * smallest, forms.in_place.constant_bytes):
        smallest = unit * forms.channel_bytes
    best, depth = _in_slices(forms, min(max(room // 2, smallest), LARGEST_SLICE_BYTES), pace)
    for size in () if _is_bound_by_copies(best) else _WIDE_SLICES_BYTES:
        if size > room // 2 or depth >= total:
            break
        wide, channels = _in_slices(forms, size, pace)
        if _span(wide, pace) < _span(best, pace) * _MUCH_FASTER:
            best, depth = wide, channels
    worth_waiting = _WORTH_WAITING if pace.is_behind_one_kernel and not is_bound else 0
    while depth > unit and (pace.is_engine_idle or worth_waiting) and _waits(best, pace):
        depth = _even(total, depth // 2, unit)
        finer = forms.copied(total, depth)
        (kernel, engine), (kernel_before, engine_before) = finer.ends(pace), best.ends(pace)
        if kernel_before - kernel <= worth_waiting * (engine - engine_before):
            break
        best = finer
    return best


def _in_slices(forms: Forms, size: float, pace: Pace) -> tuple[Slicing, int]:
    """As few equal slices of `size` bytes as can be, or whole blocks if clearly faster; channels of the equal ones."""
    problem, unit = forms.problem, forms.chooser.slice_unit
    total = problem.ofm[2]
    most = max(int(size / forms.channel_bytes) // unit * unit, unit)
    depth = _even(total, most, unit)
    best = forms.copied(total, depth)
    if most < total:
        block = forms.chooser.choose(problem, depth_limit=most).block.depth
        in_blocks = forms.copied(total, most // block * block)
        if _span(in_blocks, pace) < _span(best, pace) * _CLEARLY_FASTER:
            best = in_blocks
    return best, depth


def _is_bound_by_copies(form: Slicing) -> bool:
    """Whether the copies of all slices take longer than their kernels."""
    return sum(read for read, _, _ in form.copied) > sum(cycles for _, _, cycles in form.copied)


def _even(total: int, most: int, unit: int) -> int:
    """Channels of a slice when `total` is cut into equal slices of at most `most`, in whole `unit`s."""
    return min(int(round_up(ceil_div(total, ceil_div(total, max(most, unit))), unit)), total)


def _span(form: Slicing, pace: Pace) -> float:
    """Cycles until the last slice is done."""
    return form.ends(pace)[0] - pace.kernel_free


def _waits(form: Slicing, pace: Pace) -> bool:
    """Whether any slice waits for its copy."""
    return _span(form, pace) > sum(choice.cycles + JOB_CYCLES for _, choice in form.slices) + 1
