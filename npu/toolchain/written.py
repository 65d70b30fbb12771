"""What was compiled is prepared to run before anybody gets it: a model that npu run would refuse is not written."""

from __future__ import annotations

from collections.abc import Callable

from npu.errors import CompileError, UserError
from npu.graph.ethos_u import is_compiled, is_npu_job
from npu.graph.graph import Model, Op
from npu.graph.verify import verify_model
from sim.container import CompiledFile


def verify_runs(model: Model, name: str, file_of: Callable[[], CompiledFile]) -> None:
    """Raise CompileError if a file of the model could not be read, or if its operators cannot be prepared to run.

    Operators without kernel are the board's own: of a model that has one nothing can be said but that it can be read.
    """
    try:
        verify_model(model)
        file = file_of() if is_compiled(model) else None
        if _runs_on_cpu(model):
            _prepare(model, file)
    except UserError as error:
        raise CompileError(f"{name}: nothing is compiled, since npu run would refuse the file: {error}") from error


def _runs_on_cpu(model: Model) -> bool:
    """Whether there are operators on the CPU, all of them with a kernel; only then the interpreter is imported."""
    rest = [op for graph in model.graphs for op in graph.ops if not is_npu_job(op)]
    return bool(rest) and all(_has_kernel(op) for op in rest)


def _has_kernel(op: Op) -> bool:
    from npu.runtime.absent import has_no_kernel
    from npu.runtime.registry import find_custom

    return find_custom(op.name) is not None if op.kind == "CUSTOM" else not has_no_kernel(op.kind)


def _prepare(model: Model, file: CompiledFile | None) -> None:
    from npu.runtime.interpreter import CpuInterpreter
    from sim.delegate import EthosUDelegate

    delegates = [EthosUDelegate(file=file)] if file else []
    # Tensors that keep memory of their own need no plan of an arena.
    interpreter = CpuInterpreter(model=model, experimental_delegates=delegates, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
