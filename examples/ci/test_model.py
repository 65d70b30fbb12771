"""A model in a test suite: pytest examples/ci, with npulab installed."""

from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[1] / "digits.tflite"


@pytest.mark.npulab_budget(max_cycles=24_000, max_difference=1, fail_on="cpu")
def test_the_model_fits(npulab_model):
    report = npulab_model(DIGITS, target="ethos-u55-128")
    assert report.totals.sram_bytes <= 16_384
