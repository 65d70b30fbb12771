"""From steps to jobs: a job is one kernel operation with its block, OFM channels and constants, without addresses."""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.block_config import BlockChoice
from npu.compiler.ir import ConvolutionStep, Step
from npu.compiler.pace import Pace
from npu.compiler.slicing import SMALLEST_SLICE_BYTES, Forms, Slicing, choose_form
from npu.compiler.step_problems import StepProblems
from npu.compiler.weights import Constants, ExpectedConstants, WeightSlice
from npu.isa.operations import AccumulatorFormat, KernelWindow
from npu.layouts import MapShape
from npu.progress import Progress, counted
from npu.records import dataclass, replace

_WORTH_ENCODING_AGAIN = 0.1
"""The part of the cycles of all steps with the same weights by which a second encoding must shorten those that use it."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One kernel operation: OFM channels [channel, channel + depth) of `step`.

    `constants` are its weight streams and scale records in the read-only region, or what is expected of them before they are
    encoded; `is_staged` says whether they are copied ahead of use; `table` is the read-only offset of its look-up table, once
    that is there. `cycles` is an estimate, and `cycles_if_left` one for constants that find no room for their copy.
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
    cycles_if_left: float = 0.0


def make_jobs(
    steps: Sequence[Step],
    rooms: Sequence[int],
    problems: StepProblems,
    constants: ExpectedConstants,
    *,
    is_bound: bool = False,
) -> list[Job]:
    """The jobs of `steps` in order; `rooms[i]` is how many bytes step i may spend on staged constants.

    `is_bound`: those who plan memory hold to it; else more is found for copies that save cycles. Nothing is encoded yet.
    """
    jobs: list[Job] = []
    pace = Pace(problems.port)
    stripes, encodings = _rooms_by_shape(steps, rooms), _Encodings(constants)
    work = _work_by_weights(steps, constants)
    usual = {key: [max(own.items(), key=lambda shape: len(shape[1]))] for key, own in stripes.items() if len(own) > 1}
    spare = 0.0
    for given, room in zip(steps, rooms, strict=True):
        step, forms = problems.of(given, constants)
        problem = forms.problem
        if isinstance(step, ConvolutionStep):
            has_lead = not is_bound or spare >= SMALLEST_SLICE_BYTES
            pace = pace if has_lead else pace.without_lead
            own = stripes[id(step.weights)]
            for shape, given_rooms in usual.pop(id(step.weights), ()):
                usual_forms = problems.forms(replace(problem, ofm=shape))
                encodings.add(usual_forms, step, choose_form(usual_forms, min(given_rooms), pace, is_bound=is_bound))
            alike = len(own[step.ofm.shape]) * _positions(step)
            share = alike / work[constants.digests_of(step.weights)[0]]
            form = encodings.cheapest(forms, step, choose_form(forms, room, pace, is_bound=is_bound), pace, share)
            spare = room - form.room
            new = _convolution_jobs(step, forms, form, constants)
        else:
            spare, choice = room, forms.best
            new = [Job(step, choice, problem.accumulator, 0, step.ofm.shape[2], None, False, None, choice.cycles)]
        for job in new:
            size = job.constants.bytes if job.constants else 0
            pace = pace.after(job.cycles, size if job.is_staged else 0, 0 if job.is_staged else size)
        jobs += new
    return jobs


def encode_constants(jobs: Sequence[Job], constants: Constants, progress: Progress | None = None) -> list[Job]:
    """The jobs with their weights encoded, and with their tables."""
    made: list[Job] = []
    for job in counted(jobs, "weights of operations", progress):
        step, encoded = job.step, job.constants
        table = constants.add(step.lut.tobytes()) if step.lut is not None else None
        if isinstance(step, ConvolutionStep):
            encoded = _added(constants, step, job.channel, job.depth, job.choice)
        made.append(replace(job, constants=encoded, table=table))
    return made


def _added(
    constants: Constants | ExpectedConstants, step: ConvolutionStep, channel: int, depth: int, choice: BlockChoice
) -> WeightSlice:
    channels = slice(channel, channel + depth)
    return constants.add_weights(step.weights, channels, choice, step, is_depthwise=step.is_depthwise)


def _positions(step: Step) -> int:
    return step.ofm.shape[0] * step.ofm.shape[1]


def _work_by_weights(steps: Sequence[Step], constants: ExpectedConstants) -> dict[bytes, int]:
    """By the contents of weights: the positions of the OFMs of all steps that use them."""
    work: dict[bytes, int] = {}
    for step in steps:
        if isinstance(step, ConvolutionStep):
            contents, _ = constants.digests_of(step.weights)
            work[contents] = work.get(contents, 0) + _positions(step)
    return work


def _rooms_by_shape(steps: Sequence[Step], rooms: Sequence[int]) -> dict[int, dict[MapShape, list[int]]]:
    """By the identity of weights and the OFM shape of stripes that use them: the rooms of these stripes."""
    by_shape: dict[int, dict[MapShape, list[int]]] = {}
    for step, room in zip(steps, rooms, strict=True):
        if isinstance(step, ConvolutionStep):
            by_shape.setdefault(id(step.weights), {}).setdefault(step.ofm.shape, []).append(room)
    return by_shape


class _Encodings:
    """How weights have been sliced and encoded so far: stripes, and operators that share tensors, can use them again."""

    def __init__(self, constants: ExpectedConstants) -> None:
        self._constants = constants
        self._known: dict[tuple[bytes, KernelWindow, int], list[Slicing]] = {}

    def add(self, forms: Forms, step: ConvolutionStep, form: Slicing) -> None:
        """Remembers a form of the step's weights."""
        _keep(form, self._of(forms, step))

    def cheapest(self, forms: Forms, step: ConvolutionStep, own: Slicing, pace: Pace, share: float) -> Slicing:
        """The fastest form that reads weights as they are encoded, if there is one hardly slower than the step's own.

        `share`: the part that steps with this problem have in the positions of all that use the weights.
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


def _keep(form: Slicing, known: list[Slicing]) -> None:
    """Add a form to those that are known, unless there is one like it."""
    if not any(form is one or form.is_like(one) for one in known):
        known.append(form)


def _convolution_jobs(step: ConvolutionStep, forms: Forms, form: Slicing, constants: ExpectedConstants) -> list[Job]:
    jobs, channel, accumulator = [], 0, forms.problem.accumulator
    for number, (count, choice) in enumerate(form.slices):
        expected, is_staged = _added(constants, step, channel, count, choice), number < form.staged
        left = forms.cycles_if_left(count, choice) if is_staged else choice.cycles
        jobs.append(Job(step, choice, accumulator, channel, count, expected, is_staged, None, choice.cycles, left))
        channel += count
    return jobs
