"""The commands of the debugger's command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npu.debugger.debugger import Breakpoint, Debugger, Watch
from npu.debugger.pictures import MapView
from npu.errors import UsageError

HELP = """step [N]   block [N]   command [N]   next   back [N]   continue   goto N   job N          where the debugger stands
break operator N   break address R:A   break value R:A=V   delete   stop at an operator, when a byte is written or becomes V
set R:A=BYTES      memory R:A [N]                                    change bytes (hexadecimal), look at bytes
map   view   channel N                                               the feature map that is shown
quit"""


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
        if verb not in self._verbs:
            raise UsageError(f"commands are {', '.join(self._verbs)}, got '{verb}'")
        return self._verbs[verb](words)

    def _where(self) -> str:
        debugger = self.debugger
        where = f"operation {debugger.position} of {len(debugger.operations)}"
        return f"{where}, block {debugger.block} of {debugger.block_count}" if debugger.block else where

    def _step(self, words: list[str]) -> str:
        for _ in range(_number(words, 1)):
            self.debugger.step()
        return self._where()

    def _block(self, words: list[str]) -> str:
        for _ in range(_number(words, 1)):
            self.debugger.step_block()
        self.view = replace(self.view, name="OFM", is_next=bool(self.debugger.block))
        return self._where()

    def _command(self, words: list[str]) -> str:
        done = [self.debugger.step_command() for _ in range(_number(words, 1))]
        fields = [f"{name} {value}" for name, value in done[-1].values.items()] if done else []
        return f"{' '.join([done[-1].command.name, *fields])}: {done[-1].place}" if done else self._where()

    def _next(self, _: list[str]) -> str:
        self.debugger.step_operator()
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
        return f"{self._where()}: {'the end' if stop is None else stop}"

    def _job(self, words: list[str]) -> str:
        self.debugger.open(_number(words, 0))
        return f"job {self.debugger.job}"

    def _break(self, words: list[str]) -> str:
        if len(words) != 2 or words[0] not in {watch.value for watch in Watch}:
            raise UsageError("break: must be operator N, address R:A or value R:A=V")
        watch = Watch(words[0])
        if watch is Watch.OPERATOR:
            point = Breakpoint(watch, _integer(words[1]))
        else:
            place, _, value = words[1].partition("=")
            point = Breakpoint(watch, *_place(place), _integer(value) if watch is Watch.VALUE else 0)
        self.debugger.breakpoints.append(point)
        return f"stops at {', '.join(map(str, self.debugger.breakpoints))}"

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
        region, address = _place(words[0] if words else "")
        data, count = self.debugger.memory.regions.get(region), _number(words[1:], 64)
        if data is None or not 0 <= address < data.size:
            sizes = {number: one.size for number, one in self.debugger.memory.regions.items()}
            raise UsageError(f"memory: must lie in regions of {sizes} bytes, got {region}:{address:#x}")
        shown = data[address : address + min(count, 1024)]
        rows = range(0, shown.size, 16)
        return "\n".join(f"{address + row:#08x}  {shown[row : row + 16].tobytes().hex(' ')}" for row in rows)

    def _look(self, view: MapView) -> str:
        self.view = view
        return f"{view.name} of the {'next' if view.is_next else 'last'} operation"


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError as error:
        raise UsageError(f"must be a number, got '{text}'") from error


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
