"""The forms of a check's report by name; the only list of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from npu.errors import UsageError
from npu.reports.check_report import CheckReport

FORMS = {
    "md": "npu.rendering.markdown:render_markdown",
    "html": "npu.rendering.html:render_html",
    "sarif": "npu.rendering.sarif:render_sarif",
    "junit": "npu.rendering.junit:render_junit",
}
"""Where a form is written, beside JSON, which a report does itself, and text (`npu.rendering.text`), whose width depends on a
terminal."""


_SUFFIXES = {".json": "json", ".md": "md", ".html": "html", ".sarif": "sarif", ".xml": "junit"}


def form_of_file(path: Path) -> str:
    """The form that the name of a file asks for. UsageError for one that asks for none."""
    form = _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"--save: must end in {', '.join(_SUFFIXES)}, got {str(path)!r}")
    return form


def render(report: CheckReport, form: str) -> str:
    """A report in a form that needs no terminal."""
    if form == "json":
        return report.to_json()
    module, _, function = FORMS[form].partition(":")
    return str(getattr(import_module(module), function)(report))
