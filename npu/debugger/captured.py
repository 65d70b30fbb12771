"""The memory of every NPU job of a model as it is when the job starts, for given inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npu.hardware.variant import Variant
from npu.isa.payload import Configuration
from npu.isa.stream import CommandStream
from npu.records import dataclass
from npu.runtime.interpreter import CpuInterpreter
from npu.toolchain.run import Inputs, execute
from npu.toolchain.session import Executable
from sim.container import CompiledFile
from sim.delegate import EthosUDelegate
from sim.machine import Hook, Machine, Stream
from sim.memory import NpuMemory


@dataclass(frozen=True, slots=True)
class Start:
    """A job that is about to run: its command stream and its regions. Regions that are one memory stay one."""

    stream: CommandStream
    regions: Mapping[int, npt.NDArray[np.uint8]]


class _CapturingMachine(Machine):
    """A machine that keeps what each job starts with."""

    def __init__(self, variant: Variant, starts: list[Start]) -> None:
        super().__init__(variant)
        self._starts = starts

    def run(self, stream: Stream, memory: NpuMemory, *, hook: Hook | None = None) -> None:
        assert isinstance(stream, CommandStream)
        self._starts.append(Start(stream, copied(memory.regions)))
        super().run(stream, memory, hook=hook)


class _CapturingDelegate(EthosUDelegate):
    def __init__(self, file: CompiledFile, starts: list[Start]) -> None:
        super().__init__(file=file)
        self._machine = _CapturingMachine(file.variant, starts)

    def machine(self, config: Configuration) -> Machine:
        return self._machine


def starts_of(executable: Executable, inputs: Inputs, seed: int) -> list[Start]:
    """Run the model once; what every job of it started with, in order of execution."""
    starts: list[Start] = []
    interpreter = CpuInterpreter(model=executable.model, experimental_delegates=[_CapturingDelegate(executable.file, starts)])
    execute(interpreter, executable.model.graphs[0], inputs, seed)
    return starts


def copied(regions: Mapping[int, npt.NDArray[np.uint8]]) -> dict[int, npt.NDArray[np.uint8]]:
    """Copies of all regions that may be written; two numbers of one memory are one copy."""
    copies: dict[int, npt.NDArray[np.uint8]] = {}
    result = {}
    for number, data in regions.items():
        address = data.ctypes.data
        if data.flags.writeable and address not in copies:
            copies[address] = data.copy()
        result[number] = copies[address] if data.flags.writeable else data
    return result
