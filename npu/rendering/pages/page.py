"""What every page is made of: its frame, tables that sort and filter, figures, and key numbers in tiles."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from npu.plain import printable
from npu.records import dataclass

_PAGE = Path(__file__).with_name("page.html")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, whether it holds numbers, and whether it takes a whole line on a narrow screen."""

    name: str
    is_number: bool = False
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and the number that it is sorted by where that is another text."""

    text: str
    value: float | None = None


TableRow: TypeAlias = Sequence[Cell | str]


def number(value: float | None, text: str | None = None) -> Cell:
    """A cell with a count, thousands apart; empty for None."""
    if value is None:
        return Cell("")
    return Cell(f"{value:,}" if text is None else text, float(value))


def table(columns: Sequence[Column], rows: Iterable[TableRow], sums: TableRow | None = None) -> str:
    """A table that the page's script lets people sort and filter; a list of cards on a narrow screen."""
    head = "".join(f'<th class="{"n" if column.is_number else ""}">{escape(column.name)}</th>' for column in columns)
    body = "".join(_row(columns, row) for row in rows)
    foot = f"<tfoot>{_row(columns, sums)}</tfoot>" if sums else ""
    return (
        f'<div class="scroll"><table class="data cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>'
    )


def _row(columns: Sequence[Column], row: TableRow) -> str:
    cells = []
    for column, value in zip(columns, row, strict=True):
        cell = value if isinstance(value, Cell) else Cell(value)
        kinds = " ".join(filter(None, ("n" * column.is_number, "wide name" * column.is_wide)))
        value = "" if cell.value is None else f' data-v="{cell.value:g}"' if cell.value % 1 else f' data-v="{cell.value:.0f}"'
        cells.append(f'<td class="{kinds}" data-label="{escape(column.name)}"{value}>{_inner(cell.text, column)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _inner(text: str, column: Column) -> str:
    """The text; in a column of long ones cut after some lines, all of it under the pointer."""
    return f'<span title="{escape(text)}">{escape(text)}</span>' if column.is_wide and text else escape(text)


def tiles(facts: Iterable[tuple[str, str]]) -> str:
    """Key numbers: what, and how much."""
    held = "".join(f"<div class=tile>{escape(what)}<b>{escape(text)}</b></div>" for what, text in facts)
    return f'<div class="tiles">{held}</div>'


def paragraphs(texts: Iterable[str], kind: str = "") -> str:
    """Sentences, each a paragraph."""
    return "".join(f'<p class="{kind}">{escape(text)}</p>' for text in texts)


def section(title: str, content: str) -> str:
    """A part of the page with a heading that the list at its top leads to; nothing for empty content."""
    anchor = title.lower().replace(" ", "-")
    return f'<section id="{anchor}"><h2>{escape(title)}</h2>{content}</section>' if content else ""


def folded(title: str, content: str) -> str:
    """Content that is shown on request."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def document(heading: str, subtitle: str, parts: Sequence[str], charts: Sequence[Any] = (), links: Sequence[str] = ()) -> str:
    """The page. `charts` are drawn into the figures of their numbers (`npu.plots.write.figure`); `links` are section titles."""
    navigation = "".join(f'<a href="#{title.lower().replace(" ", "-")}">{escape(title)}</a>' for title in links)
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(heading),
        heading=escape(heading),
        subtitle=escape(subtitle),
        body=(f"<nav>{navigation}</nav>" if navigation else "") + "\n".join(parts),
        charts=_scripts(charts) if charts else "",
    )


def _scripts(charts: Sequence[Any]) -> str:
    from npu.plots.write import scripts, wide

    specifications = json.dumps([wide(chart) for chart in charts]).replace("<", "\\u003c")
    return f"""<script>{scripts()}</script>
<script>
const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : undefined;
{specifications}.forEach((chart, number) => vegaEmbed("#chart-" + number, {{...chart, background: "transparent"}},
  {{actions: {{export: true, source: false, compiled: false, editor: false}}, renderer: "svg", theme,
   config: {{axis: {{gridColor: "#88888840"}}}}}}));
</script>"""


def escape(text: str) -> str:
    """Text of a model, so that it cannot become markup."""
    return html.escape(printable(text))
