"""Rows of a sweep as a data frame, and in files: Parquet or CSV by the name, written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npu.errors import UserError
from npu.explore.point import PointRow
from npu.extras import load
from npu.files import write_atomically
from npu.plain import cell

FORMS = (".csv", ".parquet")
_TYPES = {bool: "boolean", int: "Int64", float: "Float64", str: "string"}
"""Types of pandas whose columns may have gaps: a point that failed has no numbers."""


def require_form(path: Path) -> None:
    """UserError for a file that no table can be written to, or if what that takes is not installed; to be called first."""
    if path.suffix.lower() not in FORMS:
        raise UserError(f"{path}: must end in {' or '.join(FORMS)}, for a table")
    if path.suffix.lower() == ".parquet":
        load("pandas", "sweep")
        load("pyarrow", "sweep")


def frame_of(rows: Sequence[PointRow]) -> Any:
    """The rows as a DataFrame of pandas."""
    pandas = load("pandas", "sweep")
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    return pandas.DataFrame({name: pandas.array(values, dtype=_type_of(values)) for name, values in columns.items()})


def _type_of(values: Sequence[Any]) -> str:
    """The narrowest type that holds every value of a column."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return _TYPES[float]
    return _TYPES[kinds.pop()] if len(kinds) == 1 else ("string" if kinds else "Float64")


def write_table(path: Path, rows: Sequence[PointRow]) -> None:
    """Write the rows in the form that the name of the file ends with."""
    require_form(path)
    if path.suffix.lower() == ".csv":
        write_atomically(path, _csv(rows).encode())
        return
    buffer = io.BytesIO()
    frame_of(rows).to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())


def _csv(rows: Sequence[PointRow]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
