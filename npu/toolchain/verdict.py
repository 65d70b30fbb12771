"""A model checked against limits that a program gives: what the command line reads from files, for tests in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu.reports.check_report import CheckReport
from npu.toolchain.budget import DIFFERENCE, checked_limits
from npu.toolchain.check import check_report
from npu.toolchain.difference import largest_difference
from npu.toolchain.gate import Demands, check_conditions, judge
from npu.toolchain.session import Session
from npu.toolchain.sources import Source


def checked_report(model: Source, session: Session, limits: dict[str, Any]) -> CheckReport:
    """The report with a gate for each limit, and for each condition of `fail_on`. ConfigError or UsageError for wrong ones."""
    asked: str | Sequence[str] = limits.pop("fail_on", ())
    conditions = check_conditions([asked] if isinstance(asked, str) else asked, session.profile)
    budget = checked_limits(limits, "budget")
    measured = {DIFFERENCE: largest_difference(model, session)} if DIFFERENCE in budget else {}
    demands = Demands(conditions, budget, measured=measured)
    return judge(check_report(model, session, is_compiled=demands.needs_compilation), demands)
