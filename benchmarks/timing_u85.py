"""Ethos-U85 on the page docs/timing-accuracy.md: its constants, each network predicted without itself, and every record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.timing_records import Comparison, streams_of, variant_of
from npu.hardware.variant import Variant
from sim.timing import schedule

TEXT = (
    "The constants of Ethos-U85 (`configs/base/ethos-u85.yaml`) are those of Ethos-U65 where nothing else is known, "
    "and figures of Vela's public sources: rates of the output unit, sizes of its memories, windows of its readers. "
    "Three are chosen from these records, from a few values each: what a decoder brings to the MAC array in a cycle "
    "(8, 16 or 32 weights of 64, 128 or 256 bits), and how many bytes of input and weights the core takes in (9, 18, "
    "27 or 36; a core of Ethos-U65 takes 9). For each network they were chosen anew from the records of the others; "
    "its own were predicted with these. The rules (`docs/timing-model.md`) were written with all records in view.\n\n"
    "What is known to be wrong: rnnoise with few outstanding reads is much too slow, as the table says. What was measured "
    "there is what bursts of 160 bytes would take, or bursts of 128 bytes that no part of an adapter's window holds up; "
    "neither is what its registers say, and both were left alone. That half of the bytes that Vela's sources give for "
    "transfers are on their way at a time was found by kws and ad behind latencies of 500 and 1,000 cycles (18 % too "
    "fast with all of them), and is no prediction there."
)

CHOICES = tuple(product((8, 16, 32), (64, 128, 256), (9, 18, 27, 36)))
"""Weights, and bits of them, that a decoder brings in a cycle; bytes that the core takes in."""


@dataclass(frozen=True, slots=True)
class LeftOutNetwork:
    """A network, what the records of the others choose, and the errors of its own with that, by target."""

    model: str
    choice: tuple[int, int, int]
    errors: Mapping[str, list[float]]


def with_choice(variant: Variant, choice: tuple[int, int, int]) -> Variant:
    """The variant with other constants."""
    weights, bits, taken = choice
    decoders = variant.accelerator.weight_decoders
    timing = replace(
        variant.timing,
        weights_per_cycle=weights * decoders,
        weight_decode_bits_per_cycle=bits * decoders,
        core_input_bytes_per_cycle=taken,
    )
    return replace(variant, timing=timing)


def is_usual(item: Comparison) -> bool:
    """Whether a record is of the usual adapters, and of the very file that is timed here."""
    return not item.record.get("timing_adapter_change") and item.is_same_binary is not False


def leave_networks_out(compared: Sequence[Comparison]) -> list[LeftOutNetwork]:
    """One row for each network: the constants that the usual records of the others choose, and its own errors with them."""
    usual = [item for item in compared if is_usual(item)]
    errors = {choice: [_error(item, choice) for item in usual] for choice in CHOICES}
    rows = []
    for model in sorted({item.record["model"] for item in usual}):
        others = [k for k, item in enumerate(usual) if item.record["model"] != model]
        best = min(CHOICES, key=lambda choice: (sum(abs(errors[choice][k]) for k in others), choice))
        own: dict[str, list[float]] = defaultdict(list)
        for k, item in enumerate(usual):
            if item.record["model"] == model:
                own[item.record["accelerator"]].append(abs(errors[best][k]))
        rows.append(LeftOutNetwork(model, best, own))
    return rows


def _error(item: Comparison, choice: tuple[int, int, int]) -> float:
    variant = variant_of(item.record)
    changed = with_choice(variant, choice)
    totals = (
        schedule(operations, changed, stream_words=words).totals for operations, words in streams_of(item.compiled, variant)
    )
    return item.error_of(sum(one.npu_active_cycles for one in totals))


def errors_by_target(rows: Iterable[LeftOutNetwork]) -> dict[str, list[float]]:
    """All errors of networks left out, by target, the smallest array first."""
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for target, own in row.errors.items():
            errors[target] += own
    return dict(sorted(errors.items(), key=lambda error: int(error[0].rpartition("-")[2])))


def section(compared: Sequence[Comparison], rows: Sequence[LeftOutNetwork]) -> list[str]:
    """The parts of the page."""
    worst_first = sorted(compared, key=lambda item: -abs(item.error))
    usual = [abs(item.error) for item in compared if is_usual(item)]
    vela = [abs(item.vela_error) for item in compared if is_usual(item) and item.vela_error is not None]
    return [
        "## Ethos-U85",
        TEXT,
        "\n".join(left_out_rows(rows)),
        "\n".join(target_rows(rows)),
        f"With the shipped constants the mean error of these {len(usual)} records is {_mean(usual):.1f} %, the worst "
        f"{max(usual):.1f} %; Vela's estimates are {_mean(vela):.1f} % off, at worst {max(vela):.1f} %. All records, those "
        "with changed adapters or of another file too, the worst first; beats are predicted minus measured:",
        "\n".join(record_rows(worst_first)),
    ]


def left_out_rows(rows: Iterable[LeftOutNetwork]) -> list[str]:
    """Table of networks left out."""
    lines = ["| network left out | records | mean error | worst | weights, bits per decoder, bytes |", "|---|---|---|---|---|"]
    for row in rows:
        own = [error for found in row.errors.values() for error in found]
        chosen = ", ".join(map(str, row.choice))
        lines.append(f"| {row.model} | {len(own)} | {_mean(own):.1f} % | {max(own):.1f} % | {chosen} |")
    return lines


def target_rows(rows: Iterable[LeftOutNetwork]) -> list[str]:
    """Table of the same by target."""
    lines = ["| target | measurements of left-out models | mean error | worst |", "|---|---|---|---|"]
    for target, errors in errors_by_target(rows).items():
        lines.append(f"| {target} | {len(errors)} | {_mean(errors):.1f} % | {max(errors):.1f} % |")
    return lines


def record_rows(compared: Iterable[Comparison]) -> list[str]:
    """Table of records: cycles and beats."""
    titles = "record", "measured", "predicted", "error", "Vela's error", "SRAM beats", "EXT beats", "same binary"
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for item in compared:
        totals, record = item.totals, item.record
        beats = (
            (totals.axi0_read_beats + totals.axi0_write_beats, record.get("sram_rd_plus_wr_beats")),
            (totals.axi1_read_beats + totals.axi1_write_beats, record.get("ext_rd_plus_wr_beats")),
        )
        told = " | ".join("" if theirs is None else f"{ours - theirs:+,} of {theirs:,}" for ours, theirs in beats)
        vela = "" if item.vela_error is None else f"{item.vela_error:+.1f} %"
        same = {True: "yes", False: "no", None: ""}[item.is_same_binary]
        cycles = f"{item.measured:,} | {totals.npu_active_cycles:,} | {item.error:+.1f} % | {vela}"
        lines.append(f"| {item.name} | {cycles} | {told} | {same} |")
    return lines


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
