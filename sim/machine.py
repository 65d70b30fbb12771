"""Runs operations in order on a memory: prepares them once, executes them often, and says which command failed.

A prepared stream holds what its operations need beyond memory: decoded weights, offset tables, packed constants. It is kept for
a memory shape; whatever it took from memory is compared again at every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.hardware.variant import Variant
from npu.isa.decoded import Alike, Decoded
from npu.isa.operations import FeatureMap, Operation
from npu.isa.registers import registers_before
from npu.isa.stream import CommandStream
from sim.functional.feature_maps import read
from sim.functional.prepared import (
    Moved,
    PreparedStream,
    Tier,
    best_tier,
    prepare_stream,
    run_again,
    run_prepared,
)
from sim.functional.threads import StreamThreads
from sim.memory import NpuMemory

Stream = CommandStream | npt.NDArray[np.uint32] | Sequence[Decoded] | Sequence[Operation]
Hook = Callable[[int, Operation, NpuMemory], None]
"""Called after each operation with its index in the stream of operations, the operation and the memory."""
_MAX_STREAMS = 32
_INTEGER_TYPES = {(8, True): np.int8, (8, False): np.uint8, (16, True): np.int16, (16, False): np.uint16, (32, True): np.int32}


class Machine:
    """One NPU. `tier` selects the kernels; every tier gives the same bytes (see `sim.functional.prepared.Tier`).

    `num_threads` share the work of repeated runs on one memory; the bytes do not depend on them.
    """

    def __init__(self, variant: Variant, tier: Tier | None = None, num_threads: int = 1) -> None:
        self.variant = variant
        self._threads = StreamThreads(num_threads)
        self.tier = best_tier() if tier is None else tier
        self._streams: dict[tuple[object, ...], PreparedStream] = {}
        self._loaded: PreparedStream | None = None
        self._decoded: Sequence[Decoded] = ()
        self._memory: NpuMemory | None = None
        self._position = 0
        self._words: npt.NDArray[np.uint32] | None = None

    def run(self, stream: Stream, memory: NpuMemory, *, hook: Hook | None = None) -> None:
        """Execute a whole stream: one of a compiled file, command words, decoded operations or bare operations.

        Raises StreamError if the words are not a stream and SimulationError (naming command and operation) if an
        operation leaves its memory, both before anything is executed; SimulationError when weights do not decode at the
        moment of their use.
        """
        prepared = self._prepared(stream, memory)
        if hook is None:
            run_prepared(prepared, memory, threads=self._threads)
            return
        for index, one in enumerate(prepared.operations):
            run_prepared(prepared, memory, index, index + 1)
            hook(index, one.operation, memory)

    def run_again(self, stream: CommandStream, memory: NpuMemory, moved: Moved) -> int:
        """Run a whole stream many times in one call of one thread, after `run` has prepared it for repetitions on the memory;
        the number of runs done, which is 0 before.
        """
        return run_again(self._prepared(stream, memory), memory, moved)

    def load(self, stream: Stream, memory: NpuMemory) -> None:
        """Prepare to `step` through a stream."""
        self._loaded = self._prepared(stream, memory)
        self._decoded = self._loaded.alike.decoded
        self._memory = memory
        self._position = 0
        words = stream.words if isinstance(stream, CommandStream) else stream
        self._words = words.copy() if isinstance(words, np.ndarray) else None

    @property
    def next_operation(self) -> Decoded | None:
        """What `step` will execute, None at the end."""
        return self._decoded[self._position] if self._position < len(self._decoded) else None

    def step(self) -> Decoded:
        """Execute one operation of the loaded stream and return it; SimulationError at the end of the stream."""
        following = self.next_operation
        if following is None or self._memory is None or self._loaded is None:
            raise SimulationError("step: a loaded stream must have operations left, got its end")
        run_prepared(self._loaded, self._memory, self._position, self._position + 1)
        self._position += 1
        return following

    def skip(self, operations: int) -> None:
        """Go to an operation of the loaded stream without executing what stands before it: its memory is as it left it."""
        if not 0 <= operations <= len(self._decoded):
            raise SimulationError(f"skip: must be in [0, {len(self._decoded)}], got {operations}")
        self._position = operations

    def run_until(self, command_index: int) -> Decoded | None:
        """Execute the loaded stream up to, not including, the first operation at or after a command; that operation."""
        while (following := self.next_operation) is not None and following.command_index < command_index:
            self.step()
        return following

    def registers(self) -> dict[str, dict[str, int]]:
        """What the registers hold where the loaded stream stands: fields by the name of the command that writes them.

        A register that is not listed holds zero. SimulationError unless a stream of command words is loaded.
        """
        if self._words is None:
            raise SimulationError("registers: a stream of command words must be loaded, got none or operations")
        following = self.next_operation
        end = self._words.size if following is None else following.command_index
        return registers_before(self._words, self.variant.accelerator.product, end)

    def feature_map(self, fm: FeatureMap, memory: NpuMemory | None = None) -> npt.NDArray[np.integer]:
        """The values of a feature map in memory: (height, width, depth) in its own integer type."""
        source = self._memory if memory is None else memory
        if source is None:
            raise SimulationError("feature map: a stream must be loaded or a memory given, got neither")
        source.check_feature_map(fm)
        return read(fm, source).astype(_INTEGER_TYPES.get((fm.element.bits, fm.element.is_signed), np.int64))

    def _alike(self, stream: Stream) -> Alike:
        if isinstance(stream, np.ndarray):
            stream = CommandStream(stream, self.variant)
        if isinstance(stream, CommandStream):
            return stream.alike
        return Alike.none(stream)

    def _prepared(self, stream: Stream, memory: NpuMemory) -> PreparedStream:
        """What is prepared of a stream on memory of this shape."""
        content: object = stream
        if not isinstance(stream, CommandStream):
            content = stream.tobytes() if isinstance(stream, np.ndarray) else tuple(stream)
        key = (content, memory.shape)
        known = self._streams.get(key)
        if known is None:
            if memory.variant != self.variant:
                raise SimulationError(f"run: memory must be of {self.variant.name}, got {memory.variant.name}")
            known = prepare_stream(self._alike(stream), memory, self.tier)
            while len(self._streams) >= _MAX_STREAMS:
                del self._streams[next(iter(self._streams))]
            self._streams[key] = known
        return known
