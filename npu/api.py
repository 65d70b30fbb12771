"""The verbs as Python programs call them: hardware and rules as keywords, or a `session` that many calls share.

The keywords that verbs share are declared once, in `Choices`; what they mean stands in `npu`. The verbs themselves, in
`npu.toolchain`, know sessions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from npu.compiler.goal import Goal
from npu.errors import ArgumentTypeError, ConfigError
from npu.hardware.choice import Config, Hardware
from npu.numerics.lstm_gates import LstmGates
from npu.toolchain.session import DEFAULT_PROFILE, Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from npu.graph.placement import Placement
    from npu.progress import Progress
    from npu.reports.check_report import CheckReport
    from npu.reports.comparison import Comparison
    from npu.toolchain.compile import Compiled
    from npu.toolchain.diff import DiffResult
    from npu.toolchain.explain import ExplainedModel
    from npu.toolchain.export import Exported
    from npu.toolchain.fix import Fixed
    from npu.toolchain.origin import Origin
    from npu.toolchain.run import Inputs, RunResult
    from npu.toolchain.sources import Source
    from npu.toolchain.timing import TimedModel
    from sim.verify.verifier import Finding

Name = str | Path | None


Verb = TypeVar("Verb", bound=Callable[..., Any])


class Choices(TypedDict, total=False):
    """Keywords of every verb beside `target` and `config`: sections of the description, rules, or a session in place of all."""

    memory_mode: Name
    system: Name
    arena_cache_size: int | None
    profile: str | None
    optimise: str | None
    lstm_gates: str | None
    session: Session | None


def _takes_choices(verb: Verb) -> Verb:
    """A verb whose signature, as `help` and notebooks show it, has the choices by name."""
    shape = signature(verb)
    *own, _ = shape.parameters.values()
    choices = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__) for name, kind in _KINDS.items()
    ]
    verb.__signature__ = shape.replace(parameters=[*own, *choices])  # type: ignore[attr-defined]
    return verb


_KINDS = Choices.__annotations__


@_takes_choices
def check(model: Source, target: Name = None, config: Config | None = None, **choices: Unpack[Choices]) -> Placement:
    """NPU or CPU for every operator by the limits of the profile, with every one that it violates.

    Nothing is compiled: what the memory or the compiler refuse, and costs, are for `check_report` to tell.
    """
    from npu.toolchain.check import check as verb

    return verb(model, _session(target, config, choices))


@_takes_choices
def check_report(
    model: Source, target: Name = None, config: Config | None = None, *, is_compiled: bool = False, **choices: Unpack[Choices]
) -> CheckReport:
    """What `npu check` says: placement, cycles and memory of the model as it is compiled, what to change, conditions.

    The profiles of documents are only read, their cycles estimates from shapes, unless `is_compiled`.
    """
    from npu.toolchain.check import check_report as verb

    return verb(model, _session(target, config, choices), is_compiled=is_compiled)


@_takes_choices
def compare(
    a: Source,
    b: Source | None = None,
    target: Name = None,
    config: Config | None = None,
    *,
    other: Session | None = None,
    origin: Origin | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Comparison:
    """Two models or compiled files side by side, or one under two sessions; `other` is that of `b` (default: the same)."""
    from npu.toolchain.compare import compare as verb

    first = _session(target, config, choices)
    return verb(a, a if b is None else b, (first, other or first), origin=origin, progress=progress)


@_takes_choices
def compile(
    model: Source,
    target: Name = None,
    config: Config | None = None,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Compiled:
    """Compile the NPU part of a model. ModelError, ConfigError or CompileError say what is at fault.

    `optimise` is "performance" (the default: cycles, within the arena's bytes) or "size" (SRAM), wherever a model is compiled.
    `input_shapes` are those of inputs by name, for a model whose sizes are open.
    """
    from npu.toolchain.compile import compile as verb

    return verb(model, _session(target, config, choices), input_shapes=input_shapes, progress=progress)


@_takes_choices
def diff(
    reference: Source,
    compiled: Source,
    inputs: Inputs = None,
    target: Name = None,
    config: Config | None = None,
    *,
    seed: int = 0,
    database: Path | None = None,
    **choices: Unpack[Choices],
) -> DiffResult:
    """Run both on the same inputs (seeded random ones if none are given) and compare.

    `target` or `config` names the hardware if it is none of the shipped targets, `database` is the debug database of Vela for
    its file. ModelError if the two do not belong together.
    """
    from npu.toolchain.diff import diff as verb

    return verb(reference, compiled, _session(target, config, choices), inputs, seed=seed, database=database)


@_takes_choices
def disassemble(model: Source, target: Name = None, config: Config | None = None, **choices: Unpack[Choices]) -> str:
    """The annotated listing of every command stream of a compiled file, in file order. StreamError for words that are none.

    `target` or `config` names the hardware if it is none of the shipped targets.
    """
    from npu.toolchain.listing import disassemble as verb

    return verb(model, _session(target, config, choices))


@_takes_choices
def explain(
    model: Source,
    target: Name = None,
    config: Config | None = None,
    *,
    progress: Progress | None = None,
    origin: Origin | None = None,
    **choices: Unpack[Choices],
) -> ExplainedModel:
    """Time a model, compiled first if need be, and take the cycles of every operator apart."""
    from npu.toolchain.explain import explain as verb

    chosen = _session(target, config, choices)
    return verb(model, chosen, progress=progress, origin=origin)


@_takes_choices
def export(
    model: Source,
    target: Name = None,
    config: Config | None = None,
    *,
    inputs: Inputs = None,
    seed: int = 0,
    **choices: Unpack[Choices],
) -> Exported:
    """C sources of a compiled file for TensorFlow Lite Micro, with a self-test; a plain model is compiled first.

    ModelError for an operator on the CPU that TensorFlow Lite Micro lacks.
    """
    from npu.toolchain.export import export as verb

    return verb(model, _session(target, config, choices), inputs, seed=seed)


@_takes_choices
def fix(model: Source, target: Name = None, config: Config | None = None, **choices: Unpack[Choices]) -> Fixed:
    """Apply the fixes that keep every result bit for bit. ModelError for a file that is compiled already."""
    from npu.toolchain.fix import fix as verb

    return verb(model, _session(target, config, choices))


@_takes_choices
def run(
    model: Source,
    inputs: Inputs = None,
    target: Name = None,
    config: Config | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    dump: bool = False,
    with_events: bool = False,
    origin: Origin | None = None,
    **choices: Unpack[Choices],
) -> RunResult:
    """Compile a plain model if need be, execute the compiled file bit-exactly, and time it.

    `inputs`, of the types and shapes of the model's, are in model order or by name, or the array of its only one; without them,
    seeded random data of each type's full range. A compiled file picks its variant by the configuration word in it unless
    `target` or `config` is given. `dump` also returns every tensor, `with_events` keeps what a trace of the times shows.
    InterpreterError for inputs that do not fit.
    """
    from npu.toolchain.run import run as verb

    chosen = _session(target, config, choices)
    return verb(model, chosen, inputs, seed=seed, progress=progress, dump=dump, with_events=with_events, origin=origin)


def sweep(
    models: Sequence[Source],
    targets: Sequence[str] = (),
    *,
    boards: Sequence[str] = (),
    configs: Sequence[str | Path] = (),
    changes: Sequence[str] = (),
    over: Mapping[str, Any] | None = None,
    profile: str = DEFAULT_PROFILE,
    optimise: str = "performance",
    compare_outputs: bool = False,
    journal: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Time every model on every hardware with every combination of the values of `over`; a DataFrame of pandas.

    `over` are values by field of the hardware (or by "optimise" or "profile"): lists, or text as for `npu sweep --over`.
    `changes` are texts KEY=VALUE for every point. A point that fails has an `error`. `journal` is a file that keeps what is
    done.
    `workers` are processes of this machine, `scheduler` the address of a Dask scheduler: guard the script that calls this with
    `if __name__ == "__main__"` then.
    """
    from npu.explore.journal import Journal
    from npu.explore.space import make_space
    from npu.explore.sweep import sweep as verb
    from npu.explore.table import frame_of
    from npu.workers import open_workers

    space = make_space(
        models,
        targets=targets,
        boards=boards,
        configs=configs,
        changes=changes,
        over=over,
        profile=profile,
        optimise=optimise,
        compares_outputs=compare_outputs,
    )
    with open_workers(workers, scheduler) as chosen:
        swept = verb(list(space.points()), chosen, Journal(Path(journal) if journal is not None else None), progress)
    return frame_of(swept.rows)


@_takes_choices
def time_model(
    model: Source,
    target: Name = None,
    config: Config | None = None,
    *,
    progress: Progress | None = None,
    with_events: bool = False,
    with_weights: bool = True,
    origin: Origin | None = None,
    **choices: Unpack[Choices],
) -> TimedModel:
    """Compile a plain model if need be, and time it without executing it; `with_events` keeps what a trace shows.

    `with_weights=False` estimates how far weights can be compressed in place of compressing them, which is faster.
    """
    from npu.toolchain.timing import time_model as verb

    chosen = _session(target, config, choices)
    return verb(model, chosen, progress=progress, with_events=with_events, with_weights=with_weights, origin=origin)


@_takes_choices
def verify(
    model: Source, target: Name = None, config: Config | None = None, **choices: Unpack[Choices]
) -> list[tuple[int, Finding]]:
    """Judge every command stream of a compiled file; (operator index, finding) in order, empty if all is well."""
    from npu.toolchain.inspect import verify as verb

    return verb(model, _session(target, config, choices))


def _session(target: Name, config: Config | None, choices: Choices) -> Session:
    """The session that was given, or one for this call. ConfigError for both a session and what it decides."""
    unknown = ", ".join(sorted(choices.keys() - _KINDS.keys()))
    if unknown:
        raise ArgumentTypeError(f"keywords: must be those of the function or {', '.join(_KINDS)}, got {unknown}")
    hardware = Hardware(target, config, choices.get("memory_mode"), choices.get("system"), (), choices.get("arena_cache_size"))
    session, profile, optimise = choices.get("session"), choices.get("profile"), choices.get("optimise")
    gates = choices.get("lstm_gates")
    if session is None:
        chosen = DEFAULT_PROFILE if profile is None else profile
        goal = Goal.PERFORMANCE if optimise is None else optimise
        return Session(hardware, chosen, goal, LstmGates.EXACT if gates is None else gates)
    if hardware != Hardware() or (profile, optimise, gates) != (None, None, None):
        raise ConfigError(
            "session: decides hardware, profile, goal and gates; leave target, config, memory_mode, system, "
            "arena_cache_size, profile, optimise and lstm_gates out"
        )
    return session
