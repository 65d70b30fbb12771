"""The pages hang together: links and anchors lead somewhere, the README lists every page, and the samples run."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from npu.cli.main import main
from npu.toolchain.explain import WAITING
from sim.timing.explain import PARTS
from sim.trace import Bound

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("[!.]*/README.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FOLDERS = ("benchmarks", "configs", "constraints", "docs", "examples", "npu", "sim", "tests")
NAMED_PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`")


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = sum(item == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", item) is not None for item in found)
        found.add(f"{anchor}-{number}" if anchor in found else anchor)
    return found


def links_of(page: Path) -> list[tuple[Path, str]]:
    """(file, anchor) of every link that stays in the project."""
    links = [link.partition("#") for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))]
    return [((page.parent / path if path else page).resolve(), anchor) for path, _, anchor in links if ":" not in path]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_and_named_file_of_a_page_exists(name: str) -> None:
    page = ROOT / name
    missing = [str(path) for path, _ in links_of(page) if not path.exists()]
    missing += [f"{path.name}#{anchor}" for path, anchor in links_of(page) if anchor and anchor not in anchors_of(path)]
    missing += [path for path in NAMED_PATH.findall(page.read_text(encoding="utf-8")) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_begins_with_what_it_is_for(name: str) -> None:
    """A sentence before the first table, list, sample or heading; that a page is generated comes after it."""
    text = re.sub(r"^<!--.*?-->\n", "", (ROOT / name).read_text(encoding="utf-8"))
    title, _, rest = text.partition("\n")
    assert title.startswith("# ")
    first = rest.strip().partition("\n\n")[0]
    assert re.match(r"[\w`]", first), first
    assert not re.match("Generated|Made by|Written by", first)
    assert re.search(r"\.\s", f"{first} ")


def sentences(page: Path) -> list[str]:
    """The sentences of a page's paragraphs and lists; samples and tables are left out, code counts as one word."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", FENCE.sub("\n\n", page.read_text(encoding="utf-8")))
    texts = [" ".join(block.split()) for block in blocks if not block.lstrip().startswith(("#", "|", "!", "<"))]
    return [part for text in texts for part in re.split(r"(?<=[.!?:;])\s+", re.sub(r"`[^`]*`", "code", text)) if part]


HOW_TO = re.findall(r"      - ([\w./-]+\.md)", (ROOT / "docs/mkdocs.yml").read_text().partition("  - Reference:")[0])


@pytest.mark.parametrize("name", HOW_TO)
def test_sentences_of_a_how_to_can_be_read_once(name: str) -> None:
    words = [len(re.sub(r"\]\([^)]*\)", "", sentence).split()) for sentence in sentences(ROOT / name)]
    assert max(words) <= 40
    assert sum(words) / len(words) <= 18


def test_the_readme_links_every_page() -> None:
    linked = {path for path, _ in links_of(ROOT / "README.md")}
    assert [name for name, page in zip(NAMES, PAGES, strict=True) if page.resolve() not in linked] == ["README.md"]


def test_the_page_on_reports_explains_every_bound_and_every_loss() -> None:
    page = (ROOT / "docs" / "reading-reports.md").read_text(encoding="utf-8")
    bounds, losses = page.partition("## `npu explain`")[::2]
    explained = {
        text.strip() for row in re.findall(r"^\| ([^|]*) \|", bounds + losses, re.MULTILINE) for text in row.split(",")
    }
    assert {item.value for item in Bound} - {"nothing"} <= explained
    assert {*PARTS, WAITING} <= explained


def test_the_sample_of_the_page_on_compiled_files_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(DIGITS), "-o", "digits_u55.tflite"]) == 0
    capsys.readouterr()
    page = ROOT / "docs" / "compiled-file.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out.startswith("ETHOS_U55 128 MACs, ")
