"""Which points there are: models x hardware x values of fields, from arguments or a YAML file.

`FIELD=A..B:N` are N evenly spaced values from A to B, `FIELD=A..B:N:log` as many that grow by a factor, `FIELD=A,B,C` are
values. K, M and G multiply by 1024. FIELD is the dotted key of a hardware description, or `optimise` or `profile`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from npu.compiler.goal import Goal
from npu.errors import ConfigError, UserError
from npu.explore.point import Point
from npu.hardware.choice import Hardware
from npu.hardware.document import read_document
from npu.hardware.loader import build_variant
from npu.hardware.shipped import board_target, closest, list_boards
from npu.records import dataclass
from npu.toolchain.session import DEFAULT_PROFILE
from npu.toolchain.sources import Source

MOST_POINTS = 1_000_000
OPTIONS = {"optimise": tuple(goal.value for goal in Goal), "profile": ("u55-u65", "v0.1", "xnnpack")}
"""What may vary besides fields of the hardware, with the values that it may have."""
STUDY_KEYS = ("models", "targets", "boards", "configs", "set", "over", "optimise", "profile", "compare_outputs")
ALL = "all"
"""In place of the name of a board: every one that is modelled."""

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?[KMG]?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER}):([0-9]{{1,7}})(:log)?", re.IGNORECASE)
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

AxisValue = int | float | str


@dataclass(frozen=True, slots=True)
class Space:
    """Every model with every hardware and every combination of the values of the swept fields."""

    models: tuple[Source, ...]
    hardware: tuple[Hardware, ...]
    over: Mapping[str, tuple[AxisValue, ...]] = dataclasses.field(default_factory=dict)
    profile: str = DEFAULT_PROFILE
    optimise: str = "performance"
    compares_outputs: bool = False

    @property
    def size(self) -> int:
        return len(self.models) * len(self.hardware) * math.prod(map(len, self.over.values()))

    def points(self) -> Iterator[Point]:
        """The points, those of a model together: workers then have it at hand."""
        for model, hardware in itertools.product(self.models, self.hardware):
            for values in itertools.product(*self.over.values()):
                yield self._point(model, hardware, dict(zip(self.over, values, strict=True)))

    def _point(self, model: Source, hardware: Hardware, values: dict[str, AxisValue]) -> Point:
        options = {name: str(values[name]) for name in OPTIONS if name in values}
        changes = tuple(f"{field}={value}" for field, value in values.items() if field not in OPTIONS)
        changed = dataclasses.replace(hardware, changes=(*hardware.changes, *changes))
        chosen = {"profile": self.profile, "optimise": self.optimise, **options}
        return Point(model, changed, **chosen, compares_outputs=self.compares_outputs, swept=tuple(values.items()))

    def check(self) -> None:
        """UserError for a space without points or with too many, and for a field that no hardware of it has."""
        if not self.models:
            raise UserError("sweep: must be given at least one model")
        if self.size > MOST_POINTS:
            raise UserError(f"sweep: must be at most {MOST_POINTS:,} points, got {self.size:,}")
        for field, values in self.over.items():
            if field not in OPTIONS:
                _check_field(self.hardware[0], field, values)


def _check_field(hardware: Hardware, field: str, values: Sequence[AxisValue]) -> None:
    """ConfigError if neither the first nor the last value can be set: one that is out of range gives a row with its error."""
    reasons = []
    for value in (values[0], values[-1]):
        try:
            build_variant(dataclasses.replace(hardware, changes=(*hardware.changes, f"{field}={value}")).describe())
        except ConfigError as error:
            reasons.append(str(error))
    if len(reasons) == 2:
        raise ConfigError(reasons[0].replace("--set ", "--over ", 1))


def make_space(
    models: Sequence[Source],
    *,
    targets: Sequence[str] = (),
    boards: Sequence[str] = (),
    configs: Sequence[str | Path] = (),
    changes: Sequence[str] = (),
    over: Mapping[str, Any] | None = None,
    profile: str = DEFAULT_PROFILE,
    optimise: str = "performance",
    compares_outputs: bool = False,
) -> Space:
    """A space that has been checked; without target, board and config it is of the default target."""
    named = [*targets, *(board_target(name) for name in every_board(boards))]
    hardware = [Hardware(target, changes=tuple(changes)) for target in named]
    hardware += [Hardware(config=config, changes=tuple(changes)) for config in configs]
    fields = {field: field_values(field, values) for field, values in (over or {}).items()}
    space = Space(
        tuple(models), tuple(hardware) or (Hardware(changes=tuple(changes)),), fields, profile, optimise, compares_outputs
    )
    space.check()
    return space


def every_board(names: Sequence[str]) -> list[str]:
    """The names, with `all` replaced by every board."""
    return [board for name in names for board in (list_boards() if name == ALL else [name])]


def parse_over(text: str) -> tuple[str, str]:
    """FIELD and its values as text."""
    field, separator, values = text.partition("=")
    if not separator or not field.strip() or not values.strip():
        raise UserError(f"--over: must be FIELD=VALUES, as memory_mode.arena_cache_bytes=64K..512K:8, got {text!r}")
    return field.strip(), values.strip()


def field_values(field: str, given: Any) -> tuple[AxisValue, ...]:
    """The values of a swept field: a list, one value, or text as on the command line."""
    values = _of_text(field, given) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (given,)
    if not values:
        raise UserError(f"--over {field}: must have at least one value, got none")
    for value in values:
        if not isinstance(value, int | float | str):
            raise UserError(f"--over {field}: a value must be a number or a text, got {value!r}")
        if field in OPTIONS and value not in OPTIONS[field]:
            near = closest(str(value), OPTIONS[field])
            raise UserError(f"--over {field}: must be among {', '.join(OPTIONS[field])}, got {value!r}{near}")
    return values


def _of_text(field: str, text: str) -> tuple[AxisValue, ...]:
    if ".." not in text:
        return tuple(_number(part.strip()) for part in text.split(",") if part.strip())
    match = _RANGE.fullmatch(text.replace("_", ""))
    if match is None:
        raise UserError(f"--over {field}: a range must be FIRST..LAST:COUNT, as 64K..512K:8 or 1..256:9:log, got {text!r}")
    first, last, count = _value(match[1]), _value(match[2]), int(match[3])
    if count < 1 or (count > 1 and first >= last) or count > MOST_POINTS:
        raise UserError(
            f"--over {field}: a range must have values: COUNT from 1 to {MOST_POINTS:,}, LAST above FIRST, got {text!r}"
        )
    if not math.isfinite(last - first):
        raise UserError(f"--over {field}: the ends of a range must be finite numbers, got {text!r}")
    if match[4] and first <= 0:
        raise UserError(f"--over {field}: a range that grows by a factor must begin above 0, got {text!r}")
    return _spaced(first, last, count, by_factor=bool(match[4]))


def _spaced(first: float, last: float, count: int, *, by_factor: bool) -> tuple[AxisValue, ...]:
    """Values from first to last; whole numbers between ends that are whole and far apart."""
    steps = [position / max(count - 1, 1) for position in range(count)]
    values = [first * (last / first) ** step if by_factor else first + (last - first) * step for step in steps]
    if first == int(first) and last == int(last) and (last - first >= 2 * (count - 1) or count == 1):
        return tuple(dict.fromkeys(round(value) for value in values))
    return tuple(values)


def _number(text: str) -> AxisValue:
    """A number if it is one, else the text."""
    return _shortest(_value(text)) if re.fullmatch(_NUMBER, text, re.IGNORECASE) else text


def _value(text: str) -> float:
    factor = _FACTORS.get(text[-1].upper(), 1)
    return float(text.rstrip("KMGkmg")) * factor


def _shortest(value: float) -> AxisValue:
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def read_study(path: Path) -> dict[str, Any]:
    """The arguments of `make_space` in a YAML file. Relative paths in it start beside it."""
    document = read_document(path, "a description of a sweep", example="models: [a.tflite]")
    for name in document:
        if name not in STUDY_KEYS:
            raise ConfigError(
                f"{path}: {name}: is no known key{closest(name, STUDY_KEYS)}; allowed are {', '.join(STUDY_KEYS)}"
            )
    lists = {name: _texts(path, name, document.get(name, [])) for name in ("models", "targets", "boards", "configs", "set")}
    over = document.get("over", {})
    if not isinstance(over, dict):
        raise ConfigError(f"{path}: over: must be a mapping of fields to values, got {over!r}")
    options = {name: str(document[name]) for name in OPTIONS if name in document}
    return {
        "models": [path.parent / name for name in lists["models"]],
        "targets": lists["targets"],
        "boards": lists["boards"],
        "configs": [path.parent / name for name in lists["configs"]],
        "changes": lists["set"],
        "over": over,
        "compares_outputs": bool(document.get("compare_outputs", False)),
        **options,
    }


def _texts(path: Path, name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in values):
        raise ConfigError(f"{path}: {name}: must be a text or a list of texts, got {value!r}")
    return values
