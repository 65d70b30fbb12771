"""Many inferences that do not depend on one another, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter


def infer(interpreter: CpuInterpreter, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of an inference that begins anew: variables have their initial values."""
    interpreter.reset_all_variables()
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def infer_many(interpreters: Sequence[CpuInterpreter], examples: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Outputs of every example; as many at a time as there are interpreters of the model, one thread each."""
    count = min(len(interpreters), len(examples))
    if count <= 1:
        return [infer(interpreters[0], example) for example in examples]
    outputs: list[list[Array]] = [[]] * len(examples)

    def work(first: int) -> None:
        for k in range(first, len(examples), count):
            outputs[k] = infer(interpreters[first], examples[k])

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))
    return outputs
