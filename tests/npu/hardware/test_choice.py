"""What a caller lays over a description, by the same rules as in files, and what messages say of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from npu.errors import ConfigError, UserError
from npu.hardware.accuracy import accuracy_of
from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.hardware.variant import Port, Variant

BASE = "ethos-u55-128"


def changed(*changes: str, **chosen: Any) -> Variant:
    return Hardware(BASE, changes=changes, **chosen).load()


def refusal(*changes: str, **chosen: Any) -> str:
    with pytest.raises(UserError) as caught:
        Hardware(chosen.pop("target", BASE), changes=changes, **chosen).load()
    return str(caught.value)


SAME: dict[str, tuple[tuple[str, ...], str]] = {
    "a number": (("shram.banks=32",), "shram: {banks: 32}"),
    "a number with underscores": (("system.clock_hz=250_000_000",), "system: {clock_hz: 250_000_000}"),
    "a mapping": (("system.memories.axi1={size_bytes: 1000000, read_latency_cycles: 3}",),
                  "system: {memories: {axi1: {size_bytes: 1000000, read_latency_cycles: 3}}}"),
    "a mapping as JSON": (('shram={"banks": 32}',), "shram: {banks: 32}"),
    "a section by name": (("memory_mode=Sram_Only",), "memory_mode: Sram_Only"),
    "a section that extends one": (("system={extends: Deep_Embedded, clock_hz: 100000000}",),
                                   "system: {extends: Deep_Embedded, clock_hz: 100000000}"),
    "a field of a section that was set before": (("system=Deep_Embedded", "system.clock_hz=100000000"),
                                                 "system: {extends: Deep_Embedded, clock_hz: 100000000}"),
    "nothing left": (("system.adapters={}",), "system: {adapters: {}}"),
    "null": (("system.adapters.axi1=null",), "system: {adapters: {axi1: null}}"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_a_change_does_what_the_same_lines_do_in_a_file(case: str, tmp_path: Path) -> None:
    changes, lines = SAME[case]
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: {BASE}\nname: {BASE} (changed)\n{lines}\n")
    assert changed(*changes) == load_variant(path) != load_variant(BASE)


def test_a_mapping_is_a_file_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"extends: {BASE}\nsystem:\n  adapters:\n    axi1: {{read_latency_cycles: 9, source: measured}}\n")
    fields = {"extends": BASE, "system": {"adapters": {"axi1": {"read_latency_cycles": 9, "source": "measured"}}}}
    assert Hardware(config=fields).load() == Hardware(config=path).load()


def test_later_overlays_win(tmp_path: Path) -> None:
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: {BASE}\nmemory_mode: {{arena_cache_bytes: 4096}}\n")
    chosen = Hardware(config=path, memory_mode="Sram_Only", changes=("shram.banks=30", "shram.banks=32")).load()
    assert chosen.memory_mode == load_variant(BASE, memory_mode="Sram_Only").memory_mode
    assert chosen.shram.banks == 32


def test_paths_of_arguments_start_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.yaml").write_text("extends: Deep_Embedded\nclock_hz: 150_000_000\n")
    monkeypatch.chdir(tmp_path)
    for hardware in (
        Hardware(BASE, system="slow.yaml"),
        Hardware(BASE, changes=("system=slow.yaml",)),
        Hardware(config={"extends": BASE, "system": "slow.yaml"}),
    ):
        assert hardware.load().system.clock_hz == 150_000_000


def test_a_changed_product_has_no_published_accuracy() -> None:
    assert accuracy_of(load_variant(BASE), {}) is not None
    assert accuracy_of(changed("shram.banks=32"), {}) is None


TOLD = {
    "out of range": (("shram.banks=0",), {}, "--set shram.banks: must be an integer in [1, 64], got 0"),
    "below the key": (("shram={banks: 0}",), {}, "--set shram: shram.banks: must be an integer in [1, 64], got 0"),
    "the first of two": (("shram.banks=0", "system.clock_hz=200000000"), {}, "--set shram.banks: must be"),
    "unknown section": (("system=Hi_End",), {}, "--set system: must be one of ethos-u55-deep-embedded"),
    "unknown base of a section": (("system.extends=Hi_End",), {}, "--set system.extends: must be one of"),
    "contradiction with what is shipped": (("accelerator.cores=2",), {}, "--set accelerator.cores: accelerator.macs_per_cycle"),
    "chosen section": ((), {"memory_mode": "Sram"}, "memory_mode: must be one of"),
    "chosen file": ((), {"system": "nowhere.yaml"}, "system: nowhere.yaml: must be a YAML file with a hardware"),
    "mapping": ((), {"target": None, "config": {"extends": BASE, "shram": {"banks": 0}}}, "config: shram.banks: must be"),
    "anchor": (("shram=&a {banks: 3}",), {}, "--set shram: must not use anchors"),
    "tag": (("shram=!!python/name:os.system ''",), {}, "--set shram: must not use explicit tags"),
    "no key": (("=3",), {}, "--set: must be KEY=VALUE with a dotted key, got '=3'"),
    "no value": (("shram.banks",), {}, "--set: must be KEY=VALUE"),
    "empty part": (("shram..banks=3",), {}, "--set: must be KEY=VALUE"),
    "too long": ((f"name={'x' * 70000}",), {}, "--set name: must be at most 65536 characters, got 70000"),
    "deep mapping": ((), {"target": None, "config": {"a": {}}}, "config: a: is no known key"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_a_message_names_the_argument_at_fault(case: str) -> None:
    changes, chosen, expected = TOLD[case]
    assert refusal(*changes, **chosen).startswith(expected)


def test_a_message_names_the_file_at_fault_although_arguments_were_laid_over_it(tmp_path: Path) -> None:
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: {BASE}\nshram:\n  banks: 0\n")
    assert refusal("system.clock_hz=200000000", target=None, config=path).startswith(f"{path}:3: shram.banks: must be")


def test_a_mapping_that_holds_itself_is_refused() -> None:
    fields: dict[str, Any] = {"extends": BASE}
    fields["system"] = fields
    assert refusal(target=None, config=fields) == "config: must not nest deeper than 16 levels"
    assert "must be a number of at most 1024 bits" in refusal(target=None, config={"shram": {"banks": 1 << 20000}})
    assert refusal(target=None, config={3: 4}) == "config: a key must be text, got 3"


def test_a_file_that_is_no_description_is_not_read_for_a_message(tmp_path: Path) -> None:
    """Who may send a description to a service must not learn what other files hold."""
    (tmp_path / "secret").write_text("password: hunter2\n")
    for lines in (
        f"extends: {tmp_path}/secret",
        f"extends: {BASE}\nsystem: ./secret",
        f"extends: {BASE}\ncpu: {{extends: ../x/y}}",
    ):
        path = tmp_path / "board.yaml"
        path.write_text(lines + "\n")
        message = refusal(target=None, config=path)
        assert "must be a YAML file with a hardware description, whose name ends in .yaml, .yml, .json" in message
        assert "password" not in message
        assert "hunter2" not in message
    assert "whose name ends in" in refusal(target=None, config={"extends": f"{tmp_path}/secret"})


def test_every_field_can_be_set() -> None:
    """One by one, to the value that it has; the name says that something was asked for."""
    variant = dataclasses.replace(load_variant("ethos-u65-512"), name="ethos-u65-512 (changed)")
    fields = dict(leaves(variant))
    assert len(fields) > 100
    for key, value in fields.items():
        assert Hardware("ethos-u65-512", changes=(f"{key}={value}",)).load() == variant


def leaves(record: Any, prefix: str = "") -> Any:
    """Dotted keys of the numbers of a description, with their values."""
    items = record.items() if isinstance(record, dict) else ((name, getattr(record, name)) for name in record.__slots__)
    for name, value in items:
        key = f"{prefix}{name.value if isinstance(name, Port) else name}"
        if dataclasses.is_dataclass(value) or isinstance(value, dict):
            yield from leaves(value, f"{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value


def test_both_a_target_and_a_config_are_refused() -> None:
    with pytest.raises(ConfigError, match="give only one of them; a config names its own base"):
        Hardware(BASE, config={"extends": BASE})
