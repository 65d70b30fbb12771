"""The debugger without its screen: one job at a time, with breakpoints, a way back, and bytes that can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.debugger.blocks import block_count, write_block
from npu.debugger.captured import Start, copied, starts_of
from npu.errors import SimulationError, UsageError, stream_errors_at
from npu.graph.ethos_u import is_npu_job
from npu.isa.decode import RawCommand, read_commands
from npu.isa.decoded import Decoded
from npu.isa.operations import FeatureMap, KernelOperation
from npu.isa.registers import registers_before
from npu.records import dataclass
from npu.toolchain.executable import prepare
from npu.toolchain.labels import execution_errors_at
from npu.toolchain.run import Inputs
from npu.toolchain.session import Executable, Session
from npu.toolchain.sources import Source
from sim.machine import Machine
from sim.memory import InsideMemory, NpuMemory
from sim.verify.footprint import footprint

_Snapshot: TypeAlias = tuple[dict[int, npt.NDArray[np.uint8]], InsideMemory]
"""The regions and what the accelerator holds at some time."""
_SNAPSHOT_BYTES = 256 << 20
"""For all snapshots of a job."""


class Watch(Enum):
    """What a breakpoint waits for."""

    OPERATOR = "operator"
    ADDRESS = "address"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stops before the first operation of source operator `number`, or behind one that writes byte `address` of region
    `number`, or behind one that makes this byte `value`."""

    watch: Watch
    number: int
    address: int = 0
    value: int = 0

    def __str__(self) -> str:
        if self.watch is Watch.OPERATOR:
            return f"operator {self.number}"
        place = f"{self.number}:{self.address:#x}"
        return f"write to {place}" if self.watch is Watch.ADDRESS else f"{place} becomes {self.value}"


@dataclass(frozen=True, slots=True)
class _MemoryEdit:
    """Bytes that the user has put into memory before operation `position`."""

    position: int
    region: int
    address: int
    content: bytes


def _owners_of(executable: Executable) -> list[tuple[int, ...]]:
    """For each job of the main graph the source operator of each of its operations."""
    ops = executable.model.graphs[0].ops
    return [executable.operators.sources.get(index, ()) for index, op in enumerate(ops) if is_npu_job(op)]


class Debugger:
    """Runs the NPU jobs of a model command by command, OFM block by OFM block or operation by operation. A plain model is
    compiled first.

    `position` is the number of the operation that is next; it goes from 0 to the number of operations. `block` is how many of
    its OFM blocks memory holds already, `command` the command that is next where commands are stepped. Errors are UserErrors.
    """

    def __init__(self, model: Source, session: Session, inputs: Inputs = None, *, seed: int = 0) -> None:
        self.executable = prepare(model, session)
        self.variant = self.executable.variant
        with stream_errors_at(self.executable.name):
            self._owners = _owners_of(self.executable)
        with execution_errors_at(self.executable.name, self.executable.file):
            self._starts = starts_of(self.executable, inputs, seed)
        if not self._starts:
            raise SimulationError(f"{self.executable.name}: must have an NPU job to debug, got none")
        self.breakpoints: list[Breakpoint] = []
        self.open(0)

    @property
    def job_count(self) -> int:
        return len(self._starts)

    @property
    def operators(self) -> tuple[int, ...]:
        """The source operators that some job works for."""
        return tuple(sorted({owner for owners in self._owners for owner in owners if owner >= 0}))

    def open(self, job: int) -> None:
        """Go to the beginning of job number `job`, in order of execution. UsageError if there is none."""
        if not 0 <= job < len(self._starts):
            raise UsageError(f"jobs are numbered from 0 to {len(self._starts) - 1}, got {job}")
        self.job = job
        self._start: Start = self._starts[job]
        self._machine = Machine(self.variant)
        self._changes: list[_MemoryEdit] = []
        self._read_commands: tuple[RawCommand, ...] = ()
        self._snapshots: dict[int, _Snapshot] = {}
        self.operations: Sequence[Decoded] = self._start.stream.operations
        self.owners = self._owners[job % len(self._owners)] if self._owners else ()
        size = sum(data.size for data in self._start.regions.values() if data.flags.writeable) or 1
        self._interval = max(1, -(-len(self.operations) * size // _SNAPSHOT_BYTES))
        self._load(copied(self._start.regions))

    def _load(self, regions: dict[int, npt.NDArray[np.uint8]]) -> None:
        self.memory = NpuMemory(regions, self.variant)
        self._held: tuple[_Snapshot, dict[int, npt.NDArray[np.uint8]]] | None = None
        self._machine.load(self._start.stream, self.memory)
        self.position = self.block = 0
        self.command: int | None = None

    @property
    def following(self) -> Decoded | None:
        """The operation that is next, None at the end."""
        return self.operations[self.position] if self.position < len(self.operations) else None

    def owner(self, position: int) -> int:
        """The source operator that an operation works for, -1 if none."""
        return self.owners[position] if position < len(self.owners) else -1

    def step(self) -> None:
        """Execute one operation, the rest of it where one has begun. SimulationError at the end."""
        self._leave()
        if self.position % self._interval == 0 and self.position not in self._snapshots:
            self._snapshots[self.position] = (copied(self.memory.regions), self.memory.inside())
        self._machine.step()
        self.position += 1
        self._apply()

    @property
    def block_count(self) -> int:
        """How many OFM blocks the next operation has."""
        return block_count(self.following.operation) if self.following is not None else 0

    def step_block(self) -> None:
        """Execute one OFM block of the next operation, or all of one that has none. SimulationError at the end."""
        self.command = None
        operation = self.following.operation if self.following is not None else None
        if not isinstance(operation, KernelOperation) or self.block + 1 == self.block_count:
            self.step()
            return
        if self._held is None:
            before = copied(self.memory.regions), self.memory.inside()
            self._machine.step()
            self._held = before, copied(self.memory.regions)
            self._put_back()
        write_block(operation, self.block, self._held[1], self.memory.regions)
        self.block += 1

    def step_command(self) -> RawCommand:
        """Execute one command and return it: registers change one by one, and the last command of an operation runs it.
        SimulationError at the end."""
        following = self.following
        if following is None:
            raise SimulationError("step: a command must be left, got the end of the stream")
        before = self.operations[self.position - 1].command_index + 1 if self.position else 0
        number = before if self.command is None else self.command
        done = self._commands()[number]
        if number == following.command_index:
            self.step()
        else:
            self._leave()
            self.command = number + 1
        return done

    def _commands(self) -> Sequence[RawCommand]:
        if not self._read_commands:
            self._read_commands = tuple(read_commands(self._start.stream.words, self.variant.accelerator.product))
        return self._read_commands

    def _leave(self) -> None:
        """Forget the blocks and commands of an operation that has begun: it is next, and whole."""
        if self._held is not None:
            self._put_back()
        self._held, self.block, self.command = None, 0, None

    def _put_back(self) -> None:
        """The memory before the operation that is next."""
        assert self._held is not None
        (regions, inside), _ = self._held
        for number, data in self.memory.regions.items():
            if data.flags.writeable:
                data[...] = regions[number]
        self.memory.put_inside(inside)
        self._machine.skip(self.position)

    def step_operator(self) -> None:
        """Execute operations until the next one works for another operator."""
        owner = self.owner(self.position)
        self.step()
        while self.following is not None and self.owner(self.position) in (owner, -1):
            self.step()

    def go_on(self) -> Breakpoint | None:
        """Execute until a breakpoint, which is the result, or to the end."""
        first = True
        while self.following is not None:
            stop = next(self._reached(), None)
            if stop is not None and not first:
                return stop
            first = False
            done, before = self.following, self._watched()
            self.step()
            hit = self._hit(done, before)
            if hit is not None:
                return hit
        return None

    def goto(self, position: int) -> None:
        """Go to an operation, forwards or back; what was changed behind it is forgotten. UsageError if there is none."""
        if not 0 <= position <= len(self.operations):
            raise UsageError(f"operations are numbered from 0 to {len(self.operations)}, got {position}")
        self._leave()
        if position < self.position:
            kept = [change for change in self._changes if change.position <= position]
            if kept != self._changes:
                self._changes = kept
                self._snapshots = {known: one for known, one in self._snapshots.items() if known <= position}
            self._restore(max((known for known in self._snapshots if known <= position), default=0))
        while self.position < position:
            self.step()

    def back(self) -> None:
        """Undo one operation, or what has been done of the next one."""
        self.goto(max(0, self.position - (not self.block and self.command is None)))

    def change(self, region: int, address: int, content: bytes) -> None:
        """Put bytes into memory, here and whenever this place is passed again. UsageError for bytes that cannot be written."""
        self._leave()
        data = self.memory.regions.get(region)
        end = address + len(content)
        if data is None or not data.flags.writeable or not 0 <= address <= end <= data.size:
            writable = {number: one.size for number, one in self.memory.regions.items() if one.flags.writeable}
            sizes = ", ".join(f"{number} ({size} bytes)" for number, size in writable.items())
            raise UsageError(f"bytes that can be changed lie in regions {sizes}, got {address:#x} to {end:#x} of {region}")
        self._changes.append(_MemoryEdit(self.position, region, address, content))
        self._snapshots = {known: kept for known, kept in self._snapshots.items() if known < self.position}
        self._apply()

    def map_values(self, fm: FeatureMap) -> npt.NDArray[np.integer]:
        """The values of a map as memory holds them now, (height, width, depth)."""
        return self._machine.feature_map(fm)

    def registers(self) -> dict[str, dict[str, int]]:
        """What the registers hold before the next operation, or the next command where commands are stepped: fields by the name
        of the command."""
        if self.command is None:
            return self._machine.registers()
        return registers_before(self._start.stream.words, self.variant.accelerator.product, self.command)

    def maps(self, position: int) -> dict[str, FeatureMap]:
        """The feature maps of an operation in memory by name."""
        if not 0 <= position < len(self.operations):
            return {}
        operation = self.operations[position].operation
        return operation.maps_in_memory if isinstance(operation, KernelOperation) else {}

    def _apply(self) -> None:
        for change in self._changes:
            if change.position == self.position:
                content = np.frombuffer(change.content, np.uint8)
                self.memory.regions[change.region][change.address : change.address + content.size] = content

    def _restore(self, position: int) -> None:
        """Go to a position that has a snapshot, or to the beginning."""
        regions, inside = self._snapshots.get(position, (self._start.regions, None))
        self._load(copied(regions))
        if inside is not None:
            self.memory.put_inside(inside)
        self._machine.skip(position)
        self.position = position
        self._apply()

    def _reached(self) -> Iterator[Breakpoint]:
        """Breakpoints on the operator whose first operation is next."""
        owner = self.owner(self.position)
        if self.position and owner == self.owner(self.position - 1):
            return
        for point in self.breakpoints:
            if point.watch is Watch.OPERATOR and point.number == owner:
                yield point

    def _watched(self) -> dict[Breakpoint, int]:
        """The bytes whose values are waited for."""
        return {point: self._byte(point) for point in self.breakpoints if point.watch is Watch.VALUE}

    def _byte(self, point: Breakpoint) -> int:
        data = self.memory.regions.get(point.number)
        return int(data[point.address]) if data is not None and 0 <= point.address < data.size else -1

    def _hit(self, done: Decoded, before: dict[Breakpoint, int]) -> Breakpoint | None:
        """The breakpoint on an address or value that an operation has reached."""
        for point, old in before.items():
            if old != point.value == self._byte(point):
                return point
        watched = [point for point in self.breakpoints if point.watch is Watch.ADDRESS]
        if watched:
            for _, part in footprint(done.operation, self.variant).writes:
                for point in watched:
                    offset = point.address - part.start
                    if part.region == point.number and 0 <= offset < part.mask.size and part.mask[offset]:
                        return point
        return None
