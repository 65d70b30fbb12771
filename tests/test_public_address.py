"""One setting, the public address, makes project URLs and README links that work on an index page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_docs import FENCE, LINK
from tests.support.processes import ROOT, environment

NEEDED = ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "hatch_metadata.py", "npu/version.py")
ADDRESS = "https://forge.invalid/some/npulab"


def metadata(folder: Path, address: str) -> dict[str, Any]:
    """What a build of the project with this address tells an index."""
    for name in NEEDED:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    project = folder / "pyproject.toml"
    text, count = re.subn(r'^address = ""', f'address = "{address}"', project.read_text(), flags=re.MULTILINE)
    assert count == 1, "the repository is public: expect its address here"
    project.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"], cwd=folder, env=environment(), check=True, capture_output=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return metadata(tmp_path_factory.mktemp("public"), f"{ADDRESS}/")


def test_with_an_address_every_link_of_the_readme_is_absolute_and_leads_to_a_file(public: dict[str, Any]) -> None:
    links = LINK.findall(FENCE.sub("", public["readme"]["text"]))
    assert [link for link in links if ":" not in link and not link.startswith("#")] == []
    paths = [link.removeprefix(ADDRESS).split("/HEAD/") for link in links if link.startswith(ADDRESS)]
    assert {kind for kind, _ in paths} == {"/blob", "/raw"}
    assert [path for _, path in paths if not (ROOT / path.partition("#")[0]).exists()] == []
    assert len(paths) == len([link for link in LINK.findall((ROOT / "README.md").read_text()) if ":" not in link])


def test_samples_of_the_readme_stay_as_they_are(public: dict[str, Any]) -> None:
    assert FENCE.findall(public["readme"]["text"]) == FENCE.findall((ROOT / "README.md").read_text())


def test_with_an_address_the_project_has_urls(public: dict[str, Any]) -> None:
    assert public["urls"]["Source"] == ADDRESS
    assert {"Source", "Documentation", "Changelog", "Issues"} == set(public["urls"])
    assert all(url.startswith(ADDRESS) for url in public["urls"].values())


def test_without_an_address_nothing_is_made_up(tmp_path: Path) -> None:
    found = metadata(tmp_path, "")
    assert "urls" not in found
    assert found["readme"]["text"] == (ROOT / "README.md").read_text()
