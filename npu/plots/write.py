"""Charts in files: one picture as PNG or SVG, or any number of them on one page that needs nothing else.

The page holds Vega's own scripts (about 0.9 MB) and asks for nothing from anywhere: it can be opened from a file, mailed or
archived.
"""

from __future__ import annotations

import copy
import html
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Any

from npu.errors import UserError
from npu.extras import load
from npu.files import write_atomically
from npu.native.store import cache_folder
from npu.plots.charts import Chart

FORMS = (".html", ".svg", ".png")
_PAGE = Path(__file__).with_name("page.html")
_PNG_SCALE = 2.0
"""Pixels per unit of length, for displays of today."""


def write_charts(path: Path, title: str, charts: Sequence[Chart]) -> None:
    """Write the charts in the form that the name of the file ends with; PNG and SVG hold them one below the other."""
    form = path.suffix.lower()
    if form not in FORMS:
        raise UserError(f"{path}: must end in {', '.join(FORMS)}, for a page or a picture")
    content = page(title, charts).encode() if form == ".html" else image(charts, form[1:])
    write_atomically(path, content)


def image(charts: Sequence[Chart], form: str) -> bytes:
    """The charts one below the other, as PNG or SVG."""
    converter = load("vl_convert", "report")
    specification = json.dumps(_stacked(charts))
    if form == "svg":
        return str(converter.vegalite_to_svg(specification)).encode()
    return bytes(converter.vegalite_to_png(specification, scale=_PNG_SCALE))


def page(title: str, charts: Sequence[Chart]) -> str:
    """One HTML page with every chart as wide as the window."""
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        scripts=scripts(),
        figures="\n".join(figure(chart, number) for number, chart in enumerate(charts)),
        charts=_in_script([wide(chart) for chart in charts]),
    )


def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, for a page that holds charts."""
    converter = load("vl_convert", "report")
    kept = cache_folder() / f"vega-of-vl-convert-{converter.__version__}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    text = str(converter.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError, UserError):  # making them anew takes a second and hurts nobody
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, text.encode())
    return text


def wide(chart: Chart) -> dict[str, Any]:
    """The specification of a chart as wide as what is around it on a page, its legend below; the page has its title."""
    content: dict[str, Any] = copy.deepcopy(specification_of(chart))
    content.pop("title", None)
    content["width"] = "container"
    content["autosize"] = {"type": "fit-x", "contains": "padding"}
    content.setdefault("config", {})["legend"] = {"orient": "bottom", "columns": 1, "labelLimit": 320}
    return content


def specification_of(chart: Chart) -> dict[str, Any]:
    """A chart as Vega-Lite reads it. Altair's check of every field against the schema takes seconds; the tests make it."""
    content: dict[str, Any] = chart.to_dict(validate=False)
    return content


def figure(chart: Chart, number: int) -> str:
    """Where chart `number` of a page goes, with its title."""
    title = specification_of(chart).get("title", "")
    return f'<figure><figcaption>{html.escape(str(title))}</figcaption><div id="chart-{number}"></div></figure>'


def _stacked(charts: Sequence[Chart]) -> dict[str, Any]:
    if len(charts) == 1:
        return dict(charts[0].to_dict())
    alt = load("altair", "report")
    parts = []
    for chart in charts:
        part = chart.copy(deep=True)
        part.config = alt.Undefined
        parts.append(part)
    return dict(alt.vconcat(*parts).resolve_scale(color="independent", size="independent").to_dict())


def _in_script(content: Any) -> str:
    """JSON that cannot end the script around it."""
    return json.dumps(content).replace("<", "\\u003c")
