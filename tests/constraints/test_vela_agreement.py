"""Placement by profile u55-u65 against Vela 5.2 on real int8 models: every difference is known, and has a reason."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.shared import shared_models
from tests.support.vela_agreement import PAGE, models, page, rows

# Operators that Vela takes and this profile does not: model -> operator -> how many. docs/vela-agreement.md has the reasons.
GAPS: dict[str, dict[str, int]] = {
    "keyword_scrambled_8bit": {"SOFTMAX": 1},
    "mnist_lstm_int8": {"UNIDIRECTIONAL_SEQUENCE_LSTM": 1},
    "movenet_lightning_int8": {"RESHAPE": 3},
}
# Operators that this profile takes and Vela does not.
SURPLUS: dict[str, dict[str, int]] = {
    "edsr_f32b5_int8": {"DEPTH_TO_SPACE": 1},
    "mcunet_vww_int8": {"MEAN": 1},
    "movenet_lightning_int8": {"PACK": 2},
}


@pytest.mark.slow
def test_placements_are_those_of_vela_but_for_known_differences() -> None:
    for name, path in models().items():
        table = rows(path)
        gaps = Counter(row.kind for row in table if (row.ours, row.theirs) == ("CPU", "NPU"))
        surplus = Counter(row.kind for row in table if (row.ours, row.theirs) == ("NPU", "CPU"))
        assert gaps == GAPS.get(name, {}), name
        assert surplus == SURPLUS.get(name, {}), name
        assert all(row.reason for row in table if row.ours != row.theirs), name


@pytest.mark.slow
@pytest.mark.skipif(not shared_models(), reason="the page is made of models that are not here")
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"
