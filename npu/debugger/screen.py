"""The debugger's screen, in a terminal: operations on the left, the next one, its registers and a feature map on the right.

Needs Textual (extra `debug`). Keys do what is done often; the line at the bottom takes commands (`help` lists them).
"""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, Input, Static

from npu.debugger.commands import HELP, KEYS, DebuggerCommands
from npu.debugger.debugger import Debugger
from npu.debugger.pictures import map_text
from npu.errors import UserError
from npu.isa.disassemble import command_text
from npu.isa.families import family_of
from npu.isa.operations import KernelOperation
from npu.toolchain.expand import attributes_of
from npu.toolchain.tensors import kind_of


class DebuggerApp(App[None]):
    """One debugger on a screen."""

    CSS = """
    #operations { width: 2fr; max-width: 56; }
    #details { width: 3fr; }
    #command { border: none; height: 1; }
    #message { height: auto; min-height: 1; color: $accent; padding: 0 1; }
    #next, #registers, #map { padding: 0 1; height: auto; }
    #map { border-top: solid $primary; }
    #registers { border-top: solid $primary; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        *(Binding(key, f"do('{command}')", command) for key, command in KEYS.items()),
        Binding("slash", "command", "type", key_display="/", priority=True),
        Binding("question_mark", "help", "help", show=False),
        Binding("q", "quit", "quit"),
    ]
    TITLE = "npu debug"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, debugger: Debugger) -> None:
        super().__init__()
        self.debugger, self.commands = debugger, DebuggerCommands(debugger)
        self._marks: frozenset[int] = frozenset()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield DataTable(id="operations", cursor_type="row", zebra_stripes=True)
            with VerticalScroll(id="details"), Vertical():
                yield Static(id="next", markup=False)
                yield Static(id="map", markup=False)
                yield Static(id="registers", markup=False)
        yield Static(id="message", markup=False)
        yield Input(placeholder="command, e.g. break operator 3", id="command")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._fill()
        self._show("s steps, / takes commands, ? lists them")
        self.set_focus(self.query_one("#operations"))

    def action_command(self) -> None:
        """Go to the command line."""
        self.set_focus(self.query_one("#command", Input))

    def action_help(self) -> None:
        """Show the commands."""
        self._show(HELP)

    def on_resize(self) -> None:
        """Pictures fit into the new width."""
        self.call_after_refresh(self._show_map)

    def action_do(self, command: str) -> None:
        """Run a command and show what came of it."""
        job = self.debugger.job
        try:
            said = self.commands.run(command)
        except UserError as error:
            said = str(error)
        if job != self.debugger.job:
            self._fill()
        self._show(said)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.value = ""
        if event.value.strip() in ("quit", "q"):
            self.exit()
        elif event.value.strip() == "help":
            self._show(HELP)
        elif event.value.strip():
            self.action_do(event.value)
        self.set_focus(self.query_one("#operations"))

    def _fill(self) -> None:
        table: DataTable[Any] = self.query_one("#operations", DataTable)
        table.clear(columns=True)
        self._marks = frozenset()
        table.add_columns("", "#", "operation", "operator")
        names = {row.index: f"{row.index} {row.type}" for row in self.debugger.executable.operators.operators}
        for number, decoded in enumerate(self.debugger.operations):
            operation = decoded.operation
            kind = kind_of(operation) if isinstance(operation, KernelOperation) else type(operation).__name__
            table.add_row("", str(number), kind, names.get(self.debugger.owner(number), ""), key=str(number))

    def _show(self, said: str) -> None:
        debugger = self.debugger
        table: DataTable[Any] = self.query_one("#operations", DataTable)
        stops = {point.number for point in debugger.breakpoints if point.watch.value == "operator"}
        marks = {number: "*" for number in range(len(debugger.operations)) if stops and debugger.owner(number) in stops}
        marks[debugger.position] = ">"
        for number in {*marks, *self._marks} - {len(debugger.operations)}:
            table.update_cell_at(Coordinate(number, 0), marks.get(number, ""))
        self._marks = frozenset(marks)
        table.move_cursor(row=min(debugger.position, len(debugger.operations) - 1))
        self.query_one("#next", Static).update(_next_text(debugger))
        self._show_map()
        self.query_one("#registers", Static).update(_registers_text(debugger))
        self.query_one("#message", Static).update(said)

    def _show_map(self) -> None:
        columns = self.query_one("#details").container_size.width - 4
        self.query_one("#map", Static).update(map_text(self.debugger, self.commands.view, columns))


def _next_text(debugger: Debugger) -> str:
    following = debugger.following
    where = f"job {debugger.job} of {debugger.job_count}, operation {debugger.position} of {len(debugger.operations)}"
    where += f", block {debugger.block} of {debugger.block_count}" if debugger.block else ""
    if following is None:
        return f"{where}: the end"
    names = {row.index: f"for {row.index} {row.type}, " for row in debugger.executable.operators.operators}
    place = following.place if debugger.command is None else f"command {debugger.command}, up to {following.place}"
    lines = [where, f"{type(following.operation).__name__}, {names.get(debugger.owner(debugger.position), '')}{place}"]
    return "\n".join([*lines, *(f"  {name}: {value}" for name, value in attributes_of(following.operation))])


def _registers_text(debugger: Debugger) -> str:
    commands = family_of(debugger.variant.accelerator.product).by_name
    texts = [command_text(commands[name], fields) for name, fields in debugger.registers().items()]
    return "\n".join(["registers", *(text.removeprefix("NPU_SET_") for text in texts)])
