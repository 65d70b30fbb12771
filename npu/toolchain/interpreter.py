"""The interpreter that users get: plain and compiled files alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.numerics.arrays import Array
from npu.runtime.batch import infer_many
from npu.runtime.custom import MutableOpResolver
from npu.runtime.delegate import Delegate, SimpleDelegate
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.operator import RuntimeOptions
from sim.delegate import EthosUDelegate

Registerer = Callable[[MutableOpResolver], None]


class Interpreter(CpuInterpreter):
    """Runs a TFLite model; `ethos-u` operators run in the simulated NPU, unless a delegate of the caller takes them.

    The variant is the shipped one that the file's configuration word names. For hardware of your own give
    `experimental_delegates=[sim.delegate.EthosUDelegate(variant)]`, with `variant` from
    `npu.hardware.catalogue.load_variant("board.yaml")`. Everything else is `npu.runtime.interpreter.CpuInterpreter`.
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
        self._num_threads, self._has_delegates = num_threads or 1, bool(experimental_delegates)
        self._twin = partial(
            Interpreter, experimental_op_resolver_type=experimental_op_resolver_type, options=options, model=self._model
        )
        self._twins: list[Interpreter] = []
        if is_compiled(self._model):
            npu = EthosUDelegate(num_threads=num_threads or 1)
            self._owned.append(npu)
            self.modify_graph_with_delegate(npu)

    def invoke_batch(self, *inputs: Any) -> list[Array]:
        """The outputs of many inferences: inputs and outputs have an axis more, the first, over them.

        None depends on another: variables have their initial values before each. `num_threads` run at a time, each in an
        interpreter of its own that is kept for the next batch; one at a time if the caller gave delegates.
        """
        examples = _items(inputs, self.get_input_details())
        count = 1 if self._has_delegates else min(self._num_threads, len(examples))
        if count <= 1:
            return _stacked(infer_many([self], examples))
        while len(self._twins) < count:
            self._twins.append(self._twin())
            self._twins[-1].allocate_tensors()
        return _stacked(infer_many(self._twins[:count], examples))

    def close(self) -> None:
        for twin in self._twins:
            twin.close()
        self._twins.clear()
        super().close()


def _items(inputs: Sequence[Any], details: Sequence[dict[str, Any]]) -> list[list[Array]]:
    """The inputs of each inference of a batch."""
    if len(inputs) != len(details):
        raise InterpreterValueError(f"invoke_batch: must have {len(details)} inputs, got {len(inputs)}")
    arrays = [np.asarray(values) for values in inputs]
    for values, detail in zip(arrays, details, strict=True):
        shape = tuple(int(size) for size in detail["shape"])
        if values.ndim == 0 or values.shape[1:] != shape:
            raise InterpreterValueError(
                f"invoke_batch: input '{detail['name']}' must have a first axis and then {shape}, got {values.shape}"
            )
        if len(values) != len(arrays[0]):
            raise InterpreterValueError(f"invoke_batch: inputs must be as many, got {len(arrays[0])} and {len(values)}")
    if not arrays or not len(arrays[0]):
        raise InterpreterValueError("invoke_batch: must have at least one input, got none")
    return [[values[k] for values in arrays] for k in range(len(arrays[0]))]


def _stacked(results: Sequence[Sequence[Array]]) -> list[Array]:
    """Each output of all inferences."""
    return [np.stack(values) for values in zip(*results, strict=True)]


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
