"""Stepping forwards and back, breakpoints, changed bytes, and the screen, driven through a pseudo terminal too."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import npu
from npu import extras
from npu.cli.main import main
from npu.debugger.blocks import block_box, block_count
from npu.debugger.commands import HELP, DebuggerCommands
from npu.debugger.debugger import Breakpoint, Debugger, Watch
from npu.debugger.pictures import numbers, picture
from npu.debugger.screen import DebuggerApp
from npu.errors import UsageError, UserError
from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.isa.command import CommandKind
from npu.isa.decode import read_commands
from npu.isa.operations import KernelOperation
from npu.toolchain.session import Session
from sim.verify.footprint import MapBox

from tests.support.builder import ModelBuilder

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples/digits.tflite"
DIGIT = np.load(ROOT / "examples/digit_7.npy")


@pytest.fixture
def debugger(compiled_digits: bytes) -> Debugger:
    return Debugger(compiled_digits, Session(), [DIGIT])


def output(debugger: Debugger) -> np.ndarray:
    """The last feature map that the stream makes."""
    last = next(item.operation for item in reversed(debugger.operations) if isinstance(item.operation, KernelOperation))
    return debugger.map_values(last.ofm).ravel()


def memory(debugger: Debugger) -> bytes:
    return b"".join(data.tobytes() for _, data in sorted(debugger.memory.regions.items())) + debugger.memory.shram.tobytes()


def test_to_the_end_gives_what_a_run_gives(debugger: Debugger) -> None:
    assert debugger.go_on() is None
    np.testing.assert_array_equal(output(debugger), npu.run(DIGITS, inputs=[DIGIT]).outputs[0].ravel())


@pytest.mark.parametrize("interval", [1, 7, 1000])
def test_the_way_back_passes_the_same_memory(debugger: Debugger, interval: int) -> None:
    debugger._interval = interval
    seen = [memory(debugger)]
    while debugger.following is not None:
        debugger.step()
        seen.append(memory(debugger))
    for position in (len(seen) - 2, 20, 21, 3, 0, 30):
        debugger.goto(position)
        assert memory(debugger) == seen[position]
    debugger.back()
    assert (debugger.position, memory(debugger) == seen[29]) == (29, True)


def test_breakpoints_stop_at_operators_addresses_and_values(debugger: Debugger) -> None:
    debugger.breakpoints.append(Breakpoint(Watch.OPERATOR, 3))
    assert debugger.go_on() is debugger.breakpoints[0]
    assert (debugger.owner(debugger.position), debugger.owner(debugger.position - 1)) == (3, 2)
    ofm = debugger.maps(debugger.position)["OFM"]
    debugger.breakpoints[:] = [Breakpoint(Watch.ADDRESS, ofm.region, ofm.addresses[0])]
    before = debugger.position
    assert debugger.go_on() is debugger.breakpoints[0]
    assert debugger.position == before + 1
    place = int(np.flatnonzero(debugger.memory.regions[ofm.region])[0])
    value = int(debugger.memory.regions[ofm.region][place])
    debugger.goto(0)
    debugger.breakpoints[:] = [Breakpoint(Watch.VALUE, ofm.region, place, value)]
    assert int(debugger.memory.regions[ofm.region][place]) != value
    assert debugger.go_on() is debugger.breakpoints[0]
    assert int(debugger.memory.regions[ofm.region][place]) == value


def test_a_changed_byte_shows_behind_it_and_is_forgotten_before_it(debugger: Debugger) -> None:
    debugger.breakpoints.append(Breakpoint(Watch.OPERATOR, 8))
    debugger.go_on()
    here, fm = debugger.position, debugger.maps(debugger.position)["IFM"]
    expected = memory(debugger)
    debugger.change(fm.region, fm.addresses[0], bytes(64 * [0x7F]))
    debugger.go_on()
    changed = output(debugger).tolist()
    debugger.goto(here)
    assert debugger.memory.regions[fm.region][fm.addresses[0]] == 0x7F  # it belongs to this place
    debugger.goto(here - 1)
    debugger.goto(here)
    assert memory(debugger) == expected
    debugger.go_on()
    assert output(debugger).tolist() != changed


def test_the_blocks_of_an_operation_fill_its_map_one_by_one(debugger: Debugger) -> None:
    """Every element is written by one block, depth first, and all blocks together are the operation."""
    number = next(n for n, item in enumerate(debugger.operations) if block_count(item.operation) > 1)
    debugger.goto(number)
    operation = debugger.operations[number].operation
    assert isinstance(operation, KernelOperation)
    ofm, before = operation.ofm, memory(debugger)
    old, boxes = debugger.map_values(ofm), [block_box(operation, block) for block in range(debugger.block_count)]
    debugger.step()
    after, new = memory(debugger), debugger.map_values(ofm)
    debugger.back()
    for done, box in enumerate(boxes):
        assert debugger.block == done
        seen = debugger.map_values(ofm)
        for other in boxes[:done]:
            np.testing.assert_array_equal(part(seen, other), part(new, other))
        np.testing.assert_array_equal(part(seen, box), part(old, box))
        debugger.step_block()
    assert (debugger.position, debugger.block, memory(debugger) == after) == (number + 1, 0, True)
    assert np.prod(new.shape) == sum(part(new, box).size for box in boxes)
    debugger.goto(number)
    debugger.step_block()
    debugger.back()
    assert (debugger.position, debugger.block, memory(debugger) == before) == (number, 0, True)


def part(values: np.ndarray, box: MapBox) -> np.ndarray:
    (top, bottom), (left, right), (first, last) = box
    return values[top:bottom, left:right, first:last]


def test_every_command_is_stepped_once_and_gives_what_operations_give(debugger: Debugger) -> None:
    words, product = debugger._start.stream.words, debugger.variant.accelerator.product
    expected, held = list(read_commands(words, product)), {}
    for command in expected:
        if debugger.following is None:
            break
        if command.command.kind is not CommandKind.OPERATION:
            held[command.command.name] = dict(command.values)
        assert debugger.step_command() == command
        if debugger.command is not None:
            assert debugger.registers() == held
    assert debugger.position == len(debugger.operations)
    np.testing.assert_array_equal(output(debugger), npu.run(DIGITS, inputs=[DIGIT]).outputs[0].ravel())
    with pytest.raises(UserError, match="end of the stream"):
        debugger.step_command()


def test_commands_say_what_they_did(debugger: Debugger) -> None:
    commands = DebuggerCommands(debugger)
    assert commands.run("step 3") == "operation 3 of 45"
    assert commands.run("back") == "operation 2 of 45"
    assert commands.run("break operator 3") == "stops at operator 3"
    assert commands.run("continue").endswith(": operator 3")
    assert commands.run("set 1:0x10=0102ff") == "1:0x10 is 0102ff"
    assert commands.run("memory 1:0x10 3") == "0x000010  01 02 ff"
    assert commands.run("map") == "IFM of the last operation that has one"
    assert commands.run("break value 1:0x10=-1").endswith("1:0x10 becomes 255")
    assert commands.run("command").startswith("NPU_")
    assert commands.run("block").startswith("operation ")
    assert commands.run("goto 2") == "operation 2 of 45"
    commands.run("goto 44")
    assert commands.run("back 50") == "operation 0 of 45"
    assert commands.run("step 50") == "operation 45 of 45"


def test_the_help_names_every_command_and_fits_a_small_terminal(debugger: Debugger) -> None:
    assert set(DebuggerCommands(debugger)._verbs) <= set(re.findall(r"[a-z]+", HELP))
    assert max(map(len, HELP.splitlines())) <= 78


@pytest.mark.parametrize("size", [(80, 24), (140, 48)])
def test_pictures_fit_the_screen(size: tuple[int, int]) -> None:
    """A map of 28 columns takes 56 characters, more than the right half of a small terminal."""
    b = ModelBuilder()
    x, window = b.input((1, 28, 28, 4), DType.INT8, scale=0.1), at.Pool2DOptions(Padding.SAME, 1, 1, 3, 3)
    b.output(b.op("MAX_POOL_2D", [x], (1, 28, 28, 4), DType.INT8, scale=0.1, attributes=window))
    debugger = Debugger(b.build(), Session())

    async def drive() -> tuple[list[str], int]:
        app = DebuggerApp(debugger)
        async with app.run_test(size=size) as pilot:
            await pilot.press("c", "m")
            await pilot.pause()
            return str(app.query_one("#map").render()).splitlines()[1:], app.query_one("#map").content_size.width

    lines, width = asyncio.run(drive())
    assert len(lines) > 10
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    "line",
    [
        "jump",
        "goto 99",
        "job 7",
        "break operator x",
        "set 1:0=zz",
        "set 0:0=00",
        "memory 9:0",
        "channel -1",
        "memory 5",
        "break operator 99",
        "break address 9:0",
        "break address 1:0x99999",
        "break value 1:0=256",
        "step",
    ],
)
def test_commands_that_cannot_be_done_say_why(debugger: Debugger, line: str) -> None:
    debugger.go_on()
    with pytest.raises(UsageError, match=r"got|ended"):
        DebuggerCommands(debugger).run(line)


def test_stepping_at_the_end_is_an_error(debugger: Debugger) -> None:
    debugger.go_on()
    with pytest.raises(UserError, match="got its end"):
        debugger.step()


def test_pictures() -> None:
    plane = np.arange(100 * 200).reshape(100, 200)
    assert {len(line) for line in picture(plane).splitlines()} == {80}
    assert picture(np.zeros((2, 2), np.int8)) == "    \n    "
    assert numbers(np.array([[1, -20]])) == "  1 -20"
    assert numbers(plane).endswith("...")


def test_the_screen_shows_where_it_stands(debugger: Debugger) -> None:
    async def drive() -> tuple[str, str]:
        app = DebuggerApp(debugger)
        async with app.run_test(size=(140, 48)) as pilot:
            await pilot.press("s", "n", "m", "v", "slash")
            await pilot.press(*["space" if key == " " else key for key in "break operator 6"], "enter")
            await pilot.press("c")
            await pilot.pause()
            first = str(app.query_one("#next").render())
            await pilot.press("slash", *"jump", "enter")
            await pilot.pause()
            return first, str(app.query_one("#message").render())

    shown, refused = asyncio.run(drive())
    assert "operation 12 of 45" in shown
    assert "Convolution" in shown
    assert refused.startswith("commands are step, block")


DIALOGUE = (
    (b"s steps", b"s"),
    (b"operation 1 of 45", b"/break operator 3\r"),
    (b"stops at operator 3", b"c"),
    (b"operation 7 of 45: operator 3", b"mm"),
    (b"IFM of operation 7, channel 0 of 16", b"/set 1:0=7f\r"),
    (b"values -128 to 127", b"s"),
    (b"operation 8 of 45", b"bb"),
    (b"operation 6 of 45", b"q"),
)
"""What the screen must show, one after the other, and what is typed then."""


def test_the_command_runs_in_a_terminal() -> None:
    """Break on an operator, look at a map, change a byte, step back and leave, through a pseudo terminal."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "npu", "debug", str(DIGITS), "--input", str(ROOT / "examples/digit_7.npy")],
        stdin=child, stdout=child, stderr=child, env=environment,
    )  # fmt: skip
    os.close(child)
    shown, sent, end = b"", 0, time.monotonic() + 25
    while process.poll() is None and time.monotonic() < end:
        if select.select([parent], [], [], 0.2)[0]:
            try:
                shown += os.read(parent, 1 << 16)
            except OSError:  # the other side is closed
                break
        if sent < len(DIALOGUE) and DIALOGUE[sent][0] in shown:
            os.write(parent, DIALOGUE[sent][1])
            shown, sent = b"", sent + 1
    process.kill()
    os.close(parent)
    assert (sent, process.wait()) == (len(DIALOGUE), 0), shown[-2000:]


def test_without_textual_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    assert main(["debug", str(DIGITS)]) == 1
    assert "pip install 'npulab[debug]'" in capsys.readouterr().err


def test_without_a_terminal_the_command_ends_at_once() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "npu", "debug", str(DIGITS)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("npu: error: debug: must run in a terminal, got a pipe or a file")


def test_a_model_without_jobs_cannot_be_debugged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must have an NPU job to debug, got none"):
        Debugger(ROOT / "examples/digits.tflite", Session(profile="xnnpack"))
