"""docs/vela-agreement.md lists every operator that Vela places elsewhere, with the reason."""

from __future__ import annotations

import pytest

from tests.support.shared import shared_models
from tests.support.vela_agreement import PAGE, models, page, rows


@pytest.mark.slow
def test_every_other_placement_has_a_reason() -> None:
    for name, path in models().items():
        assert all(row.reason for row in rows(path) if row.ours != row.theirs), name


@pytest.mark.slow
@pytest.mark.skipif(not shared_models(), reason="the page is made of models that are not here")
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"
