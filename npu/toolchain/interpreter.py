"""The interpreter that users get: plain and compiled files alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.runtime.custom import MutableOpResolver
from npu.runtime.delegate import Delegate, SimpleDelegate
from npu.runtime.interpreter import Interpreter as CpuInterpreter
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.operator import RuntimeOptions
from sim.delegate import EthosUDelegate

Registerer = Callable[[MutableOpResolver], None]


class Interpreter(CpuInterpreter):
    """Runs a TFLite model; `ethos-u` operators run in the simulated NPU, unless a delegate of the caller takes them.

    The variant is the shipped one that the file's configuration word names. For hardware of your own give
    `experimental_delegates=[sim.delegate.EthosUDelegate(variant)]`, with `variant` from
    `npu.hardware.catalogue.load_variant("board.yaml")`. Everything else is `npu.runtime.interpreter.Interpreter`.
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Delegate | SimpleDelegate] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = None,
        experimental_preserve_all_tensors: bool = False,
        *,
        options: RuntimeOptions | None = None,
        model: Model | None = None,
        **experimental: bool,
    ) -> None:
        super().__init__(
            model_path,
            model_content,
            experimental_delegates,
            num_threads,
            experimental_op_resolver_type,
            experimental_preserve_all_tensors,
            options=options,
            model=model,
            **experimental,
        )
        if is_compiled(self._model):
            npu = EthosUDelegate(num_threads=num_threads or 1)
            self._owned.append(npu)
            self.modify_graph_with_delegate(npu)


class InterpreterWithCustomOps(Interpreter):
    """An interpreter with custom operators of its own, as LiteRT's class of this name has them.

    Each of `custom_op_registerers` is called with a `npu.runtime.custom.MutableOpResolver` and adds its operators. LiteRT also
    takes symbols of C++ libraries; kernels in C come as delegates here (`npu.load_delegate`).
    """

    def __init__(self, custom_op_registerers: Sequence[Registerer] | None = None, **keywords: Any) -> None:
        resolver = MutableOpResolver()
        for registerer in custom_op_registerers or ():
            if not callable(registerer):
                raise InterpreterValueError(
                    f"custom_op_registerers: must be functions that take a resolver, got {registerer!r}"
                )
            registerer(resolver)
        options = keywords.pop("options", None) or RuntimeOptions()
        super().__init__(
            options=replace(options, custom_operators={**options.custom_operators, **resolver.operators}), **keywords
        )
