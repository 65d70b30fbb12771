"""The page docs/timing-accuracy.md: its tables and its words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import timing_u85
from benchmarks.calibration import CONSTANTS, LeftOut, Pinned, Values
from benchmarks.timing_records import REASONS, RESOLUTION_CYCLES, Comparison, is_ideal, variant_of
from npu.hardware.catalogue import load_variant

PLATFORMS = (
    "FVP is Arm's Fixed Virtual Platform for Corstone, a closed simulator whose NPU counts cycles, not silicon; no pair of "
    "published measurements shows how far the two are apart on Ethos-U55 and Ethos-U65. The records are not part of this "
    "project; `benchmarks/timing_accuracy.py` describes the file that it takes. Platforms of the records compared: "
)

MEANINGS = {
    "weight_decode_bits_per_cycle": ("bits / cycle", "compressed weights that the decoder of a core parses"),
    "operation_overhead_cycles": ("cycles", "from when nothing holds a kernel operation up any more to its first input fetch"),
    "weight_switch_cycles": ("cycles", "bubble of the MAC array from one set of weights to the next"),
    "core_input_bytes_per_cycle": ("bytes / cycle", "input and weights together that a core takes in"),
    "port_beat_cycles": ("cycles / beat", "what a data beat takes on a port with ideal memory"),
    "burst_hold_fraction": ("1", "part of a burst's beats for which it still occupies an outstanding slot"),
    "weight_window_bytes": ("bytes", "compressed weights that a core asks for ahead of their use"),
    "nhwc_operand_factor": ("1", "output cycles of ADD and SUB with an operand in NHWC, relative to NHCWB16"),
}
"""Unit and meaning of the calibrated constants."""

UNEXPLAINED = (
    "What the measurements show and the model does not, and what was tried on it:\n\n"
    "- Removing the cap of the SRAM saves ad on Ethos-U65-512 three times what was measured, and kws on both targets twice. "
    "An adapter that works as its registers read, burst by burst with a count that starts anew with each window, predicts "
    "ad and kws on Ethos-U65-512 and kws on Ethos-U55-256 to 1,500 cycles, but ad on Ethos-U55-256 at 60 % of what was "
    "measured, and it makes four of five networks on Ethos-U55-256 1 to 3 % too fast: something there costs what the model "
    "puts down to the cap. Bursts of 16 or 64 bytes instead of 32 were tried on it and do not explain it.\n"
    "- rnnoise on Ethos-U65-256 behind the adapters is predicted 2,800 cycles (4.4 %) too fast, mobilenet_v2 2.7 % too slow "
    "in its cascades. The moments at which addresses of the DRAM do not pass are taken in the mean: the phase of the "
    "windows is not known, and each takes up to 1,000 cycles. Burst by burst, with windows that begin at some moment, "
    "rnnoise is 0.8 to 3.6 % too fast and mobilenet_v2 4.6 % too slow.\n"
    "- What may be ahead of a cap (docs/timing-model.md, Ports) follows from how an adapter works, but was chosen among "
    "other forms with all records in view, after 16 cycles of latency of the flash had been predicted to save rnnoise 677 "
    "cycles, of 1,000 to 3,000 that were measured. The same rule brings the rows of the halved cap of the SRAM, which were "
    "1 to 15 % too large, to within 6 %. Rejected: less ahead at the flash alone (fits the row, but delays bursts that no "
    "adapter would); windows burst by burst at the flash and the DRAM (fit the flash best, but make kws on Ethos-U65-512 9 "
    "% too slow, and better machines slower by up to a window); slots that are free again only when the last data have "
    "passed (fits Ethos-U55-256 to 1 %, but 14 steps to better machines then cost more than 0.1 %, where 6 do now).\n"
    "- That an ADD or SUB with an operand in NHWC takes half as long again is measured, not derived: see the table below."
)

RIVALS = (
    "Cycles that are missing without the rule of NHWC operands (measured minus predicted), what the rule adds, and what "
    "its rival adds: an output unit that works in groups of 8 channels (`output_depth` of "
    "`npu/machine/kernels/output_unit.py` rounded up to 8). The rival alone is excluded: of what is missing on "
    "Ethos-U55-256 and U65-256 it explains 4 to 52 %, of the older stream 19 %. A fit of both together to all records "
    "without memory delays gives the rule a weight of 0.73 (standard error 0.12) and the rival 0.31 (0.15), so that "
    "something of it may be true besides. Nor does the unit take the rate of 32-bit operands for them: it is 1.5 times "
    "that of ADD on Ethos-U55-256, half of it on Ethos-U55-32. One ADD is 32 x 32 x 16, of which both layouts are the "
    "same bytes: it is not traffic. The factor reads as a third pass of the multiplier: ADD and SUB take two passes of what "
    "MUL takes one of on every target (3, 1.5, 0.75, 0.375 and 0.1875 cycles an element), with such an operand three; 1.25 and "
    "1.75 do not fit. What the third pass does is published nowhere.\n"
    "\n"
    "| record | missing | NHWC operands | groups of 8 channels |\n"
    "|---|---|---|---|\n"
    "| x1off_vww4_u55_32 | 125,043 | 126,720 | 142,237 |\n"
    "| x1off_vww4_u55_64 | 48,803 | 63,360 | 62,533 |\n"
    "| x1off_vww4_u55_128 | 31,464 | 31,680 | 29,631 |\n"
    "| x1off_vww4_u55_256 | 18,858 | 15,840 | 7,121 |\n"
    "| x1off_vww4_u65_256 | 16,634 | 15,840 | 8,597 |\n"
    "| x1off_vww4_u65_512 | 13,296 | 11,520 | 10,006 |\n"
    "| x1off_yolof_u55_32 | 126,396 | 110,592 | 148,318 |\n"
    "| x1off_yolof_u55_64 | 68,812 | 55,296 | 74,017 |\n"
    "| x1off_yolof_u55_256 | 24,469 | 13,824 | 1,078 |\n"
    "| x1off_yolof_u65_512 | 25,630 | 13,824 | 17,138 |\n"
    "| mlek_vww_2111 (older Vela, adapters) | 49,189 | 33,937 | 9,206 |"
)

LEFT_OUT = (
    "For each model all constants were chosen anew from the records of the other models (`benchmarks/calibration.py`: "
    "those of compute from the records without memory delays, those of memory from all), and its own records were "
    "predicted with them. The rules of the model were written with all measurements in view, which cannot be left out.\n\n"
    "The worst figure, that of rnnoise, is weak evidence. Without rnnoise only vww4 says much of `operation_overhead_cycles`; "
    "other forms of the calibration gave 3.7 to 17.8 %, and the form used here was settled after one of them had given 9.8 %. "
    "Another model of many small operations may be off by more.\n\n"
    "The error band that reports print is the second table: all errors of left-out models on a target, with and without memory "
    "delays. It is wider where nothing was measured: twice as wide with other memories than those of these records, and at "
    "worst by half of the cycles that go to operations of a kind that takes less than 1 % of the cycles of every network here "
    "(`configs/accuracy/timing.yaml` lists the kinds that were measured)."
)

PINNED = (
    "Both families share the constants, but for the longest burst. `chosen` is what the search gives for all records. "
    "`operation_overhead_cycles` is shipped below it: with 100 rnnoise without delays on Ethos-U55-32 is 4.0 % too slow, with "
    "90 no network without delays is more than 1.7 % off. `fits` is the interval in which the misfit of all records (the "
    "figure that the search makes small) grows by less than 0.2 points, the others held, among the values that are tried; "
    "`pinned by` are the records that lose most beyond it. An end that no record pins is marked. What each model says alone is "
    "the second table: a constant is as well known as models agree on it. No other record is a further "
    "witness of the overhead of operations: those with many small ones are of Ethos-U85, and of the same rnnoise."
)

SWEEPS = (
    "Change of the total cycles when only the timing adapter changes, against the same model and target with the usual one. "
    f"Measured totals move in steps of {RESOLUTION_CYCLES:,} cycles and are up to one step above the cycles at work, so that a "
    "difference of two of them may be off by a step either way: `between` is the range that this leaves for the true change. "
    "`holds` says whether the prediction has the sign and 80 % of the size of the measured change; where it has not, how far "
    "it lies outside the range. A change that is predicted too large holds, too; those stand under Known residuals."
)

TARGETS = {"U55-32, -64, -128": (1.0, 5.0), "U55-256": (2.5, 5.0), "U65": (3.0, 5.0), "no memory delays": (1.0, 3.0)}
"""Goals in percent: mean and worst error of a group."""


@dataclass(frozen=True, slots=True)
class Study:
    """What the calibration says: the shipped constants and those that it chooses, models left out, what pins each constant."""

    shipped: Values
    chosen: Values
    left_out: list[LeftOut]
    pinned: list[Pinned]
    of_u85: list[timing_u85.LeftOutNetwork]

    def errors_by_target(self) -> dict[str, list[float]]:
        """All errors of left-out models, by target."""
        errors: dict[str, list[float]] = {}
        for row in self.left_out:
            for target, own in row.errors.items():
                errors.setdefault(target, []).extend(own)
        return dict(sorted(errors.items(), key=lambda error: [int(part) for part in re.findall(r"\d+", error[0])]))


def by_family(compared: Iterable[Comparison]) -> tuple[list[Comparison], list[Comparison]]:
    """Records of Ethos-U55 and Ethos-U65, which share their constants, and of Ethos-U85."""
    found: tuple[list[Comparison], list[Comparison]] = [], []
    for item in compared:
        found[item.group == "U85"].append(item)
    return found


def document(everything: list[Comparison], skipped: dict[str, int], study: Study) -> str:
    """The whole of docs/timing-accuracy.md."""
    compared, of_u85 = by_family(everything)
    worst = sorted((item for item in compared if item.error), key=lambda item: -abs(item.error))[:8]
    same = sum(item.is_same_binary is True for item in everything)
    platforms = Counter(str(item.record.get("platform", "an unknown platform")) for item in everything)
    parts = [
        "# Accuracy of the timing model",
        "How far predicted cycles are from measured ones. Generated by `benchmarks/timing_accuracy.py`; do not edit.",
        "Predicted cycles against measured NPU-active cycles (total cycles where a record has no others) of "
        f"{len(everything)} of {len(everything) + sum(skipped.values())} records. {same} "
        f"of the compiled files are byte for byte the files that were measured. A difference of at most {RESOLUTION_CYCLES} "
        "cycles counts as none: the measured totals move in steps of that size. Ethos-U85 has a section of its own; everything "
        "else is of Ethos-U55 and Ethos-U65.",
        PLATFORMS + ", ".join(f"`{name}` {count}" for name, count in platforms.most_common()) + ".",
        "Left out: "
        + "; ".join(f"{count} with {REASONS[reason]}" for reason, count in sorted(skipped.items(), key=lambda value: -value[1]))
        + ".",
        "## Models that took no part in the calibration",
        LEFT_OUT,
        "\n".join(left_out_table(study.left_out)),
        "\n".join(band_table(study)),
        "## Constants",
        PINNED,
        "\n".join(constant_table(study)),
        "\n".join(witness_table(study)),
        "## Error per target",
        "With the shipped constants, which these records calibrated: with the timing adapters of the measurement campaign, and "
        "without memory delays.",
        "\n".join(target_table(compared)),
        *(timing_u85.section(of_u85, study.of_u85) if of_u85 else ()),
        "## Error per group",
        "\n".join(group_table(compared)),
        "## Traffic",
        "Differences of the beat counters, predicted minus measured.",
        "\n".join(traffic_table(compared)),
        "## Memory sensitivity",
        SWEEPS,
        "\n".join(sweep_table(compared)),
        "## Known residuals",
        UNEXPLAINED,
        "## Operands in NHWC, and a rival",
        RIVALS,
        "## Records of guessed compiler versions",
        "The records state the release that was most likely used; the measured binaries are not known. They count in no mean.",
        "\n".join(record_table(item for item in compared if item.is_inferred)),
        "## Largest errors",
        "\n".join(record_table(worst)),
        "## All records",
        "\n".join(record_table(compared)),
    ]
    return "\n\n".join(parts) + "\n"


def left_out_table(rows: Sequence[LeftOut]) -> list[str]:
    """Errors of each model with constants that were chosen without it."""
    titles = (
        "model left out",
        "records",
        "mean error",
        "worst",
        "mean as shipped",
        "worst as shipped",
        "constants chosen otherwise",
    )
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    every: list[float] = []
    for row in rows:
        errors, usual = ([item for own in found.values() for item in own] for found in (row.errors, row.shipped))
        every += errors
        cells = [f"{value:.1f} %" for value in (_mean(errors), max(errors), _mean(usual), max(usual))]
        lines.append("| " + " | ".join([row.model, str(len(errors)), *cells, _differing(row.constants)]) + " |")
    return [*lines, f"| all | {len(every)} | {_mean(every):.1f} % | {max(every):.1f} % | | | |"] if every else lines


def _differing(constants: Mapping[str, float]) -> str:
    usual = load_variant("ethos-u55-128").timing
    return ", ".join(f"`{name}` {value:g}" for name, value in constants.items() if value != getattr(usual, name))


def band_table(study: Study) -> list[str]:
    """The error band of each target, which reports print."""
    rows = ["| target | measurements of left-out models | mean error | worst |", "|---|---|---|---|"]
    for target, errors in study.errors_by_target().items():
        rows.append(f"| {target} | {len(errors)} | {_mean(errors):.1f} % | {max(errors):.1f} % |")
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def constant_table(study: Study) -> list[str]:
    """Rows of the calibrated constants: value, what the calibration would choose, within what it fits, and what pins it."""
    rows = ["| constant | value | chosen | fits | unit | meaning | pinned by |", "|---|---|---|---|---|---|---|"]
    for name, value, chosen, pinned in zip(CONSTANTS, study.shipped, study.chosen, study.pinned, strict=True):
        unit, meaning = MEANINGS[name]
        low, high = (
            f"{end:g}" if is_pinned else f"{end:g} (not pinned)"
            for end, is_pinned in zip((pinned.low, pinned.high), pinned.is_pinned, strict=True)
        )
        records = ", ".join(f"`{record}`" for record in pinned.records) or "no record by more than 0.5 %"
        rows.append(f"| `{name}` | {value:g} | {chosen:g} | {low} to {high} | {unit} | {meaning} | {records} |")
    bursts = (load_variant(target).timing.max_burst_bytes for target in ("ethos-u55-128", "ethos-u65-256"))
    told = "longest AXI burst, per family: driver default, and what transfers from DRAM need to reach the adapter's cap"
    return [*rows, f"| `max_burst_bytes` | {', U65 '.join(map(str, bursts))} | | | bytes | {told} | not calibrated |"]


def witness_table(study: Study) -> list[str]:
    """Rows of what each model alone says of the constants."""
    rows = ["| constant | value | what the records of one model alone fit best (and from where to where) |", "|---|---|---|"]
    for pinned, value in zip(study.pinned, study.shipped, strict=True):
        said = (
            f"{model.partition('_')[0].partition('-')[0]} {best:g} ({low:g} to {high:g})"
            for model, (low, best, high) in pinned.by_model.items()
        )
        rows.append(f"| `{pinned.name}` | {value:g} | {', '.join(said) or 'any value: no model'} |")
    return rows


def group_table(compared: Iterable[Comparison]) -> list[str]:
    """Rows of mean and worst error per group, the goal and Vela's error beside them."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for item in compared:
        if not item.record.get("timing_adapter_change") and not item.is_inferred:
            groups[item.group].append(item)
    rows = [
        "| group | records | mean error | worst | goal mean | goal worst | Vela's mean | Vela's worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (goal_mean, goal_worst) in TARGETS.items():
        errors = [abs(item.error) for item in groups[name]]
        vela = [abs(item.vela_error) for item in groups[name] if item.vela_error is not None]
        if errors:
            ours = f"{sum(errors) / len(errors):.1f} % | {max(errors):.1f} %"
            theirs = f"{sum(vela) / len(vela):.1f} % | {max(vela):.1f} %" if vela else " | "
            rows.append(f"| {name} | {len(errors)} | {ours} | {goal_mean:g} % | {goal_worst:g} % | {theirs} |")
    return rows


def usual_records(compared: Iterable[Comparison]) -> dict[str, tuple[str, str, list[Comparison]]]:
    """Per target: the system and memory mode of most records with the usual timing adapter, and those records."""
    found: dict[str, dict[tuple[str, str], list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    for item in compared:
        is_usual = not is_ideal(item.record) and not item.record.get("timing_adapter_change")
        if is_usual and not item.is_inferred:
            variant = variant_of(item.record)
            found[variant.name][variant.system.name, variant.memory_mode.name].append(item)
    most = {name: max(kinds.items(), key=lambda kind: len(kind[1])) for name, kinds in found.items()}
    return {name: (*kind, items) for name, (kind, items) in most.items()}


def mean_and_worst(items: list[Comparison]) -> tuple[float, float]:
    """Absolute errors in percent, to one digit."""
    errors = [abs(item.error) for item in items]
    return round(sum(errors) / len(errors), 1), round(max(errors), 1)


def target_table(compared: list[Comparison]) -> list[str]:
    """Rows of mean and worst error per target with its memories, Vela's estimate beside it, and without memory delays."""
    errors = ("records", "mean error", "worst")
    titles = ("target", *errors, "Vela's mean", "Vela's worst", *(f"no delays: {error}" for error in errors))
    rows = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    ideal: dict[str, list[Comparison]] = defaultdict(list)
    for item in compared:
        if is_ideal(item.record):
            ideal[item.record["accelerator"]].append(item)
    for name, (_, _, items) in usual_records(compared).items():
        mean, worst = mean_and_worst(items)
        vela = [abs(item.vela_error) for item in items if item.vela_error is not None]
        theirs = f"{sum(vela) / len(vela):.1f} % | {max(vela):.1f} %" if vela else " | "
        without = mean_and_worst(ideal[name]) if ideal[name] else None
        last = f"{len(ideal[name])} | {without[0]:.1f} % | {without[1]:.1f} %" if without else "0 | | "
        rows.append(f"| {name} | {len(items)} | {mean:.1f} % | {worst:.1f} % | {theirs} | {last} |")
        ideal.pop(name, None)
    for name, items in ideal.items():
        mean, worst = mean_and_worst(items)
        rows.append(f"| {name} | 0 | | | | | {len(items)} | {mean:.1f} % | {worst:.1f} % |")
    return rows


def traffic_table(compared: Iterable[Comparison]) -> list[str]:
    rows = ["| record | AXI0 read | AXI0 write | AXI1 read |", "|---|---|---|---|"]
    for item in compared:
        record, totals = item.record, item.totals
        pairs = (
            (totals.axi0_read_beats, record.get("axi0_rd_beats")),
            (totals.axi0_write_beats, record.get("axi0_wr_beats")),
            (totals.axi1_read_beats, record.get("axi1_rd_beats")),
        )
        if all(measured is not None for _, measured in pairs):
            cells = " | ".join(f"{ours - theirs:+d} of {theirs:,}" for ours, theirs in pairs)
            rows.append(f"| {item.name} | {cells} |")
    return rows


def sweep_table(compared: list[Comparison]) -> list[str]:
    defaults = {
        (item.record["model"], item.record["accelerator"], item.record["vela_version"]): item
        for item in compared
        if not item.record.get("timing_adapter_change") and not is_ideal(item.record)
    }
    rows = ["| record | change | measured | between | predicted | holds |", "|---|---|---|---|---|---|"]
    for item in compared:
        change = item.record.get("timing_adapter_change")
        base = defaults.get((item.record["model"], item.record["accelerator"], item.record["vela_version"]))
        if change and base is not None:
            what = ", ".join(f"{key} {value}" for key, value in change.items())
            totals = item.record.get("total_cycles"), base.record.get("total_cycles")
            measured = totals[0] - totals[1] if totals[0] and totals[1] else item.measured - base.measured
            predicted = item.totals.npu_active_cycles - base.totals.npu_active_cycles
            low, high = measured - RESOLUTION_CYCLES, measured + RESOLUTION_CYCLES
            cells = f"{measured:+,} | {low:+,} to {high:+,} | {predicted:+,} | {sweep_verdict(measured, predicted)}"
            rows.append(f"| {item.name} | {what} | {cells} |")
    return rows


def sweep_verdict(measured: int, predicted: int) -> str:
    """Whether a predicted change has the sign and 80 % of the size of the measured one, else how it lies to its range."""
    if measured * predicted >= 0 and abs(predicted) * 10 >= abs(measured) * 8:
        return "yes"
    outside = abs(predicted - measured) - RESOLUTION_CYCLES
    return f"no, {outside:,} cycles outside" if outside > 0 else "within the steps"


def record_table(compared: Iterable[Comparison]) -> list[str]:
    rows = ["| record | measured | predicted | error | Vela's error | same binary |", "|---|---|---|---|---|---|"]
    for item in compared:
        vela = "" if item.vela_error is None else f"{item.vela_error:+.1f} %"
        same = {True: "yes", False: "no", None: ""}[item.is_same_binary]
        cycles = f"{item.measured:,} | {item.totals.npu_active_cycles:,}"
        rows.append(f"| {item.name} | {cycles} | {item.error:+.1f} % | {vela} | {same} |")
    return rows
