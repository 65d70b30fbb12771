"""The parts of the accuracy benchmark that need neither compiler nor measurements."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.calibration import CONSTANTS, Calibration, Case, Values, leave_one_out, pin_constants, start, with_constants
from benchmarks.timing_page import MEANINGS, group_table, sweep_table, sweep_verdict, target_table
from benchmarks.timing_records import Comparison, read_records, reason_to_skip, variant_of, version_of
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port
from npu.isa.operations import Block
from sim.timing import schedule
from sim.trace import JobTotals

from tests.support.timing import convolution

RECORD: dict[str, Any] = {
    "id": "one",
    "model": "net.tflite",
    "accelerator": "ethos-u55-128",
    "system_config": "Ethos_U55_High_End_Embedded",
    "memory_mode": "Shared_Sram",
    "vela_version": "5.0.0",
    "timing_adapter": "u55_high_end",
    "platform": "fvp",
    "total_cycles": 100_500,
    "active_cycles": 100_000,
    "vela_estimate": {"total": 110_000},
}


def comparison(cycles: int, **changes: Any) -> Comparison:
    return Comparison(RECORD | changes, JobTotals(cycles, cycles, 0, 0, 0, 0, 0, {}, {}), True)


def test_error_is_zero_within_the_resolution_and_signed_beyond() -> None:
    assert comparison(101_000).error == 0.0
    assert comparison(97_000).error == pytest.approx(-3.0)
    assert comparison(97_000).vela_error == pytest.approx(10.0)


def test_groups_follow_target_and_adapter() -> None:
    assert comparison(1).group == "U55-32, -64, -128"
    assert comparison(1, accelerator="ethos-u55-256").group == "U55-256"
    assert comparison(1, accelerator="ethos-u65-512").group == "U65"
    assert comparison(1, accelerator="ethos-u85-512").group == "U85"
    assert comparison(1, timing_adapter="off").group == "no memory delays"


def test_group_table_gives_mean_and_worst() -> None:
    rows = group_table([comparison(96_000), comparison(102_000)])
    assert rows[2] == "| U55-32, -64, -128 | 2 | 3.0 % | 4.0 % | 1 % | 5 % | 10.0 % | 10.0 % |"


def test_sweeps_are_changes_against_the_usual_adapter() -> None:
    usual = comparison(99_000)
    changed = comparison(150_000, id="two", total_cycles=160_500, timing_adapter_change={"EXT_BWCAP": 25})
    row = "| two | EXT_BWCAP 25 | +60,000 | +59,000 to +61,000 | +51,000 | yes |"
    assert sweep_table([usual, changed])[2:] == [row]


def test_a_sweep_is_judged_by_sign_and_size_and_by_the_steps_of_the_measurement() -> None:
    assert sweep_verdict(-10_000, -8_000) == "yes"
    assert sweep_verdict(-10_000, -7_900) == "no, 1,100 cycles outside"
    assert sweep_verdict(+10_000, -10_000) == "no, 19,000 cycles outside"
    assert sweep_verdict(-1_000, 0) == "within the steps"


def cases(*overheads: int) -> list[Case]:
    """A record for each overhead: what a machine with it takes for one small convolution, without memory delays."""
    variant = load_variant("ethos-u55-128", system="High_End_Embedded_Ideal")
    stream = [convolution(4, 4, 16, 32, Block(4, 4, 16))]

    def case(number: int, overhead: int) -> Case:
        aim = with_constants(variant, {"operation_overhead_cycles": overhead})
        cycles = schedule(stream, aim, stream_words=0).totals.npu_active_cycles
        name = f"model {number}"
        return Case(name, name, variant, [(stream, 0)], cycles, cycles, lambda predicted: 100 * (predicted - cycles) / cycles)

    return [case(number, overhead) for number, overhead in enumerate(overheads)]


def overhead_of(values: Values) -> float:
    return values[list(CONSTANTS).index("operation_overhead_cycles")]


def test_the_calibration_finds_the_constant_that_made_the_records() -> None:
    calibration = Calibration(cases(40, 40))
    assert overhead_of(calibration.choose([0, 1])) == 40
    assert calibration.misfit([0, 1], calibration.choose([0, 1])) < calibration.misfit([0, 1], start())


def test_a_left_out_model_is_predicted_with_the_constants_of_the_others() -> None:
    first, second = leave_one_out(Calibration(cases(40, 140)))
    assert (first.model, first.constants["operation_overhead_cycles"]) == ("model 0", 140)
    assert (second.model, second.constants["operation_overhead_cycles"]) == ("model 1", 40)
    assert min(first.errors["ethos-u55-128"]) > 10
    assert leave_one_out(Calibration(cases(40))) == []


def test_constants_that_no_record_pins_are_marked() -> None:
    calibration = Calibration(cases(80))
    values = tuple(80 if name == "operation_overhead_cycles" else value for name, value in zip(CONSTANTS, start(), strict=True))
    pinned = {constant.name: constant for constant in pin_constants(calibration, values)}
    overhead, window = pinned["operation_overhead_cycles"], pinned["weight_window_bytes"]
    assert (overhead.low, overhead.high, overhead.is_pinned) == (80, 80, (True, True))
    assert overhead.records == ("model 0",)
    assert overhead.by_model == {"model 0": (80, 80, 80)}
    assert window.by_model == {}
    assert window.is_pinned == (False, False)
    assert window.records == ()


def test_adapter_changes_reach_the_variant() -> None:
    variant = variant_of(RECORD | {"timing_adapter_change": {"SRAM_BWCAP": 2000, "EXT_RLATENCY": 16}})
    assert variant.system.adapters[Port.AXI0].beats_per_window == 2000
    assert variant.system.adapters[Port.AXI1].read_latency_cycles == 16
    assert not variant_of(RECORD | {"timing_adapter": "off"}).system.adapters
    assert not variant_of(RECORD | {"timing_adapter": False}).system.adapters  # a bare `off` in YAML


def test_sixty_four_outstanding_transactions_are_as_many_as_wanted() -> None:
    changes = {"EXT_MAXR": 64, "EXT_MAXW": 63}
    adapter = variant_of(RECORD | {"timing_adapter_change": changes}).system.adapters[Port.AXI1]
    assert (adapter.max_outstanding_reads, adapter.max_outstanding_writes) == (0, 63)


def test_a_target_with_ideal_memories_only_has_a_row() -> None:
    assert target_table([comparison(96_000, timing_adapter="off")])[2].startswith("| ethos-u55-128 | 0 | | | | | 1 | 4.0 % |")


def test_a_sweep_without_totals_is_judged_by_active_cycles() -> None:
    base = comparison(100_000, total_cycles=None)
    change = comparison(90_000, total_cycles=None, active_cycles=91_000, timing_adapter_change={"SRAM_BWCAP": 0})
    assert sweep_table([base, change])[2].split(" | ")[2:] == ["-9,000", "-10,000 to -8,000", "-10,000", "yes |"]


def test_an_id_cannot_break_a_table() -> None:
    assert comparison(1, id="a|b\n## c").name == "a\\|b ## c"


SKIPPED: dict[str, tuple[dict[str, Any], str]] = {
    "another_family": ({"accelerator": "ethos-u75-256"}, "target"),
    "no_version": ({"vela_version": "?"}, "compiler"),
    "empty_version": ({"vela_version": None}, "compiler"),
    "no_cycles": ({"total_cycles": None, "active_cycles": None}, "cycles"),
    "silicon": ({"platform": "silicon"}, "cycles"),
    "no_such_model": ({"model": "other.tflite"}, "model"),
    "another_model": ({"model_sha256": "00"}, "hash"),
}


@pytest.mark.parametrize("case", SKIPPED)
def test_records_that_cannot_be_compared_are_left_out(case: str, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(b"model")
    changes, reason = SKIPPED[case]
    assert reason_to_skip(RECORD | changes, tmp_path) == reason


def test_a_complete_record_is_used(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(b"model")
    record = RECORD | {"model_sha256": hashlib.sha256(b"model").hexdigest()}
    assert reason_to_skip(record, tmp_path) == ""


def test_a_version_may_carry_a_remark() -> None:
    stated = {
        "3.2.0": "3.2.0",
        "3.2.0 (inferred from release)": "3.2.0",
        "2.1.1?": "2.1.1",
        "5.1": "5.1.0",
        "?": "",
        "None": "",
    }
    assert {text: version_of(RECORD | {"vela_version": text}) for text in stated} == stated


def test_a_guessed_version_counts_in_no_mean() -> None:
    guessed = comparison(50_000, vela_version="5.0.0 (inferred)")
    assert guessed.is_inferred
    assert group_table([comparison(96_000), guessed])[2].startswith("| U55-32, -64, -128 | 1 | 4.0 % | 4.0 % |")
    assert target_table([comparison(96_000), guessed])[2].startswith("| ethos-u55-128 | 1 | 4.0 % | 4.0 % |")


@pytest.mark.parametrize(
    "record",
    {
        "no_mapping": "one",
        "nothing": {},
        "no_model": {key: value for key, value in RECORD.items() if key != "model"},
        "model_of_another_kind": RECORD | {"model": ["net.tflite"]},
        "unknown_system": RECORD | {"system_config": "Fast_Enough"},
        "unknown_memory_mode": RECORD | {"memory_mode": "Everywhere"},
        "unknown_change": RECORD | {"timing_adapter_change": {"EXT_COLOUR": 3}},
        "change_of_another_kind": RECORD | {"timing_adapter_change": [3]},
        "cycles_of_another_kind": RECORD | {"active_cycles": "many"},
        "negative_cycles": RECORD | {"total_cycles": -1},
        "cycles_that_are_true": RECORD | {"active_cycles": True},
        "beats_of_another_kind": RECORD | {"axi0_rd_beats": "many"},
        "estimate_of_another_kind": RECORD | {"vela_estimate": "398"},
        "estimate_without_total": RECORD | {"vela_estimate": {"npu": 3}},
        "arguments_of_another_kind": RECORD | {"vela_args": ["--optimise", "Size"]},
        "model_elsewhere": RECORD | {"model": "../net.tflite"},
        "adapter_that_is_not_shipped": RECORD | {"timing_adapter": "u55_deep_embedded"},
        "adapter_of_another_family": RECORD | {"timing_adapter": "u65_high_end"},
        "change_without_adapter": RECORD | {"timing_adapter": "off", "timing_adapter_change": {"SRAM_BWCAP": 5}},
        "change_on_no_port": RECORD | {"timing_adapter_change": {"FLASH_BWCAP": 5}},
        "window_that_never_opens": RECORD | {"timing_adapter_change": {"SRAM_PULSE_ON": 0}},
        "negative_change": RECORD | {"timing_adapter_change": {"SRAM_BWCAP": -1}},
        "part_of_a_beat": RECORD | {"timing_adapter_change": {"SRAM_BWCAP": 2000.5}},
        "change_beyond_reason": RECORD | {"timing_adapter_change": {"EXT_RLATENCY": 10**15}},
    }.values(),
)
def test_a_broken_record_is_left_out(record: Any, tmp_path: Path) -> None:
    assert reason_to_skip(record, tmp_path) == "fields"


@pytest.mark.parametrize("text", ["", "[", "records: 3", "records: []", "other: [1]", "\0"])
def test_a_file_without_records_ends_with_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "records.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"records\.yaml: must ") as caught:
        read_records(path)
    assert "\n" not in str(caught.value)


def test_every_calibrated_constant_is_in_the_document_with_its_value() -> None:
    text = (Path(__file__).parents[3] / "docs" / "timing-accuracy.md").read_text()
    timing = load_variant("ethos-u55-128").timing
    assert set(CONSTANTS) == set(MEANINGS)
    for name in CONSTANTS:
        assert f"| `{name}` | {getattr(timing, name):g} |" in text, name
