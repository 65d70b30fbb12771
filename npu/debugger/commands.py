"""The commands of the debugger's command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npu.debugger.debugger import Breakpoint, Debugger, Watch
from npu.debugger.pictures import MapView
from npu.errors import UsageError
from npu.hardware.shipped import closest
from npu.isa.decode import RawCommand
from npu.isa.disassemble import command_text

HELP = """step [N], block [N], command [N]    execute operations, OFM blocks, commands
next, continue                      execute one operator, to a breakpoint
back [N], goto N, job N             undo operations, go to one, open a job
break operator N                    stop before its first operation
break address R:A, value R:A=V      stop when this byte is written, is V
delete                              forget all breakpoints
memory R:A [N], set R:A=BYTES       show bytes, change bytes (hexadecimal)
map, view, channel N                another feature map, numbers, a channel
quit                                commands that have a key may be one letter"""
KEYS = {
    "s": "step", "k": "block", "d": "command", "n": "next", "b": "back", "c": "continue", "m": "map", "v": "view",
}  # fmt: skip
"""What is done often, by its key; on the command line a key is the command."""


class DebuggerCommands:
    """Runs commands on a debugger. `view` is what the screen shows of memory."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger, self.view = debugger, MapView()
        self._verbs: dict[str, Callable[[list[str]], str]] = {
            "step": self._step,
            "block": self._block,
            "command": self._command,
            "next": self._next,
            "back": self._back,
            "continue": self._continue,
            "goto": lambda words: self._goto(_number(words, 0)),
            "job": self._job,
            "break": self._break,
            "delete": self._delete,
            "set": self._set,
            "memory": self._memory,
            "map": lambda _: self._look(self.view.other()),
            "view": lambda _: self._look(replace(self.view, is_picture=not self.view.is_picture)),
            "channel": lambda words: self._look(replace(self.view, channel=_number(words, 0))),
        }

    def run(self, line: str) -> str:
        """Run one command; what to say of it. UserError if it is none, or cannot be done."""
        verb, *words = line.split()
        verb = KEYS.get(verb, verb)
        if verb not in self._verbs:
            raise UsageError(f"commands are {', '.join(self._verbs)}, got '{verb}'{closest(verb, self._verbs)}")
        return self._verbs[verb](words)

    def _where(self) -> str:
        debugger = self.debugger
        where = f"operation {debugger.position} of {len(debugger.operations)}"
        return f"{where}, block {debugger.block} of {debugger.block_count}" if debugger.block else where

    def _step(self, words: list[str]) -> str:
        self._repeat(self.debugger.step, words)
        return self._where()

    def _repeat(self, step: Callable[[], object], words: list[str]) -> None:
        """Do a step so often, at most to the end of the job."""
        if self.debugger.following is None:
            raise UsageError("the job has ended; back and goto go back, job opens another")
        for _ in range(_number(words, 1)):
            if self.debugger.following is not None:
                step()

    def _block(self, words: list[str]) -> str:
        self._repeat(self.debugger.step_block, words)
        self.view = replace(self.view, name="OFM", is_next=bool(self.debugger.block))
        return self._where()

    def _command(self, words: list[str]) -> str:
        done: list[RawCommand] = []
        self._repeat(lambda: done.append(self.debugger.step_command()), words)
        return f"{command_text(done[-1].command, done[-1].values)}: {done[-1].place}" if done else self._where()

    def _next(self, _: list[str]) -> str:
        self._repeat(self.debugger.step_operator, [])
        return self._where()

    def _back(self, words: list[str]) -> str:
        count = _number(words, 1)
        if count:
            self.debugger.back()
        return self._goto(max(0, self.debugger.position - max(count - 1, 0)))

    def _goto(self, position: int) -> str:
        self.debugger.goto(position)
        return self._where()

    def _continue(self, _: list[str]) -> str:
        stop = self.debugger.go_on()
        more = self.debugger.job_count - self.debugger.job - 1
        end = f"the end of job {self.debugger.job}" + (f", job {self.debugger.job + 1} is next" if more else "")
        return f"{self._where()}: {end if stop is None else stop}"

    def _job(self, words: list[str]) -> str:
        self.debugger.open(_number(words, 0))
        return f"job {self.debugger.job}"

    def _break(self, words: list[str]) -> str:
        if len(words) != 2 or words[0] not in {watch.value for watch in Watch}:
            raise UsageError("break: must be operator N, address R:A or value R:A=V")
        watch = Watch(words[0])
        if watch is Watch.OPERATOR:
            point = Breakpoint(watch, self._operator(words[1]))
        else:
            place, _, value = words[1].partition("=")
            point = Breakpoint(watch, *self._byte(place), _byte_value(value) if watch is Watch.VALUE else 0)
        self.debugger.breakpoints.append(point)
        return f"stops at {', '.join(map(str, self.debugger.breakpoints))}"

    def _operator(self, text: str) -> int:
        """The number of an operator that runs in some job."""
        number, known = _integer(text), self.debugger.operators
        if number not in known:
            raise UsageError(f"break operator: must be one that runs on the NPU ({', '.join(map(str, known))}), got {number}")
        return number

    def _byte(self, text: str) -> tuple[int, int]:
        """Region and address of a byte of memory."""
        region, address = _place(text)
        data = self.debugger.memory.regions.get(region)
        if data is None or not 0 <= address < data.size:
            sizes = ", ".join(f"{number} ({one.size} bytes)" for number, one in self.debugger.memory.regions.items())
            raise UsageError(f"bytes lie in regions {sizes}, got {region}:{address:#x}")
        return region, address

    def _delete(self, _: list[str]) -> str:
        self.debugger.breakpoints.clear()
        return "no breakpoints"

    def _set(self, words: list[str]) -> str:
        place, _, content = "".join(words).partition("=")
        region, address = _place(place)
        try:
            self.debugger.change(region, address, bytes.fromhex(content))
        except ValueError as error:
            raise UsageError(f"set: must be R:A=BYTES in hexadecimal, got '{' '.join(words)}'") from error
        return f"{region}:{address:#x} is {content}"

    def _memory(self, words: list[str]) -> str:
        region, address = self._byte(words[0] if words else "")
        shown = self.debugger.memory.regions[region][address:][: min(_number(words[1:], 64), 1024)]
        rows = range(0, shown.size, 16)
        return "\n".join(f"{address + row:#08x}  {shown[row : row + 16].tobytes().hex(' ')}" for row in rows)

    def _look(self, view: MapView) -> str:
        self.view = view
        return f"{view.name} of the {'next' if view.is_next else 'last'} operation that has one"


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError as error:
        raise UsageError(f"must be a number, got '{text}'") from error


def _byte_value(text: str) -> int:
    """What a byte holds that is given as a signed or unsigned number."""
    value = _integer(text)
    if not -128 <= value <= 255:
        raise UsageError(f"break value: must be a byte, from -128 to 255, got {value}")
    return value % 256


def _number(words: list[str], default: int) -> int:
    """The first word as a number that is not negative."""
    value = _integer(words[0]) if words else default
    if value < 0:
        raise UsageError(f"must be a number from 0 up, got {value}")
    return value


def _place(text: str) -> tuple[int, int]:
    region, colon, address = text.partition(":")
    if not colon:
        raise UsageError(f"a byte must be named REGION:ADDRESS, got '{text}'")
    return _integer(region), _integer(address)
