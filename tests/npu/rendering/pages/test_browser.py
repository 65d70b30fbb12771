"""Pages in a browser: they ask for nothing, fit a telephone, draw their charts, sort and filter their tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npu.cli.main import main
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.shared import shared_models

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[4]
PARTIAL = ROOT / "examples" / "digits_partial.tflite"
PAGES = {
    "report": ["report"],
    "run": ["run", "--format", "html"],
    "explain": ["explain", "--format", "html"],
    "check": ["check", "--format", "html"],
    "compare": ["compare", "--b-target", "ethos-u55-32", "--format", "html"],
    "fit": ["fit", "--format", "html"],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "a Chromium must be installed"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


def opened(browser: Any, page: Path, width: int, scheme: str) -> tuple[Any, list[str], list[str]]:
    """The page, what it asked for beside itself, and its errors."""
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    requests: list[str] = []
    errors: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.goto(page.as_uri())
    tab.wait_for_timeout(800)
    return tab, [url for url in requests if url != page.as_uri() and not url.startswith("data:")], errors


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_and_fits(browser: Any, name: str, scheme: str, width: int, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    model = shared_models().get("mobilenet_v2_1.0_224_INT8", PARTIAL) if name in ("report", "check", "compare") else PARTIAL
    assert main([PAGES[name][0], str(model), *PAGES[name][1:], "-o", str(page)]) == 0
    assert page.stat().st_size < 2_000_000
    tab, requests, errors = opened(browser, page, width, scheme)
    assert requests == []
    assert errors == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('table')].filter(one => one.scrollWidth > one.parentNode.clientWidth).length"
    assert tab.evaluate(cut) == 0
    drawn = tab.evaluate("[...document.querySelectorAll('figure > div')].map(one => one.querySelectorAll('svg').length)")
    assert all(drawn)
    assert bool(drawn) == (name in ("report", "run", "explain"))


def test_tables_sort_and_filter(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(PARTIAL), "-o", str(page)]) == 0
    tab, _, _ = opened(browser, page, 1280, "light")
    rows = "[...document.querySelectorAll('#operators tbody tr')].filter(row => !row.hidden)"
    tab.click("#operators th button:text-is('cycles')")
    cycles = tab.evaluate(f"{rows}.map(row => Number(row.querySelector('[data-label=cycles]').dataset.v))")
    assert cycles == sorted(cycles, reverse=True)
    tab.click("#operators th button:text-is('cycles')")
    assert tab.evaluate(f"{rows}.map(row => Number(row.querySelector('[data-label=cycles]').dataset.v))") == sorted(cycles)
    tab.fill("#operators input", "conv")
    kinds = tab.evaluate(f"{rows}.map(row => row.querySelector('[data-label=operator]').textContent)")
    assert kinds
    assert all("CONV" in kind for kind in kinds)


def test_a_long_table_is_short_on_a_telephone_until_asked(browser: Any, tmp_path: Path) -> None:
    model = ModelBuilder()
    last = model.input((1, 8, 8, 16), DType.INT8, scale=0.1)
    for _ in range(30):
        last = model.op("ABS", [last], (1, 8, 8, 16), DType.INT8, scale=0.1)
    model.output(last)
    (tmp_path / "chain.tflite").write_bytes(model.build())
    assert main(["report", str(tmp_path / "chain.tflite"), "-o", str(tmp_path / "page.html")]) == 0
    tab, _, _ = opened(browser, tmp_path / "page.html", 375, "light")
    rows = "[...document.querySelectorAll('#operators tbody tr')].filter(row => row.offsetHeight).length"
    cells = "[...document.querySelector('#operators tbody tr').cells].filter(cell => cell.offsetHeight).length"
    assert (tab.evaluate(rows), tab.evaluate(cells)) == (12, 6)
    tab.click("#operators tbody tr:first-child")
    assert tab.evaluate(cells) > 8
    tab.click("#operators button.rest")
    assert tab.evaluate(rows) >= 30
    wide, _, _ = opened(browser, tmp_path / "page.html", 1280, "light")
    assert wide.evaluate(rows) >= 30
