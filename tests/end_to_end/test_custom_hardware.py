"""Any field of a description changes compiler and timing alike: results stay bit-exact, cycles move the right way."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.api import run, time_model
from npu.cli.main import main
from npu.errors import ConfigError
from npu.graph.dtype import DType
from npu.hardware.catalogue import list_examples, load_variant
from npu.hardware.document import Document, read_document
from npu.hardware.variant import Port, Variant
from npu.tflite.writer import write_model
from npu.toolchain.run import RunResult

from tests.support import single_ops

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"
SEVEN = ROOT / "examples" / "digit_7.npy"

IDEAL = "system: {extends: High_End_Embedded_Ideal}\n"

# name -> (base, fields laid over it, fields laid over it for the comparison, sign of the change of NPU cycles)
CHANGES = {
    "wider_ublock": (
        "ethos-u55-128",
        IDEAL,
        IDEAL + "accelerator: {macs_per_cycle: 256, ofm_ublock: {height: 2}, ifm_ublock: {height: 2}}\n",
        -1,
    ),
    "deeper_ublock": (
        "ethos-u55-128",
        IDEAL,
        IDEAL + "accelerator: {macs_per_cycle: 256, ofm_ublock: {depth: 16}}\ntiming: {weights_per_cycle: 16}\n",
        -1,
    ),
    "ublock_deeper_than_a_brick": (
        "ethos-u55-128",
        IDEAL,
        IDEAL + "accelerator: {macs_per_cycle: 512, ofm_ublock: {depth: 32}}\ntiming: {weights_per_cycle: 32}\n",
        -1,
    ),
    "narrower_ublock": ("ethos-u55-64", IDEAL, IDEAL + "accelerator: {macs_per_cycle: 32, ofm_ublock: {depth: 4}}\n", 1),
    "fewer_banks": ("ethos-u55-256", IDEAL, IDEAL + "shram: {banks: 40}\n", 0),
    "more_banks": ("ethos-u55-128", IDEAL, IDEAL + "shram: {banks: 64}\n", 0),
    "wider_port": ("ethos-u55-256", IDEAL, IDEAL + "accelerator: {axi_data_bytes: 16}\n", -1),
    "narrower_port": ("ethos-u55-256", IDEAL, IDEAL + "accelerator: {axi_data_bytes: 4}\n", 1),
    "read_latency": ("ethos-u55-128", "", "system: {adapters: {axi0: {read_latency_cycles: 100}}}\n", 1),
    "flash_latency": ("ethos-u55-128", "", "system: {adapters: {axi1: {read_latency_cycles: 16}}}\n", -1),
    "flash_bandwidth": (
        "ethos-u55-128",
        "system: {adapters: {}}\n",
        "system: {adapters: {}, memories: {axi1: {clock_scale: 0.02}}}\n",
        1,
    ),
    "bandwidth_cap": ("ethos-u55-128", "", "system: {adapters: {axi1: {beats_per_window: 10}}}\n", 1),
    "no_adapters": ("ethos-u55-128", "", "system: {extends: High_End_Embedded_Ideal}\n", -1),
    "outstanding": ("ethos-u55-128", "", "system: {adapters: {axi0: {max_outstanding_reads: 1}}}\n", 1),
    "slow_decoder": ("ethos-u55-128", IDEAL, IDEAL + "timing: {weight_decode_bits_per_cycle: 4}\n", 1),
    "slow_output": ("ethos-u55-128", IDEAL, IDEAL + "timing: {output_cycles: {other: 2.0, activation_clamp: 2.0}}\n", 1),
    "overhead": ("ethos-u55-128", IDEAL, IDEAL + "timing: {operation_overhead_cycles: 500}\n", 1),
    "command_cost": ("ethos-u55-128", IDEAL, IDEAL + "timing: {command_cycles_per_word: 20.0}\n", 1),
    "dma_setup": ("ethos-u55-128", IDEAL, IDEAL + "timing: {dma_setup_cycles: 2000}\n", 1),
    "one_core_less": (
        "ethos-u65-512",
        "system: {extends: Ethos_U65_High_End_Ideal}\n",
        "system: {extends: Ethos_U65_High_End_Ideal}\naccelerator: {cores: 1, macs_per_cycle: 256}\n"
        "timing: {output_cycles: {other: 0.25, activation_clamp: 0.25}}\n",
        1,
    ),
    "everything_in_sram": ("ethos-u55-128", "", "memory_mode: Sram_Only\n", -1),
    "no_blockdep": ("ethos-u55-128", IDEAL, IDEAL + "accelerator: {max_blockdep: 0}\n", 0),
    "small_blocks": ("ethos-u55-128", IDEAL, IDEAL + "accelerator: {max_block: {height: 4, width: 4}}\n", 0),
}


def described(folder: Path, name: str, base: str, fields: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"extends: {base}\n{fields}")
    return path


@cache
def expected() -> np.ndarray:  # type: ignore[type-arg]
    return run(DIGITS, [np.load(SEVEN)], "ethos-u55-128").outputs[0]


def run_on(config: Path) -> RunResult:
    return run(DIGITS, [np.load(SEVEN)], config=config)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_field_changes_the_time_and_never_the_result(name: str, tmp_path: Path) -> None:
    base, before, after, sign = CHANGES[name]
    usual = time_model(DIGITS, config=described(tmp_path, "before", base, before)).report.totals.npu_cycles
    changed = run_on(described(tmp_path, "after", base, after))
    np.testing.assert_array_equal(changed.outputs[0], expected())
    assert usual is not None
    cycles = changed.report.totals.npu_cycles
    assert cycles is not None
    if sign:
        assert (cycles - usual) * sign > 0, (usual, cycles)


@pytest.mark.parametrize("depth", [32, 64])
def test_slices_of_weights_are_as_deep_as_the_micro_blocks(depth: int, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(-127, 128, (96, 3, 3, 64))
    weights = single_ops.tensor(values.shape, DType.INT8, data=values)
    model = write_model(single_ops.conv(ifm=(1, 24, 24, 64), out_channels=96, weights=weights))
    array = f"{{macs_per_cycle: {depth * 16}, ofm_ublock: {{depth: {depth}}}}}"
    deep = run(model, config=described(tmp_path, "deep", "ethos-u55-128", f"accelerator: {array}\nshram: {{banks: 48}}\n"))
    np.testing.assert_array_equal(deep.outputs[0], run(model, target="ethos-u55-128").outputs[0])


def test_a_slower_clock_takes_longer_in_time_but_not_in_cycles(tmp_path: Path) -> None:
    fast = time_model(DIGITS, config=described(tmp_path, "fast", "ethos-u55-128", "")).report
    slow = time_model(DIGITS, config=described(tmp_path, "slow", "ethos-u55-128", "system: {clock_hz: 250_000_000}\n")).report
    assert slow.totals.npu_cycles == fast.totals.npu_cycles
    # A slow NPU clock counts fewer ticks while the CPU works.
    assert slow.totals.cpu_cycles is not None
    assert fast.totals.cpu_cycles is not None
    assert slow.totals.cpu_cycles == pytest.approx(fast.totals.cpu_cycles / 2, abs=6)


def test_a_slower_cpu_makes_the_work_around_a_job_longer(tmp_path: Path) -> None:
    usual = time_model(DIGITS).timeline.overheads()
    slow = time_model(DIGITS, config=described(tmp_path, "slow", "ethos-u55-128", "cpu: {clock_hz: 100_000_000}\n"))
    assert slow.timeline.overheads()["job start"] == 4 * usual["job start"]


@pytest.mark.parametrize("name", list_examples())
def test_what_if_variants_are_exact_and_differ_from_their_base(name: str) -> None:
    variant: Variant = load_variant(f"examples/{name}")
    result = run(DIGITS, [np.load(SEVEN)], f"examples/{name}")
    np.testing.assert_array_equal(result.outputs[0], expected())
    assert result.report.target == variant.name == f"example-{name}"
    error = result.report.timing_error
    other_memories = error is not None and error.unmeasured[-1] == f"the memories of {variant.system.name}"
    assert other_memories == (name == "fast-flash") == (error is not None)  # of other compute nothing is known


ONE_PORT = "system: {memories: {axi1: null}, adapters: {axi1: null}}\nmemory_mode: Sram_Only\n"


@pytest.mark.parametrize("base", ["ethos-u55-128", "ethos-u65-512"])
def test_hardware_with_one_port_is_timed_as_if_the_other_one_were_idle(base: str, tmp_path: Path) -> None:
    both = run_on(described(tmp_path, "both", base, "memory_mode: Sram_Only\n"))
    one = run_on(described(tmp_path, "one", base, ONE_PORT))
    np.testing.assert_array_equal(one.outputs[0], expected())
    assert one.report.totals == both.report.totals
    assert one.report.totals.axi1_read_beats == 0


@pytest.mark.parametrize(("name", "base", "other"), [
    ("fast-flash", "ethos-u55-256", Port.AXI0), ("small-sram", "ethos-u55-128", Port.AXI1),
])  # fmt: skip
def test_a_what_if_about_one_memory_leaves_the_other_port_as_it_is(name: str, base: str, other: Port) -> None:
    changed, usual = load_variant(f"examples/{name}").system, load_variant(base).system
    assert dict(changed.adapters) == {other: usual.adapters[other]}
    assert changed.memories[other] == usual.memories[other]


def test_there_are_three_what_if_variants() -> None:
    assert list_examples() == ("fast-flash", "small-sram", "wide-array")


def test_a_description_may_be_a_mapping(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "configs" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code, {})
    lines = [tuple(map(int, line.split())) for line in capsys.readouterr().out.splitlines()]
    assert [latency for latency, _ in lines] == [16, 64, 256]
    assert [cycles for _, cycles in lines] == sorted({cycles for _, cycles in lines})


WRONG_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "a value out of range": (
        {"extends": "ethos-u55-128", "shram": {"banks": 0}},
        r"^config: shram\.banks: must be",
    ),
    "an unknown base": ({"extends": "u55"}, r"^config: .*must be one of ethos-u55-32"),
    "an object": (
        {"extends": object()},
        r"^config: extends: must be a text, number, boolean or mapping, got a value of type object",
    ),
    "nothing": ({}, r"^config: accelerator: is missing"),
}


@pytest.mark.parametrize("case", WRONG_FIELDS)
def test_a_wrong_mapping_is_told_as_config(case: str) -> None:
    fields, message = WRONG_FIELDS[case]
    with pytest.raises(ConfigError, match=message):
        time_model(DIGITS, config=fields)


def test_a_file_for_hardware_of_ones_own_needs_its_description_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, compiled = tmp_path / "board.yaml", tmp_path / "board.tflite"
    config.write_text("extends: ethos-u55-128\nshram: {banks: 32}\n")
    assert main(["compile", str(DIGITS), "--config", str(config), "-o", str(compiled)]) == 0
    commands = (["run", "--timing-only"], ["verify"], ["explain"], ["disasm"], ["diff", str(DIGITS)])
    for command in commands:
        assert main([*command, str(compiled)]) == 1
        assert "32 KiB of SHRAM" in capsys.readouterr().err
        assert main([*command, str(compiled), "--config", str(config)]) == 0


@pytest.mark.parametrize("command", [["run", "--timing-only"], ["explain"]])
def test_a_compiled_file_that_is_timed_with_other_memories_says_so(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = tmp_path / "digits.tflite"
    memories = ["--memory-mode", "Sram_Only", "--system", "Deep_Embedded"]
    assert main(["compile", str(DIGITS), "-o", str(compiled), *memories]) == 0
    assert main([*command, str(compiled)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "compiled for ethos-u55-128 (Ethos_U55_Deep_Embedded, Sram_Only), timed for ethos-u55-128 (" in said
    assert main([*command, str(compiled), *memories]) == 0
    assert "compiled for" not in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--config", "board.yaml"], ["--set", "memory_mode=mode.yaml"]])
@pytest.mark.parametrize("command", [["check"], ["run", "--timing-only"], ["explain"], ["fix", "-o", "fixed.tflite"]])
def test_a_command_reads_a_description_once(
    command: list[str], options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("board.yaml").write_text("extends: ethos-u55-64\nmemory_mode: mode.yaml\n")
    Path("mode.yaml").write_text("extends: Sram_Only\n")
    read: list[str] = []

    def read_and_note(path: Path) -> Document:
        read.append(path.name)
        return read_document(path)

    monkeypatch.setattr("npu.hardware.loader.read_document", read_and_note)
    assert main([command[0], str(ROOT / "examples" / "digits.tflite"), *command[1:], *options]) == 0
    assert [read.count(name) for name in ("board.yaml", "mode.yaml")] == [int(options[0] == "--config"), 1]
