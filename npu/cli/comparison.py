"""`npu compare`: options in, a comparison out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from npu.cli.commands import emit, origin_of
from npu.cli.sessions import other_session
from npu.errors import UsageError
from npu.rendering import progress_bars
from npu.rendering.terminal import width_for

if TYPE_CHECKING:
    from npu.toolchain.session import Session


def compare(options: argparse.Namespace) -> int:
    """Compare two models, or one with itself under other options."""
    from npu.rendering.comparison import comparison_markdown, comparison_text
    from npu.toolchain.compare import compare as verb

    other = other_session(options)
    if options.other is None and _choices(other) == _choices(options.session):
        raise UsageError("B, or an option that begins with --b-, is needed: a model does not differ from itself")
    models = options.model, options.other or options.model
    with progress_bars.progress() as progress:
        comparison = verb(*models, (options.session, other), origin=origin_of(options), progress=progress)
    if options.format == "json":
        emit(comparison.to_json(), options.output)
    elif options.format == "html":
        from npu.rendering.pages.comparison import comparison_page

        emit(comparison_page(comparison), options.output)
    elif options.format == "md":
        emit(comparison_markdown(comparison), options.output)
    else:
        emit(comparison_text(comparison, width_for(options.output)), options.output)
    return 0


def _choices(session: Session) -> tuple[object, ...]:
    """What makes two compilations of one model differ."""
    return session.hardware, session.goal, session.lstm_gates
