"""What `npu fit` says: models by boards, as a table in the terminal, as JSON and as one HTML page."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from npu.explore.fit import Fit
from npu.plain import printable
from npu.rendering.styled import StyledText
from npu.rendering.tables import fitted, framed, make_table, wrapped
from npu.version import __version__

SCHEMA = "npulab-fit-1"
ENERGY_NOTE = (
    "uJ: multiplications and traffic of the NPU between the lowest and the highest published figure (configs/energy); SHRAM, "
    "flash, leakage and the CPU come on top"
)
ARENA_NOTE = (
    "arena: bytes taken of those that the board leaves for it, and the smallest limit found that costs no cycles if asked; "
    "times are predictions, and docs/boards.md says what they rest on"
)
ERROR_NOTE = (
    "error %: of the NPU's cycles, on average and at worst, for networks that took no part in the calibration; wider for what "
    "nobody measured, such as a board's memories (docs/timing-accuracy.md)"
)
_HEADS = (
    *("board", "fits", "ms", "error %", "NPU cycles", "CPU cycles", "CPU ops", "arena KiB", "of", "least", "constants KiB"),
    "uJ",
)
_RIGHT = set(_HEADS[2:])
_PAGE = Path(__file__).with_name("fit.html")


def fit_text(fits: Sequence[Fit], width: int) -> str:
    """A table for each model; boards that give the same are one line."""
    return "".join(_model_text(model, [one for one in fits if one.model == model], width) for model in _models(fits))


def _models(fits: Sequence[Fit]) -> list[str]:
    return list(dict.fromkeys(one.model for one in fits))


def _model_text(model: str, fits: Sequence[Fit], width: int) -> str:
    groups, refused = same(fits), [one for one in fits if one.figures["error"] is not None]
    rows = [[StyledText(cell) for cell in _cells(group[0])] for group in groups]
    unasked = () if any(one.least_arena_bytes is not None for one in fits) else ("least",)
    names, rows = without(list(_HEADS), rows, unasked)
    names, rows = fitted(
        names, rows, width, flexible="fits", expendable=("CPU cycles", "NPU cycles", "error %", "constants KiB")
    )
    notes = [
        f"{group[0].board}, and the same: {', '.join(one.board for one in group[1:])}" for group in groups if len(group) > 1
    ]
    notes += [f"{one.board}: {need}" for group in groups for one in group[:1] for need in missing_texts(one)]
    notes += [f"{one.board}: {one.figures['error']}" for one in refused]
    notes += [ERROR_NOTE, ARENA_NOTE, ENERGY_NOTE]
    summary = "\n".join(line for note in notes for line in wrapped(printable(note), width, "", "  "))
    if not rows:
        return f"{printable(model)}\n\n{summary}\n\n"
    return framed(width, model, make_table(names, rows, width, flexible="fits", right=_RIGHT), summary) + "\n"


def without(names: list[str], rows: list[list[StyledText]], dropped: Sequence[str]) -> tuple[list[str], list[list[StyledText]]]:
    """The table without some of its columns."""
    kept = [position for position, name in enumerate(names) if name not in dropped]
    return [names[position] for position in kept], [[row[position] for position in kept] for row in rows]


def same(fits: Sequence[Fit]) -> list[list[Fit]]:
    """The boards with a result, those with the same one together, the fastest first and those that do not fit last."""
    groups: dict[str, list[Fit]] = {}
    for one in fits:
        if one.figures["error"] is None:
            groups.setdefault(repr((one.figures, one.missing, one.arena_limit_bytes)), []).append(one)
    return sorted(groups.values(), key=lambda group: (not group[0].fits, group[0].figures["time_ms"]))


def missing_texts(one: Fit) -> Iterator[str]:
    """What a model needs beyond what there is, in words."""
    for need in one.missing:
        yield (
            f"needs {need.needed_bytes:,} bytes of {need.where}, {need.needed_bytes - need.available_bytes:,} more than the "
            f"{need.available_bytes:,} that there are"
        )


def _cells(one: Fit) -> list[str]:
    figures = one.figures
    return [
        one.board,
        "yes" if one.fits else "no",
        f"{figures['time_ms']:.3f}",
        _band(figures["npu_error_mean_percent"], figures["npu_error_worst_percent"]),
        f"{figures['npu_cycles']:,}",
        f"{figures['cpu_cycles']:,}",
        f"{figures['cpu_operators']} of {figures['operators']}",
        _kib(one.arena_bytes),
        _kib(one.arena_limit_bytes),
        "" if one.least_arena_bytes is None else _kib(one.least_arena_bytes),
        _kib(figures["flash_bytes"]),
        f"{figures['energy_low_mj'] * 1e3:.3g} to {figures['energy_high_mj'] * 1e3:.3g}",
    ]


def _band(mean: float | None, worst: float | None) -> str:
    return "unknown" if mean is None or worst is None else f"{mean:g}, {worst:g}"


def _kib(size: int) -> str:
    return f"{size / 1024:,.1f}" if size % 1024 else f"{size // 1024:,}"


def fit_json(fits: Sequence[Fit]) -> str:
    """A list of records; `figures` has the columns of a sweep."""
    rows = [{**dataclasses.asdict(one), "fits": one.fits} for one in fits]
    return json.dumps({"schema": SCHEMA, "npulab_version": __version__, "fits": rows}, indent=2) + "\n"


def fit_page(fits: Sequence[Fit]) -> str:
    """One HTML page that needs nothing else."""
    tables = "\n".join(_model_html(model, [one for one in fits if one.model == model]) for model in _models(fits))
    notes = "".join(f"<p>{html.escape(note)}.</p>" for note in (ERROR_NOTE, ARENA_NOTE, ENERGY_NOTE))
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(tables=tables, notes=notes)


def _model_html(model: str, fits: Sequence[Fit]) -> str:
    head = "".join(f'<th class="{"n" if name in _RIGHT else "t"}">{name}</th>' for name in _HEADS)
    rows = "".join(_row_html(group) for group in same(fits))
    refused = [
        f"<li>{_escape(one.board)}: {_escape(one.figures['error'])}</li>" for one in fits if one.figures["error"] is not None
    ]
    errors = (
        f"<details><summary>{len(refused)} without a result</summary><ul>{''.join(refused)}</ul></details>" if refused else ""
    )
    return f'<h2>{_escape(model)}</h2><div class="wide"><table><tr>{head}</tr>{rows}</table></div>{errors}'


def _row_html(group: Sequence[Fit]) -> str:
    one, cells = group[0], _cells(group[0])
    names = "".join(f"<div>{_escape(other.board)}</div>" for other in group)
    why = "".join(f'<div class="why">{_escape(text)}</div>' for text in missing_texts(one))
    first = f'<td title="{_escape(one.title)}">{names}{why}</td><td data-label="{_HEADS[1]}">{cells[1]}</td>'
    numbers = zip(_HEADS[2:], cells[2:], strict=True)
    rest = "".join(f'<td class="n" data-label="{name}">{_escape(cell)}</td>' for name, cell in numbers)
    return f'<tr class="{cells[1]}">{first}{rest}</tr>'


def _escape(text: str) -> str:
    return html.escape(printable(text))
