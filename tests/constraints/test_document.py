"""The generated operator documents: the checked-in copies, and v0.1 against the rows of the published list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from constraints.document import supported_ops_document
from constraints.profiles import profile_named, profile_names
from npu.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs"

CONVOLUTION = ["1,3", "1,2", "1,64", "1,4096", "8", "constant", "8323072", "int32", "1"]
# What the published list says under each heading, as the numbers or key word of every row.
ROWS = {
    "generic": ["int8", "1,65535", "LOGISTIC, RELU, RELU6, RELU_N1_TO_1, TANH", "int8"],
    "ADD": ["dimension 1"],
    "AVERAGE_POOL_2D": ["1", "1,3", "1,8", "1,256", "1,65536"],
    "CONV_2D": CONVOLUTION,
    "DEPTHWISE_CONV_2D": [*CONVOLUTION, "one channel"],
    "FULLY_CONNECTED": ["8", "constant", "int32"],
    "MAX_POOL_2D": ["1", "1,3", "1,256", "1,65536"],
    "MUL": ["dimension 1"],
    "PAD": ["[3,2] or [4,2]", "0", "int32"],
    "RESHAPE": ["constant"],
    "RESIZE_BILINEAR": ["one of the cases", "false"],
    "SUB": ["dimension 1"],
}
GENERIC_ONLY = ["CONCATENATION", "LOGISTIC", "PACK", "RELU", "RELU6", "RELU_N1_TO_1", "SOFTMAX", "TANH"]


def sections() -> dict[str, list[str]]:
    """Top-level bullet lines under every heading of the v0.1 document."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in supported_ops_document("v0.1").splitlines():
        if line.startswith("### "):
            heading = line[4:].removesuffix(" rules")
            found[heading] = []
        elif line.startswith("#"):
            heading = ""
        elif line.startswith("- ") and heading:
            found[heading].append(line)
    return found


@pytest.mark.seed("V-T-5")
def test_the_v0_1_document_has_the_rows_of_the_published_list() -> None:
    found = sections()
    assert list(found) == ["generic", *sorted(set(ROWS) - {"generic"})]
    for heading, rows in ROWS.items():
        assert len(found[heading]) == len(rows), heading
        for line, expected in zip(found[heading], rows, strict=True):
            text = line.split(": ", 1)[1]
            numbers = re.match(r"^(\d+),(\d+)$", expected)
            wanted = f"[{numbers[1]}, {numbers[2]}]" if numbers else expected
            assert re.search(rf"(?<![\w\[]){re.escape(wanted)}(?!\d)" if not numbers else re.escape(wanted), text), line


@pytest.mark.seed("V-T-7", "V-T-8")
def test_the_v0_1_summary_marks_generic_and_specific_operators() -> None:
    text = supported_ops_document("v0.1")
    table = re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE)[1:]
    generic_only = [kind for kind, rules in table if "specific" not in rules]
    assert generic_only == GENERIC_ONLY
    assert [kind for kind, rules in table if "specific" in rules] == sorted(set(ROWS) - {"generic"})
    assert all("generic" in rules for _, rules in table)


@pytest.mark.seed("V-T-6")
def test_the_version_line_is_there() -> None:
    assert "Version `0.1` of the profile" in supported_ops_document("v0.1")


@pytest.mark.seed("V-RSZ-1a", "V-RSZ-1b", "V-RSZ-1c", "V-RSZ-1d")
def test_the_four_cases_of_a_resize_are_listed() -> None:
    text = supported_ops_document("v0.1").split("### RESIZE_BILINEAR rules")[1]
    assert len(re.findall(r"^  - ", text.split("V-RSZ-2")[0], re.MULTILINE)) == 4


@pytest.mark.parametrize("profile", profile_names())
def test_the_checked_in_copy_is_up_to_date(profile: str) -> None:
    path = DOCS / f"supported-ops-{profile}.md"
    command = f"npu supported-ops --profile {profile} -o docs/{path.name}"
    assert path.read_text() == supported_ops_document(profile), f"run: {command}"


@pytest.mark.parametrize("profile", profile_names())
def test_every_link_of_a_document_leads_to_a_heading(profile: str) -> None:
    text = supported_ops_document(profile)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\(#([^)]+)\)", text)) <= anchors


@pytest.mark.parametrize("profile", profile_names())
def test_every_rule_is_in_the_document_once(profile: str) -> None:
    text = supported_ops_document(profile)
    for form in profile_named(profile).rule_sets:
        for rule in form.rules:
            assert text.count(f"- `{rule.id}`: ") == max(len(rule.operators), 1), rule.id


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"profile: must be one of u55-u65, v0\.1, xnnpack, got 'v0\.2'"):
        supported_ops_document("v0.2")
