"""The documentation site holds every page, and every public name that its reference shows is documented."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest
import yaml

import npu
import npu.api
import npu.errors

from tests.end_to_end.test_docs import links_of

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("configs/*.md"), *ROOT.glob("examples/**/*.md")]
REFERENCE = {f"reference/{path.name}" for path in (ROOT / "docs/reference").glob("*.md")}


def in_navigation() -> list[str]:
    """Every page that the site's navigation names."""
    nav = yaml.safe_load((ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return re.findall(r"[\w./-]+\.md", str(nav))


def test_the_navigation_names_every_page_once() -> None:
    assert sorted(in_navigation()) == sorted({str(path.relative_to(ROOT)) for path in PAGES} | REFERENCE)


@pytest.mark.parametrize("name", [name for name in npu.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    served = getattr(npu, name)
    assert inspect.getdoc(served)
    if inspect.isclass(served) and not issubclass(served, Exception):
        members = [member for member in vars(served) if not member.startswith("_")]
        undocumented = [member for member in members if callable(getattr(served, member)) and not _doc(served, member)]
        assert undocumented == []


def _doc(served: type, member: str) -> str | None:
    return inspect.getdoc(getattr(served, member))


def test_every_verb_and_error_is_documented() -> None:
    verbs = [value for name, value in vars(npu.api).items() if inspect.isfunction(value) and not name.startswith("_")]
    errors = [value for value in vars(npu.errors).values() if inspect.isclass(value) and value.__module__ == "npu.errors"]
    assert len(verbs) > 8
    assert [served.__name__ for served in (*verbs, *errors) if not served.__doc__] == []


def test_every_public_name_stands_in_the_reference() -> None:
    page = (ROOT / "docs/reference/npu.md").read_text(encoding="utf-8")
    shown = {target.rpartition(".")[2] for target in re.findall(r"^::: ([\w.]+)", page, re.MULTILINE)}
    verbs = {name for name in vars(npu.api) if not name.startswith("_")}
    errors = {name for name in vars(npu.errors) if name[0].isupper()}
    assert [name for name in npu.__all__ if name not in shown | verbs | errors | {"__version__"}] == []


def test_every_link_of_a_page_leads_to_what_the_site_holds() -> None:
    """`make site` in CI is strict; this tells sooner."""
    site = runpy.run_path(str(ROOT / "docs/site.py"))
    held = {source.resolve() for source in site["_sources"]()}
    outside = [f"{page.name}: {path.name}" for page in PAGES for path, _ in links_of(page) if path not in held]
    assert outside == []
