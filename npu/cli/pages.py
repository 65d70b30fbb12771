"""`npu report`, and what `npu run` and `npu explain` write as pages."""

from __future__ import annotations

import argparse

from npu.cli.commands import emit, origin_of
from npu.extras import load
from npu.rendering import progress_bars
from npu.rendering.terminal import say


def report(options: argparse.Namespace) -> int:
    """Write one page with everything that is known of a model."""
    load("altair", "report")  # says at once what is missing
    from npu.rendering.pages.report import report_page
    from npu.toolchain.report import report as verb

    with progress_bars.progress() as progress:
        reported = verb(options.model, options.session, progress=progress, origin=origin_of(options))
    page = report_page(reported)
    emit(page, options.output)
    say(f"{options.output}: {len(page.encode()):,} bytes\n")
    return 0
