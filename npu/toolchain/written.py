"""What no verb runs: an operator that kernels of the CPU refuse, in a model that is checked or in one that was compiled."""

from __future__ import annotations

from collections.abc import Callable

from npu.errors import CompileError, InterpreterError, ModelError, UserError
from npu.graph.consistency import defects_of, require_runnable
from npu.graph.ethos_u import is_compiled, is_npu_job
from npu.graph.graph import Model, Op
from npu.graph.input_shapes import open_inputs
from npu.graph.placement import CONSISTENCY, Device, Placement
from npu.graph.verify import verify_model
from npu.hardware.variant import Variant
from sim.container import CompiledFile


def require_kernels(model: Model, placement: Placement) -> None:
    """Raise ModelError for an operator that no verb runs: one that is on the CPU, and that its kernel refuses.

    Nothing is known of operators without kernel, which are the board's own, nor of models whose shapes are still to be given.
    """
    if open_inputs(model):
        return
    rest = [op for op in placement.ops if op.device is Device.CPU and not is_npu_job(model.graphs[op.graph].ops[op.index])]
    if any(violation.rule == CONSISTENCY for op in rest for violation in op.violations):
        require_runnable(model, defects_of(model))
    known = {(op.graph, op.index) for op in rest if _has_kernel(model.graphs[op.graph].ops[op.index])}
    if not known:
        return
    from npu.runtime.elsewhere import prepare_only  # few models need it

    try:
        prepare_only(model, known)
    except InterpreterError as error:
        raise ModelError(f"{error}; no kernel runs the operator") from error


def require_jobs(model: Model, variant: Variant) -> None:
    """UserError if the jobs of a compiled file cannot be read, or if its operators cannot be prepared to run.

    Operators without kernel are the board's own: of a model that has one nothing can be said but that it can be read.
    """
    _require(model, CompiledFile(model, variant))


def verify_runs(model: Model, source: Model, name: str, file_of: Callable[[], CompiledFile]) -> None:
    """Raise CompileError if a file of the model could not be read, or if its operators cannot be prepared to run.

    The model was compiled from `source`, which was read, and is that one if nothing was compiled.
    """
    try:
        if model is not source:
            verify_model(model)
        file = file_of() if is_compiled(model) else None
        if any(not is_npu_job(op) for graph in model.graphs for op in graph.ops):  # what is made for the NPU alone is sound
            _require(model, file)
    except UserError as error:
        raise CompileError(f"{name}: nothing is compiled, since npu run would refuse the file: {error}") from error


def _require(model: Model, file: CompiledFile | None) -> None:
    """UserError if an operator cannot be prepared, of a model whose operators all have a kernel."""
    if not all(_has_kernel(op) for graph in model.graphs for op in graph.ops if not is_npu_job(op)):
        return
    from npu.runtime.interpreter import CpuInterpreter
    from sim.delegate import EthosUDelegate

    delegates = [EthosUDelegate(file=file)] if file else []
    # Tensors that keep memory of their own need no plan of an arena.
    interpreter = CpuInterpreter(model=model, experimental_delegates=delegates, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()


def _has_kernel(op: Op) -> bool:
    from npu.runtime.absent import has_no_kernel

    if op.kind != "CUSTOM":
        return not has_no_kernel(op.kind)
    from npu.runtime.registry import find_custom  # imports kernels

    return find_custom(op.name) is not None
