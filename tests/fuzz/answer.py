"""What a case of the campaign ends in: an answer of a few words, and a failure where an oracle was not satisfied."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu.errors import LONGEST, UserError


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is one of few, so that answers can be counted; `failure` is empty unless something is to be mended."""

    text: str
    failure: str = ""


class Refused(Exception):
    """The case ended in an error that tells the user what to do."""


def attempt(what: str, work: Callable[[], Any]) -> Any:
    """The result of `work`. Refused for errors of the user's files; whatever else it raises goes through."""
    try:
        return work()
    except UserError as error:
        text = str(error)
        if not text or not text.isprintable() or len(text) > LONGEST:
            raise AssertionError(f"an error text that helps nobody: {text[:100]!r}") from error
        raise Refused(f"{what}: refused") from error


def answer_of(case: Callable[[], str]) -> Answer:
    """Runs one case, which returns its answer, raises Refused, or AssertionError where an oracle is not satisfied."""
    try:
        return Answer(case())
    except Refused as refused:
        return Answer(str(refused))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frame = next(
            (item for item in reversed(traceback.extract_tb(error.__traceback__)) if "/fuzz/" not in item.filename), None
        )
        place = "" if frame is None else f" at {frame.filename.rsplit('/', 3)[-2:]}:{frame.lineno}"
        return Answer("failure", f"{type(error).__name__}: {re.sub(r'[^ -~]', '?', str(error))[:300]}{place}")


def difference(first: list[np.ndarray], second: list[np.ndarray], *, exact: bool) -> str:
    """How two lists of outputs differ, empty if they do not; floats may differ by rounding unless `exact`."""
    if len(first) != len(second):
        return f"{len(first)} outputs against {len(second)}"
    for index, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {index}: {a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}"
        if exact or a.dtype.kind not in "fc":
            if a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True):
                continue
            if a.tobytes() != b.tobytes():
                return f"output {index}: {int(np.count_nonzero(a != b))} of {a.size} elements differ"
        elif not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"output {index}: up to {np.nanmax(np.abs(a - b))} apart"
    return ""
