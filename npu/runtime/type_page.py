"""The page "operators and their types", made from the table that the interpreter checks when it allocates tensors."""

from __future__ import annotations

from collections.abc import Sequence

from npu.runtime.accuracy import ACCEPTED, ACCURACY, OTHER_VALUES, REFUSED, Departure
from npu.runtime.registry import OPERATORS
from npu.runtime.types import CODES, matches

_COLUMNS = ("f32", "f16", "i8", "u8", "i16", "i32", "i64", "bool", "str")
_MEASURES = {
    "result": "of the result itself",
    "terms": "of the sum of the magnitudes of its terms",
    "largest": "of the largest result, or of 1/16 where that is smaller",
}


def operator_types_page() -> str:
    """Markdown; compared with docs/operator-types.md by a test."""
    return "\n".join([*_head(), *_matrix(), *_patterns(), *_accuracy(), *_departures()]) + "\n"


def _head() -> list[str]:
    codes = ", ".join(f"`{code}` {dtype}" for code, dtype in CODES.items())
    return [
        "# Operators of the interpreter and their types",
        "",
        "Which types each operator of the interpreter takes. Generated from the table that it checks when tensors are",
        "allocated; every other combination is an error that names the operator and its types.",
        "They are written as `inputs -> outputs`; `?` may be absent, `*` repeats, `|`",
        "is a choice.",
        "",
        f"Codes: {codes}.",
        "",
    ]


def _matrix() -> list[str]:
    rows = [f"| {kind} | {' | '.join(_cells(row.types))} |" for kind, row in sorted(OPERATORS.items())]
    return [
        "## Types of the first output",
        "",
        f"| operator | {' | '.join(_COLUMNS)} |",
        f"| --- |{' --- |' * len(_COLUMNS)}",
        *rows,
        "",
    ]


def _cells(patterns: Sequence[str]) -> list[str]:
    return ["yes" if any(_gives(pattern, code) for pattern in patterns) else "" for code in _COLUMNS]


def _gives(pattern: str, code: str) -> bool:
    outputs = pattern.split("->")[1].split()
    return bool(outputs) and matches(f" -> {outputs[0]}", (), (CODES[code],))


def _patterns() -> list[str]:
    rows = [f"- **{kind}**: {_listed(row.types)}" for kind, row in sorted(OPERATORS.items())]
    return ["## All combinations", "", *rows, ""]


def _listed(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern.strip()}`" for pattern in patterns)


def _accuracy() -> list[str]:
    rows = [f"| {kind} | {a.steps} float32 steps {_MEASURES[a.measure]} | {a.reason} |" for kind, a in sorted(ACCURACY.items())]
    return [
        "## Accuracy",
        "",
        "Integer results equal LiteRT's reference kernels. Float results equal them bit for bit, but for these operators:",
        "",
        "| operator | at most | why |",
        "| --- | --- | --- |",
        *rows,
        "",
    ]


def _departures() -> list[str]:
    lines: list[str] = []
    for title, rows in (
        ("Refused here, executed by LiteRT", REFUSED),
        ("Executed here, refused by LiteRT", ACCEPTED),
        ("Other values than LiteRT's reference kernels", OTHER_VALUES),
    ):
        lines += [f"### {title}", "", *(_departure(row) for row in rows), ""]
    return [
        "## Differences from LiteRT",
        "",
        "In the combinations below a suffix `p` means integers without quantization, `c` one scale per channel, `-` an absent",
        "input; `[...]` is a choice of characters, and `*` stands for anything.",
        "",
        *lines,
        "## BATCH_MATMUL with several scales",
        "",
        "BATCH_MATMUL of an integer map with a filter that has several scales gives the output's zero point everywhere, as",
        "LiteRT's kernels do: they take the one scale of the tensor, which is 0 there.",
    ]


def _departure(row: Departure) -> str:
    return f"- {', '.join(f'`{cell}`' for cell in row.cells)}: {row.reason}."
