"""The page docs/timing-accuracy.md: its tables and its words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import yaml

from benchmarks.timing_records import REASONS, RESOLUTION_CYCLES, Comparison, is_ideal, variant_of
from npu.hardware.catalogue import load_variant

PLATFORMS = (
    "FVP is Arm's Fixed Virtual Platform for Corstone, a closed simulator whose NPU counts cycles, not silicon; no pair of "
    "published measurements shows how far the two are apart on Ethos-U55 and Ethos-U65. The records are not part of this "
    "project; `benchmarks/timing_accuracy.py` describes the file that it takes. Platforms of the records compared: "
)

CONSTANTS = {
    "weight_decode_bits_per_cycle": ("bits / cycle", "compressed weights that the decoder of a core parses"),
    "operation_overhead_cycles": ("cycles", "from when nothing holds a kernel operation up any more to its first input fetch"),
    "weight_switch_cycles": ("cycles", "bubble of the MAC array from one set of weights to the next"),
    "core_input_bytes_per_cycle": ("bytes / cycle", "input and weights together that a core takes in"),
    "port_beat_cycles": ("cycles / beat", "what a data beat takes on a port with ideal memory"),
    "max_burst_bytes": ("bytes", "longest AXI burst"),
    "burst_hold_fraction": ("1", "part of a burst's beats for which it still occupies an outstanding slot"),
    "weight_window_bytes": ("bytes", "compressed weights that a core asks for ahead of their use"),
}
"""Unit and meaning of the constants of `configs/base` that the measurements decide."""

MONOTONE = (
    "Nothing in this model makes sure that more latency is slower: a request that comes later may fall otherwise into the "
    "adapter's windows, and no measurement shows whether hardware does the same. In sweeps of the flash's read latency from "
    "0 to 225 cycles in steps of 3, with and without the bandwidth caps, and of the flash's cap from 120 to 8 beats in "
    "steps of 2, on rnnoise and kws (as this compiler makes them) and Ethos-U55-128, no step made the job shorter."
)

UNEXPLAINED = (
    "What the measurements show and the model does not, and what was tried on it:\n\n"
    "- rnnoise on Ethos-U55-256 behind the adapters is 0 to 1,700 cycles slower than predicted, more behind 64 cycles of "
    "flash latency than behind 16. Tried without effect, or with a wrong one: commands that are fetched further ahead than "
    "one burst (up to 700 cycles less), the two inputs of an operation fetched one after the other (250 cycles more, and "
    "4,500 too many on Ethos-U65), bursts split at aligned addresses (6 more of 1,700), a second latency before the "
    "weights of every operation (400 cycles more, and 2,800 too many on Ethos-U65).\n"
    "- ad, kws and yolo on Ethos-U55-256 behind the adapters are 2 to 4 % slower than predicted; without them they agree "
    "to 1.6 %. Slots that are held until the last beat of a burst explain a third of it, but then removing the SRAM's "
    "bandwidth cap saves 25,000 cycles of ad_medium instead of the measured 36,000. A flash that passes six bursts per "
    "window instead of seven would fit kws and yolo, and make mobilenet_v2 on Ethos-U55-128 4.5 % too slow.\n"
    "- kws and yolo on Ethos-U65-512 without memory delays are 4 to 6 % slower than predicted; on Ethos-U65-256 they "
    "agree. The two cores lack 250 to 370 cycles per operation that one core does not need. Operations that wait for the "
    "end of the one before would explain these, and make yolo 3 % too slow with memory delays.\n"
    "- ad on Ethos-U65-256 is predicted 1.4 % too slow without and 3.2 % with memory delays.\n"
    "- yolo on Ethos-U55-32 is 0.8 % faster than the output unit of the block model allows.\n"
    "- A weight decoder of 36 bits per cycle, which would explain ad and mobilenet_v2 on Ethos-U65-256 as well as the "
    "input path of a core does, contradicts rnnoise: its weights pass at 45 bits per cycle on average, all other work "
    "counted in."
)

LEFT_OUT = (
    "For each model the constants below were chosen anew from the records of the other models (without the sweeps of the "
    "memories), and the records of the model itself were predicted with them: of all combinations of a coarse grid the one "
    "with the smallest mean error (`benchmarks/leave_one_out.py`). The other constants keep their values, because only a few "
    "records tell anything about each. Both families share the constants. The rules of the model were written with all "
    "measurements in view, which cannot be left out. A network of many small operators tells what the others do not: where "
    "rnnoise is left out, nothing bounds the overhead of an operation and little the decoder, and the choice ends at or near "
    "the border of the grid."
)

SWEEPS = (
    "Change of the total cycles when only the timing adapter changes, against the same model and target with the usual one. "
    f"Measured totals move in steps of {RESOLUTION_CYCLES:,} cycles and are up to one step above the cycles at work, so that a "
    "difference of two of them may be off by a step either way: `between` is the range that this leaves for the true change. "
    "`holds` says whether the prediction has the sign and 80 % of the size of the measured change; where it has not, how far "
    "it lies outside the range."
)

TARGETS = {"U55-32, -64, -128": (2.0, 6.0), "U55-256": (4.0, 10.0), "U65": (6.0, 12.0), "no memory delays": (3.0, 8.0)}
"""Goals in percent: mean and worst error of a group."""


def document(compared: list[Comparison], skipped: dict[str, int], left_out: list[str] | None = None) -> str:
    """The whole of docs/timing-accuracy.md."""
    worst = sorted((item for item in compared if item.error), key=lambda item: -abs(item.error))[:8]
    same = sum(item.is_same_binary is True for item in compared)
    platforms = Counter(str(item.record.get("platform", "an unknown platform")) for item in compared)
    parts = [
        "# Accuracy of the timing model",
        "Generated by `benchmarks/timing_accuracy.py`; do not edit. Predicted cycles against measured NPU-active cycles (total "
        f"cycles where a record has no others) of {len(compared)} of {len(compared) + sum(skipped.values())} records. {same} "
        f"of the compiled files are byte for byte the files that were measured. A difference of at most {RESOLUTION_CYCLES} "
        "cycles counts as none: the measured totals move in steps of that size.",
        PLATFORMS + ", ".join(f"`{name}` {count}" for name, count in platforms.most_common()) + ".",
        "Most of these records were also used to calibrate the constants whose `source` in `configs/base/*.yaml` says so: the "
        "figures say how well these physical constants fit all of them at once"
        + (", the table of left-out models how far a new model will be off" if left_out else ", not how far a new model is off")
        + ". Records "
        "of other compiler versions than 5.0.0 took no part in the calibration.",
        "\n".join(constant_table()),
        "Left out: "
        + "; ".join(f"{count} with {REASONS[reason]}" for reason, count in sorted(skipped.items(), key=lambda each: -each[1]))
        + ".",
        "## Error per target",
        "With the timing adapters of the measurement campaign, and without memory delays. The first three figures are the "
        "error band that reports print beside the total.",
        "\n".join(target_table(compared)),
        "## Error per group",
        "\n".join(group_table(compared)),
        *(["## Models that took no part in the calibration", LEFT_OUT, "\n".join(left_out)] if left_out else []),
        "## Traffic",
        "Differences of the beat counters, predicted minus measured.",
        "\n".join(traffic_table(compared)),
        "## Memory sensitivity",
        SWEEPS,
        "\n".join(sweep_table(compared)),
        MONOTONE,
        "## Known residuals",
        UNEXPLAINED,
        "## Records of guessed compiler versions",
        "The records state the release that was most likely used; the measured binaries are not known. They count in no mean.",
        "\n".join(record_table(item for item in compared if item.is_inferred)),
        "## Largest errors",
        "\n".join(record_table(worst)),
        "## All records",
        "\n".join(record_table(compared)),
    ]
    return "\n\n".join(parts) + "\n"


def constant_table() -> list[str]:
    """Rows of the constants that are calibrated: values, unit, meaning, and what decided them."""
    folder = Path(__file__).parents[1] / "configs" / "base"
    sources = {
        name: yaml.safe_load((folder / f"{name}.yaml").read_text())["timing"]["source"] for name in ("ethos-u55", "ethos-u65")
    }
    values = [load_variant(name).timing for name in ("ethos-u55-128", "ethos-u65-256")]
    rows = ["| constant | U55 | U65 | unit | meaning | source |", "|---|---|---|---|---|---|"]
    for name, (unit, meaning) in CONSTANTS.items():
        told = "; U65: ".join(sources[base][name] for base in sources if name in sources[base])
        u55, u65 = (getattr(timing, name) for timing in values)
        rows.append(f"| `{name}` | {u55:g} | {u65:g} | {unit} | {meaning} | {told} |")
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


def bands(compared: Iterable[Comparison]) -> dict[str, tuple[str, str, list[Comparison]]]:
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
    for name, (_, _, items) in bands(compared).items():
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
