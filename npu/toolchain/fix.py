"""fix: the same model in a form of which the NPU takes more."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from constraints.profiles import profile_named
from constraints.view import OpView
from npu.files import write_atomically
from npu.fixes.edit import Change
from npu.fixes.pipeline import fix_model
from npu.records import dataclass
from npu.reports.check_report import CheckReport
from npu.tflite.writer import write_model
from npu.toolchain.check import measured_report
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, load_plain, model_name


@dataclass(frozen=True, slots=True)
class Fixed:
    """The fixed file's bytes, what was changed, and the timed reports of before and after."""

    content: bytes = field(repr=False)
    changes: tuple[Change, ...]
    before: CheckReport = field(repr=False)
    after: CheckReport = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced only when the new one is complete."""
        write_atomically(Path(path), self.content)


def fix(model: Source, session: Session) -> Fixed:
    """Apply the fixes that keep every result bit for bit. ModelError for a file that is compiled already."""
    variant, profile = session.variant, session.profile
    source, name = load_plain(model), model_name(model)
    rules = profile_named(profile)
    fixed, changes = fix_model(source, lambda graph, op: not rules.violations(OpView(graph, op, variant)))
    before = measured_report(source, name, session)
    after = measured_report(fixed, name, session) if changes else before
    return Fixed(write_model(fixed), tuple(changes), before, after)
