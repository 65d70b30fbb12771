"""Many inferences that do not depend on one another, several at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter

_CALL_SECONDS = 0.01
"""About how long one call of many inferences takes: it cannot be interrupted."""


def infer(interpreter: CpuInterpreter, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of an inference that begins anew: variables have their initial values."""
    return _infer(interpreter, _indices(interpreter.get_input_details()), inputs)


def infer_many(interpreters: Sequence[CpuInterpreter], examples: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Outputs of every example; as many at a time as there are interpreters of the model, one thread each."""
    count, queue = min(len(interpreters), len(examples)), _Queue(examples)
    if count <= 1:
        queue.work(interpreters[0])
        return queue.outputs
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(queue.work, interpreters[:count]))
    return queue.outputs


class _Queue:
    """Examples that threads take in turn, the next few at a time."""

    def __init__(self, examples: Sequence[Sequence[Array]]) -> None:
        self.examples, self._next, self._lock = examples, 0, Lock()
        self.outputs: list[list[Array]] = [[]] * len(examples)

    def work(self, interpreter: CpuInterpreter) -> None:
        """Infer until nothing is left."""
        indices, count = _indices(interpreter.get_input_details()), 1
        outputs = [(detail["shape"], detail["dtype"]) for detail in interpreter.get_output_details()]
        while (examples := self._take(count)).stop > examples.start:
            start = time.perf_counter()
            made = [[np.empty(shape, dtype) for shape, dtype in outputs] for _ in self.examples[examples]]
            done = interpreter.invoke_many(self.examples[examples], made)
            self.outputs[examples.start : examples.start + done] = made[:done]
            for k in range(examples.start + done, examples.stop):
                self.outputs[k] = _infer(interpreter, indices, self.examples[k])
            is_short = done > 0 and time.perf_counter() - start < _CALL_SECONDS / 2
            count = 2 * count if is_short else max(1, count // 2)

    def _take(self, count: int) -> slice:
        """The next examples; few at the end, so that all threads end at the same time."""
        with self._lock:
            first = self._next
            left = len(self.examples) - first
            self._next += min(count, max(1, left // 4), left)
            return slice(first, self._next)


def _indices(details: Sequence[dict[str, Any]]) -> list[int]:
    return [detail["index"] for detail in details]


def _infer(interpreter: CpuInterpreter, inputs: Sequence[int], values: Sequence[Array]) -> list[Array]:
    """With the indices of the input tensors at hand."""
    interpreter.reset_all_variables()
    for index, array in zip(inputs, values, strict=True):
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
