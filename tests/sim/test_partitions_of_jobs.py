"""Several jobs of a compiled file in one partition: tensors between them without a buffer, inputs of another shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph.attributes import ReshapeOptions
from npu.graph.dtype import DType
from npu.graph.ethos_u import ARENA_METADATA, CUSTOM_CODE, CUSTOM_OPTIONS
from npu.hardware.catalogue import load_variant
from npu.isa.encode import encode
from npu.isa.operations import Dma, DmaSide, DmaWait, Stop
from npu.isa.payload import build_payload
from npu.runtime.interpreter import CpuInterpreter
from sim.delegate import EthosUDelegate

from tests.support.builder import ModelBuilder

VARIANT = load_variant("ethos-u55-128")
VALUES = np.arange(-8, 8).astype(np.int8).reshape(1, 16)


class Jobs:
    """A compiled file under construction, whose jobs move 16 bytes inside an arena of 256."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self.offsets: dict[int, int] = {}
        self.constants = self.builder.constant(np.zeros(0, np.uint8))
        self.scratch = self.builder.tensor((256,), DType.UINT8)
        self.offsets[self.scratch] = 0

    def input(self, offset: int, shape: Sequence[int] = (1, 16)) -> int:
        index = self.builder.input(shape, DType.INT8, scale=1.0)
        self.offsets[index] = offset
        return index

    def move(self, source: int, offset: int) -> int:
        """A job that copies the bytes of a tensor to an offset; returns the tensor there."""
        transfer = Dma(source=DmaSide(1, self.offsets[source]), destination=DmaSide(1, offset), length_bytes=16)
        stream = build_payload(encode([transfer, DmaWait(0), Stop()], VARIANT), VARIANT)
        commands = self.builder.constant(np.frombuffer(stream, np.uint8))
        target = self.builder.tensor((1, 16), DType.INT8, scale=1.0)
        self.offsets[target] = offset
        given = [commands, self.constants, self.scratch, self.scratch, source]
        self.builder.multi_op("CUSTOM", given, [target], custom_code=CUSTOM_CODE, custom_options=CUSTOM_OPTIONS)
        return target

    def build(self, *outputs: int) -> bytes:
        self.builder.output(*outputs)
        count = len(self.builder.tensors)
        places = [self.offsets.get(index, -1) for index in range(count)]
        self.builder.metadata[ARENA_METADATA] = np.array([1, 0, count, *places], "<i4").tobytes()
        return self.builder.build()


def run(content: bytes, shape: Sequence[int] | None = None) -> tuple[CpuInterpreter, list[np.ndarray]]:
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[EthosUDelegate()])
    place = interpreter.get_input_details()[0]["index"]
    if shape is not None:
        interpreter.resize_tensor_input(place, shape)
    interpreter.allocate_tensors()
    for sign in (-1, 1):
        value = (sign * VALUES.astype(int)).clip(-128, 127).astype(np.int8)
        interpreter.set_tensor(place, value.reshape(VALUES.shape if shape is None else shape))
        interpreter.invoke()
    return interpreter, [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def test_a_tensor_between_two_jobs_stays_in_scratch() -> None:
    jobs = Jobs()
    between = jobs.move(jobs.input(0), 64)
    _, found = run(jobs.build(jobs.move(between, 128)))
    np.testing.assert_array_equal(found[0], VALUES)


def test_a_tensor_between_two_jobs_may_be_an_output_too() -> None:
    jobs = Jobs()
    between = jobs.move(jobs.input(0), 64)
    _, found = run(jobs.build(between, jobs.move(between, 128)))
    np.testing.assert_array_equal(found[0], VALUES)
    np.testing.assert_array_equal(found[1], VALUES)


def test_a_job_reads_what_the_cpu_made_and_not_what_scratch_holds() -> None:
    jobs = Jobs()
    first = jobs.move(jobs.input(0), 64)
    b = jobs.builder
    negated = b.op("ABS", [first], (1, 16), DType.INT8, 1.0, 0)
    jobs.offsets[negated] = 64
    _, found = run(jobs.build(jobs.move(negated, 128)))
    np.testing.assert_array_equal(found[0], abs(VALUES))


def test_a_job_keeps_its_shapes_when_an_input_has_as_many_elements() -> None:
    jobs = Jobs()
    _, found = run(jobs.build(jobs.move(jobs.move(jobs.input(0), 64), 128)), (4, 4))
    np.testing.assert_array_equal(found[0], VALUES)


def test_a_job_refuses_an_input_of_another_size() -> None:
    jobs = Jobs()
    content = jobs.build(jobs.move(jobs.input(0), 64))
    with pytest.raises(InterpreterError, match="ethos-u"):
        run(content, (1, 32))


def test_a_reshape_between_jobs_may_be_left_out() -> None:
    jobs = Jobs()
    first = jobs.move(jobs.input(0), 64)
    b = jobs.builder
    flat = b.op("RESHAPE", [first], (16,), DType.INT8, 1.0, 0, attributes=ReshapeOptions((16,)))
    jobs.offsets[flat] = 64
    _, found = run(jobs.build(jobs.move(flat, 128)), (2, 8))
    np.testing.assert_array_equal(found[0], VALUES)
