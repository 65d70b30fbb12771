"""The forms of a check's report by name; the only list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npu.rendering.html import render_html
from npu.rendering.junit import render_junit
from npu.rendering.markdown import render_markdown
from npu.rendering.sarif import render_sarif
from npu.reports.check_report import CheckReport

FORMS: Mapping[str, Callable[[CheckReport], str]] = {
    "json": CheckReport.to_json,
    "md": render_markdown,
    "html": render_html,
    "sarif": render_sarif,
    "junit": render_junit,
}
"""Forms that need no terminal; "text" is in `npu.rendering.text`, because its width depends on one."""
