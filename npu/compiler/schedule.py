"""From steps to jobs: a job is one kernel operation with its block, OFM channels and constants, without addresses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from npu.compiler.block_config import BlockChoice, BlockChooser
from npu.compiler.block_estimate import BlockProblem
from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Step, Storage, WindowStep
from npu.compiler.layout import choose_layouts
from npu.compiler.weights import Constants, ExpectedConstants, WeightSlice
from npu.hardware.variant import MemoryMode
from npu.isa.operations import (
    AccumulatorFormat,
    ClipRange,
    ElementwiseMode,
    IfmPadding,
    KernelWindow,
    Layout,
    OperandScaling,
    PoolingMode,
    Upscale,
)
from npu.isa.shram import POOLS, Work
from npu.layouts import MapShape
from npu.machine.output_unit import elementwise_rank, window_rank
from npu.machine.port_rates import PortRate, port_rate
from npu.machine.rules import ceil_div, round_up
from npu.memo import cached_property
from npu.progress import Progress, counted
from npu.records import dataclass, replace

LARGEST_SLICE_BYTES = 32 * 1024
"""A weight slice is not made longer than this: its transfer must hide behind one or two kernels."""

SMALLEST_SLICE_BYTES = 5 * 1024
"""Below this a further cut costs more kernel starts than it saves memory."""

_CLEARLY_FASTER = 0.97
"""Slices of whole blocks are the more uneven ones: they need more memory at a time."""

COMMAND_BYTES = 160
"""Commands of a kernel and a copy, which pass the same port as the copy: the mean of streams, 40 words."""

_JOB_CYCLES = 100
"""What a further kernel operation costs."""

_WORTH_SRAM = 3.0
"""How many times the cycles of copied constants those in place may take where SRAM counts more."""

_WORTH_READING_AGAIN = 0.8
"""The same for constants that are read again and again although there is room for copies."""

_WORTH_ENCODING_AGAIN = 0.1
"""The part of the cycles of all stripes of weights by which a second encoding of them must shorten those that use it."""

_MOST_PREFETCHED_BYTES = 128 * 1024
"""Copies that are made while the port of the constants is idle take no more than this."""

_WORTH_PREFETCHING = 0.1
"""Such copies save at least this part of the operation's own cycles."""

WORTH_MEMORY = 0.01
"""Copies that take memory which maps leave free save at least this part of the cycles so far."""

_UNIT, _NO_PADDING = KernelWindow(), IfmPadding()

_MOST_ROOMS = 2
"""Copies of constants that are read once may take so many times the room there is: slices are whole blocks of channels."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One kernel operation: OFM channels [channel, channel + depth) of `step`.

    `constants` are its weight streams and scale records in the read-only region, `is_staged` says whether they are copied
    ahead of use; `table` is the read-only offset of its look-up table. `cycles` is an estimate.
    """

    step: Step
    choice: BlockChoice
    accumulator: AccumulatorFormat
    channel: int
    depth: int
    constants: WeightSlice | None
    is_staged: bool
    table: int | None
    cycles: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How far kernels and copies of constants are by the estimate: when both are free, and when the last kernel started.

    `port_free` is when the last kernel that read constants in place had read them.
    """

    port: PortRate
    kernel_free: float = 0.0
    kernel_started: float = 0.0
    engine_free: float = 0.0
    port_free: float = 0.0

    @property
    def is_engine_idle(self) -> bool:
        """Whether the last kernel did not wait for its copy: copying is not what everything waits for."""
        return self.engine_free < self.kernel_started or not self.kernel_free

    @property
    def without_lead(self) -> Pace:
        """The pace if the next copy has to wait for the last kernel, whose maps and constants leave no room for it."""
        return replace(self, engine_free=self.end)

    @property
    def idle_cycles(self) -> float:
        """How long nothing has passed the port of the constants when the last kernel ends."""
        return self.kernel_free - max(self.engine_free, self.port_free)

    @property
    def end(self) -> float:
        """When both are free."""
        return max(self.kernel_free, self.engine_free)

    def after(self, cycles: float, copied_bytes: float, read_bytes: float = 0) -> Pace:
        """After one more kernel of `cycles`, whose constants, if they are copied, are so as soon as the engine is free.

        Or it reads them in place, which copies beside it are not taken to feel.
        """
        engine, ready = self.engine_free, 0.0
        if copied_bytes:
            engine = ready = engine + (copied_bytes + COMMAND_BYTES) / self.port.read + self.port.read_latency
        started = max(self.kernel_free, ready)
        read = max(self.port_free, started) + read_bytes / self.port.read if read_bytes else self.port_free
        return Pace(self.port, started + cycles + _JOB_CYCLES, started, engine, read)


def describe(
    step: Step,
    layouts: Mapping[Storage, Layout],
    mode: MemoryMode,
    weight_bytes: float = BlockProblem.weight_bytes,
    far: Collection[Storage] = (),
) -> BlockProblem:
    """What the block of a step depends on; boundary maps, those in `far` and larger than a fast memory are in the arena."""

    def is_far(storage: Storage) -> bool:
        return mode.has_separate_cache and (storage.is_boundary or storage.bytes > mode.arena_cache_bytes or storage in far)

    work, kernel, upscale, padding = Work.ELEMENTWISE, _UNIT, Upscale.NONE, _NO_PADDING
    if isinstance(step, ConvolutionStep):
        work = Work.DEPTHWISE if step.is_depthwise else Work.CONVOLUTION
    elif isinstance(step, PoolingStep):
        work = POOLS[step.mode]
    if isinstance(step, WindowStep):
        kernel, upscale = step.kernel, step.upscale
        padding = step.padding
    is_pooling = work in (Work.MAX_POOL, Work.AVERAGE_POOL)
    is_wide = step.ifm.element.bits == 16 and not is_pooling
    accumulator = AccumulatorFormat.INT40 if is_wide else AccumulatorFormat.INT32
    limits = (step.ofm.element.minimum, step.ofm.element.maximum)
    return BlockProblem(
        work=work,
        ofm=step.ofm.shape,
        ifm_depth=step.ifm.shape[2],
        ifm_bits=step.ifm.element.bits,
        ofm_bits=step.ofm.element.bits,
        kernel=kernel,
        upscale=upscale,
        ifm_map_depth=step.ifm.pitches[1],
        ofm_map_depth=step.ofm.pitches[1],
        padding=padding,
        has_lut=step.lut is not None,
        has_clamp=(step.minimum, step.maximum) != limits or step.clip_range is not ClipRange.OFM_PRECISION,
        reads_ifm2=isinstance(step, ElementwiseStep) and step.ifm2 is not None,
        accumulator=accumulator,
        output_rank=_output_rank(step, accumulator),
        ifm_is_bricked=layouts[step.ifm.storage] is Layout.NHCWB16,
        ofm_is_bricked=layouts[step.ofm.storage] is Layout.NHCWB16,
        ifm_in_arena=is_far(step.ifm.storage),
        ofm_in_arena=is_far(step.ofm.storage),
        weight_bytes=weight_bytes,
    )


def _output_rank(step: Step, accumulator: AccumulatorFormat) -> str:
    if isinstance(step, ElementwiseStep):
        return elementwise_rank(
            step.ifm.element.bits,
            step.ofm.element.bits,
            is_unary=step.mode.is_unary,
            is_multiplication=step.mode is ElementwiseMode.MUL,
            scales_operands=step.mode.scales_operands,
            scales_both_alike=step.operand_scaling is OperandScaling.BOTH_16,
        )
    return window_rank(
        is_pooling=isinstance(step, PoolingStep),
        is_max_pooling=isinstance(step, PoolingStep) and step.mode is PoolingMode.MAX,
        has_40_bit_accumulators=accumulator is AccumulatorFormat.INT40,
    )


class StepProblems:
    """What the blocks of steps depend on, worked out once for each step: jobs are drafted before they are made.

    Maps in `far` find no room in a separate fast memory.
    """

    def __init__(self, layouts: Mapping[Storage, Layout], far: Collection[Storage], chooser: BlockChooser) -> None:
        self.chooser = chooser
        self.port = port_rate(chooser.variant, chooser.variant.memory_mode.constants)
        self._layouts, self._far = layouts, far
        self._known: dict[int, tuple[Step, Step, Forms]] = {}
        self._forms: dict[BlockProblem, Forms] = {}

    def of(self, given: Step, constants: Constants | ExpectedConstants) -> tuple[Step, Forms]:
        """The step with the least strides, and the forms of its problem."""
        known = self._known.get(id(given))
        if known is None:
            step = _with_least_strides(given)
            mode, density = self.chooser.variant.memory_mode, BlockProblem.weight_bytes
            if isinstance(step, ConvolutionStep):
                density = constants.bytes_per_weight(step.weights)
            problem = describe(step, self._layouts, mode, density, self._far)
            known = self._known[id(given)] = given, step, self.forms(problem)
        return known[1], known[2]

    def forms(self, problem: BlockProblem) -> Forms:
        """The forms of a problem, the same ones for equal problems."""
        known = self._forms.get(problem)
        if known is None:
            known = self._forms[problem] = Forms(self.chooser.known(problem), self.chooser, self.port)
        return known


def make_jobs(
    steps: Sequence[Step],
    rooms: Sequence[int],
    problems: StepProblems,
    constants: Constants | ExpectedConstants,
    progress: Progress | None = None,
    *,
    is_bound: bool = False,
) -> list[Job]:
    """The jobs of `steps` in order; `rooms[i]` is how many bytes step i may spend on staged constants.

    `is_bound`: those who plan memory hold to it; else more is found for copies that save cycles.
    """
    jobs: list[Job] = []
    pace = Pace(problems.port)
    stripes, encodings = _rooms_by_shape(steps, rooms), _Encodings(constants)
    usual = {key: [max(own.items(), key=lambda shape: len(shape[1]))] for key, own in stripes.items() if len(own) > 1}
    spare = 0.0
    for given, room in zip(counted(steps, "blocks and weights of steps", progress), rooms, strict=True):
        step, forms = problems.of(given, constants)
        problem = forms.problem
        table = constants.add(step.lut.tobytes()) if step.lut is not None else None
        if isinstance(step, ConvolutionStep):
            has_lead = not is_bound or spare >= SMALLEST_SLICE_BYTES
            pace = pace if has_lead else pace.without_lead
            own = stripes[id(step.weights)]
            for shape, given_rooms in usual.pop(id(step.weights), ()):
                usual_forms = problems.forms(replace(problem, ofm=shape))
                encodings.add(usual_forms, step, _choose_form(usual_forms, min(given_rooms), pace, is_bound=is_bound))
            share = len(own[step.ofm.shape]) / sum(map(len, own.values()))
            form = encodings.cheapest(forms, step, _choose_form(forms, room, pace, is_bound=is_bound), pace, share)
            spare = room - form.room
            new = _convolution_jobs(step, problem, form, constants, table)
        else:
            spare, choice = room, forms.best
            new = [Job(step, choice, problem.accumulator, 0, step.ofm.shape[2], None, False, table, choice.cycles)]
        for job in new:
            size = job.constants.bytes if job.constants else 0
            pace = pace.after(job.cycles, size if job.is_staged else 0, 0 if job.is_staged else size)
        jobs += new
    return jobs


class StepEstimates:
    """Cycles of steps before their weights are encoded: every one reads its weights anew.

    Plans that are compared have most of their steps in common, which are looked at once.
    """

    def __init__(self, chooser: BlockChooser) -> None:
        self.chooser = chooser
        self._read = port_rate(chooser.variant, chooser.variant.memory_mode.constants).read
        self._known: dict[tuple[Step, bool, bool, bool, bool], float] = {}

    def __call__(self, steps: Sequence[Step], far: Collection[Storage] = ()) -> float:
        """Those of all steps. Maps in `far` are behind a cache."""
        layouts, total = choose_layouts(steps), 0.0
        bricked = {storage for storage, layout in layouts.items() if layout is Layout.NHCWB16}
        for step in steps:
            ifm, ofm = step.ifm.storage, step.ofm.storage
            key = step, ifm in bricked, ofm in bricked, ifm in far, ofm in far
            cycles = self._known.get(key)
            if cycles is None:
                cycles = self._known[key] = self._estimated(step, layouts, far)
            total += cycles
        return total

    def _estimated(self, given: Step, layouts: Mapping[Storage, Layout], far: Collection[Storage]) -> float:
        step = _with_least_strides(given)
        read = step.weights.values.size / self._read if isinstance(step, ConvolutionStep) else 0.0
        mode = self.chooser.variant.memory_mode
        return max(self.chooser.choose(describe(step, layouts, mode, far=far)).cycles, read) + _JOB_CYCLES


def _with_least_strides(step: Step) -> Step:
    """The step with stride 1 along an axis on which the OFM has one element: models give any number there."""
    if not isinstance(step, WindowStep):
        return step
    stride_y = 1 if step.ofm.shape[0] == 1 else step.kernel.stride_y
    stride_x = 1 if step.ofm.shape[1] == 1 else step.kernel.stride_x
    if (stride_y, stride_x) == (step.kernel.stride_y, step.kernel.stride_x):
        return step
    return replace(step, kernel=replace(step.kernel, stride_y=stride_y, stride_x=stride_x))


@dataclass(frozen=True, slots=True, eq=False)
class Slicing:
    """How an operation with constants is computed: channels and block of each slice, and how many of the first are copied.

    `copied` are the cycles of each copy and of the kernel that uses it. `in_place` are those for which each other slice keeps
    the port that copies would take, and of its kernel. `room` is the bytes that copies take: two slices at a time.
    """

    slices: tuple[tuple[int, BlockChoice], ...]
    staged: int
    copied: tuple[tuple[float, float], ...]
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
        for copy, cycles in self.copied:
            engine_free += copy
            kernel_free = (engine_free if engine_free > kernel_free else kernel_free) + cycles + _JOB_CYCLES
        for read, cycles in self.in_place:
            engine_free = (kernel_free if kernel_free > engine_free else engine_free) + read
            kernel_free += cycles + _JOB_CYCLES
        return kernel_free, engine_free

    def cycles(self, pace: Pace) -> float:
        """How much later both are free."""
        return max(self.ends(pace)) - pace.end


def _rooms_by_shape(steps: Sequence[Step], rooms: Sequence[int]) -> dict[int, dict[MapShape, list[int]]]:
    """By the identity of weights and the OFM shape of stripes that use them: the rooms of these stripes."""
    by_shape: dict[int, dict[MapShape, list[int]]] = {}
    for step, room in zip(steps, rooms, strict=True):
        if isinstance(step, ConvolutionStep):
            by_shape.setdefault(id(step.weights), {}).setdefault(step.ofm.shape, []).append(room)
    return by_shape


class Forms:
    """What an operation can be cut into, worked out once for each problem: gathered rows and stripes ask again and again."""

    def __init__(self, problem: BlockProblem, chooser: BlockChooser, port: PortRate) -> None:
        self.problem, self.chooser, self.port = problem, chooser, port
        self._copied: dict[tuple[int, int], Slicing] = {}
        self._alike: dict[int, tuple[Slicing, Slicing | None]] = {}

    @cached_property
    def best(self) -> BlockChoice:
        """The block of the whole operation, its constants copied if it has any."""
        return self.chooser.choose(self.problem)

    @cached_property
    def in_place(self) -> BlockChoice:
        """The block of the whole operation where its constants stay where they are."""
        return self.chooser.choose(self.problem.part(self.problem.ofm[2], in_place=True))

    @cached_property
    def kept(self) -> Slicing:
        """All channels at once, with constants in place."""
        return self.sliced(((self.problem.ofm[2], self.in_place),), staged=0)

    @cached_property
    def plane_blocks(self) -> int:
        """Blocks of a plane where constants are in place."""
        return plane_blocks(self.problem.ofm, self.in_place)

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
        size, port, ofm = self.problem.channel_bytes, self.port, self.problem.ofm
        copied = [
            ((count * size + COMMAND_BYTES) / port.read + port.read_latency, choice.cycles) for count, choice in slices[:staged]
        ]
        in_place = [
            (count * size * plane_blocks(ofm, choice) / port.read, _late(choice, port) + choice.cycles)
            for count, choice in slices[staged:]
        ]
        largest = sorted([count for count, _ in slices[:staged]])[-2:]
        return Slicing(slices, staged, tuple(copied), tuple(in_place), sum(largest) * size)

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


class _Encodings:
    """How weights have been sliced and encoded so far: stripes, and operators that share tensors, can use them again."""

    def __init__(self, constants: Constants | ExpectedConstants) -> None:
        self._constants = constants
        self._known: dict[tuple[bytes, KernelWindow, int], list[Slicing]] = {}

    def add(self, forms: Forms, step: ConvolutionStep, form: Slicing) -> None:
        """Remembers a form of the step's weights."""
        _keep(form, self._of(forms, step))

    def cheapest(self, forms: Forms, step: ConvolutionStep, own: Slicing, pace: Pace, share: float) -> Slicing:
        """The fastest form that reads weights as they are encoded, if there is one hardly slower than the step's own.

        `share`: of the stripes that use the weights, how many have this problem.
        """
        if 0 < own.staged < len(own.slices):
            return own
        known = self._of(forms, step)
        if len(known) == 1 and (known[0] is own or known[0].is_like(own)):
            return own
        alike = [(form, forms.alike(form, is_staged=own.is_staged)) for form in known]
        others = [one for form, one in alike if one is not None and (form.is_staged or one.room <= own.room)]
        costs = [other.cycles(pace) for other in others]
        best = own
        if others and min(costs) <= own.cycles(pace) * (1 + _WORTH_ENCODING_AGAIN / share):
            best = others[costs.index(min(costs))]
        _keep(best, known)
        return best

    def _of(self, forms: Forms, step: ConvolutionStep) -> list[Slicing]:
        key = (self._constants.digests_of(step.weights)[0], forms.problem.kernel, step.ifm.element.bits)
        return self._known.setdefault(key, [])


def _late(choice: BlockChoice, port: PortRate) -> float:
    """Cycles that a kernel waits for constants that it reads in place."""
    return port.read_latency if choice.cycles < port.read_latency else 0.0


def _keep(form: Slicing, known: list[Slicing]) -> None:
    """Add a form to those that are known, unless there is one like it."""
    if not any(form is one or form.is_like(one) for one in known):
        known.append(form)


def _convolution_jobs(
    step: ConvolutionStep, problem: BlockProblem, form: Slicing, constants: Constants | ExpectedConstants, table: int | None
) -> list[Job]:
    jobs, channel = [], 0
    for number, (count, choice) in enumerate(form.slices):
        encoded = constants.add_weights(
            step.weights, slice(channel, channel + count), choice, step, is_depthwise=step.is_depthwise
        )
        jobs.append(Job(step, choice, problem.accumulator, channel, count, encoded, number < form.staged, table, choice.cycles))
        channel += count
    return jobs


def _choose_form(forms: Forms, room: int, pace: Pace, *, is_bound: bool) -> Slicing:
    """Constants where they are, or copies of them, for which `room` bytes are free.

    What is faster by the estimate is taken, with two weights: reading constants again for every block of the plane keeps the
    port from other copies, which shows only later; and where memory is bound, what needs more of it must be much
    faster. Copies of what is read once are made within reason only.
    """
    kept, mode = forms.kept, forms.chooser.variant.memory_mode
    is_read_once = forms.plane_blocks == 1
    if not mode.stages_weights:
        return kept
    if is_read_once and not mode.has_separate_cache:
        kept = _prefetched(forms, pace, room if is_bound else _MOST_PREFETCHED_BYTES) or kept
    if is_read_once and room < 2 * SMALLEST_SLICE_BYTES:
        return kept
    copied = _cut(forms, room, pace)
    needed = copied.room
    if is_read_once and needed > _MOST_ROOMS * room:
        return kept
    in_place_cycles, copied_cycles = kept.cycles(pace), copied.cycles(pace)
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
    count = min(int(room / problem.channel_bytes) // unit * unit, total)
    if count < unit:
        return None
    depth = _even(count, int(LARGEST_SLICE_BYTES / problem.channel_bytes) // unit * unit, unit)
    form = forms.copied(count, depth)
    if count < total:
        rest = total - count
        in_place = chooser.choose(problem.part(rest, in_place=True))
        form = forms.sliced((*form.slices, (rest, in_place)), form.staged)
    saved = pace.kernel_free + forms.in_place.cycles + _JOB_CYCLES - form.ends(pace)[0]
    return form if saved > max(_WORTH_PREFETCHING * forms.in_place.cycles, WORTH_MEMORY * pace.kernel_free) else None


def plane_blocks(ofm: MapShape, choice: BlockChoice) -> int:
    """Blocks of a plane of the OFM: so many times constants that lie in place are read."""
    return -(-ofm[0] // choice.block.height) * -(-ofm[1] // choice.block.width)


def _cut(forms: Forms, room: int, pace: Pace) -> Slicing:
    """Copied slices: as few equal ones as fit, or whole blocks of the best depth where that is clearly faster; more of them as
    long as the first copy is what the kernels wait for.

    Two slices should fit into `room` bytes; a slice is not larger than what can be copied behind one or two kernels.
    """
    problem, unit = forms.problem, forms.chooser.slice_unit
    total = problem.ofm[2]
    if total <= unit:
        return forms.copied(total, total)
    smallest = SMALLEST_SLICE_BYTES * (2 if problem.ofm[:2] == (1, 1) else 1)
    target = min(max(room // 2, smallest), LARGEST_SLICE_BYTES)
    most = max(int(target / problem.channel_bytes) // unit * unit, unit)
    depth = _even(total, most, unit)
    best = forms.copied(total, depth)
    if most < total:
        block = forms.chooser.choose(problem, depth_limit=most).block.depth
        in_blocks = forms.copied(total, most // block * block)
        if _span(in_blocks, pace) < _span(best, pace) * _CLEARLY_FASTER:
            best = in_blocks
    while depth > unit and pace.is_engine_idle and _waits(best, pace):
        depth = _even(total, depth // 2, unit)
        finer = forms.copied(total, depth)
        if _span(finer, pace) >= _span(best, pace):
            break
        best = finer
    return best


def _even(total: int, most: int, unit: int) -> int:
    """Channels of a slice when `total` is cut into equal slices of at most `most`, in whole `unit`s."""
    return min(int(round_up(ceil_div(total, ceil_div(total, max(most, unit))), unit)), total)


def _span(form: Slicing, pace: Pace) -> float:
    """Cycles until the last slice is done."""
    return form.ends(pace)[0] - pace.kernel_free


def _waits(form: Slicing, pace: Pace) -> bool:
    """Whether any slice waits for its copy."""
    return _span(form, pace) > sum(choice.cycles + _JOB_CYCLES for _, choice in form.slices) + 1
