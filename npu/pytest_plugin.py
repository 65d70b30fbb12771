"""The plug-in for pytest: `npulab_model` checks a model in a test, the marker `npulab_budget` says what it may need at most.

pytest loads it in every project in which npulab is installed, so that it imports nothing of npulab before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from npu.reports.check_report import CheckReport

MARKER = "npulab_budget"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(fail_on=(), **limits): what the models of a test must meet, e.g. max_cycles=30000, fail_on='cpu'",
    )


@pytest.fixture
def npulab_model(request: pytest.FixtureRequest) -> Callable[..., CheckReport]:
    """A function of a model's path and hardware (target, config, memory_mode, system): its report. It fails over the budget."""
    marker = request.node.get_closest_marker(MARKER)
    limits: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}

    def checked(model: str | Path, target: str | None = None, config: Any = None, **options: Any) -> CheckReport:
        from npu.hardware.choice import Hardware
        from npu.rendering.facts import failures
        from npu.toolchain.session import DEFAULT_PROFILE, Session
        from npu.toolchain.verdict import checked_report

        profile = options.pop("profile", DEFAULT_PROFILE)
        report = checked_report(model, Session(Hardware(target, config, **options), profile), dict(limits))
        told = failures(report)
        if told:
            pytest.fail(f"{report.model} on {report.target}:\n" + "\n".join(told), pytrace=False)
        return report

    return checked
