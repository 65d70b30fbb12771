"""Files of Vela, on the simulator, against LiteRT: `python benchmarks/compatibility.py FOLDER -o docs/compatibility.md`.

FOLDER keeps the other Vela versions (installed there on first use) and the results, so that an interrupted run goes on where it
stopped; delete `results.json` there to measure anew. Models come from beside the project (`tests/support/shared.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.errors import UserError
from npu.files import write_atomically
from npu.graph.dtype import DType
from npu.tflite.reader import read_model
from sim.container import is_compiled

from tests.support.compatibility import (
    TARGETS,
    VERSIONS,
    Result,
    compare,
    differing_operators,
    environment,
    inputs_of,
    reference,
)
from tests.support.litert import repaired
from tests.support.shared import shared_models

SEEDS = (1, 2)
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
SLOW = {"deeplabv3_dm05_uint8": "its resizes become tens of thousands of operations"}
"""Models that run with the installed Vela and one target only."""
Results = dict[str, dict[str, str]]


def quantised_models() -> Iterator[tuple[str, bytes]]:
    """Plain models with a quantised operator, small files first."""
    for name, path in sorted(shared_models().items(), key=lambda item: item[1].stat().st_size):
        try:
            model = read_model(path)
        except UserError:
            continue
        graph = model.graphs[0]
        kinds = {graph.tensors[index].dtype for op in graph.ops for index in op.outputs}
        if not is_compiled(model) and kinds & set(QUANTIZED):
            yield name, repaired(path.read_bytes())


def measure(name: str, model: bytes, folder: Path, results: Results, versions: tuple[str, ...]) -> None:
    """Fill `results` for one model, what is there already excepted; saved after each version."""
    missing = [(version, target) for version in versions for target in TARGETS if f"{name}|{version}|{target}" not in results]
    if name in SLOW:
        missing = [pair for pair in missing if pair == (VERSIONS[-1], "ethos-u55-128")]
    if not missing:
        return
    try:
        cases = [(inputs, reference(model, inputs)) for inputs in (inputs_of(model, seed) for seed in SEEDS)]
    except (RuntimeError, AssertionError) as error:
        for version, target in missing:
            results[f"{name}|{version}|{target}"] = asdict(Result("no reference", str(error)[:160]))
        save(results, folder)
        return
    operators: dict[str, str] = {}
    for version, target in missing:
        start = time.perf_counter()
        vela = environment(version, folder)
        try:
            result = compare(model, vela, target, cases)
        except UserError as error:
            result = Result("failed", str(error)[:300])
        if result.status == "differs" and version not in operators:
            try:
                found = differing_operators(model, vela, target, cases[0][0])
            except (UserError, RuntimeError) as error:
                found = {"not localised": str(error)[:200]}
            operators[version] = "; ".join(f"{kind} {note}" for kind, note in found.items())
        results[f"{name}|{version}|{target}"] = {**asdict(result), "operators": operators.get(version, "")}
        seconds = time.perf_counter() - start
        sys.stdout.write(f"{name:32} {version:7} {target:14} {result.status:8} {seconds:6.1f} s {result.note}\n")
        sys.stdout.flush()
        save(results, folder)


def save(results: Results, folder: Path) -> None:
    write_atomically(folder / "results.json", json.dumps(results, indent=1, sort_keys=True).encode())


def load(folder: Path) -> Results:
    path = folder / "results.json"
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    return found


def page(results: Results) -> str:
    """The document: one table of models by versions, the differences with their operators, what was left out."""
    names = sorted({key.split("|")[0] for key in results})
    lines = [HEADER, "| model | " + " | ".join(f"Vela {version}" for version in VERSIONS) + " |", "| --- " * 5 + "|"]
    for name in names:
        cells = [_cell({t: results.get(f"{name}|{version}|{t}", {}) for t in TARGETS}) for version in VERSIONS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "## Differences", ""]
    for key in sorted(results):
        result = results[key]
        name, version, target = key.split("|")
        if result["status"] in ("differs", "failed"):
            why = f"; operators: {result['operators']}" if result.get("operators") else ""
            lines.append(f"- {name}, Vela {version}, {target}: {result['status']}, {result['note']}{why}")
    lines += ["", "## Not compared", ""]
    notes = {(key.split("|")[0], value["status"], value["note"]) for key, value in results.items()}
    for name, status, note in sorted(notes):
        if status in ("refused", "no reference", "cpu"):
            lines.append(f"- {name}: {status}{': ' + note if note else ''}".replace("<", "&lt;"))
    lines += [f"- {name}: measured for Vela {VERSIONS[-1]}, ethos-u55-128 only: {why}" for name, why in SLOW.items()]
    return "\n".join(lines) + "\n"


def _cell(by_target: Mapping[str, Mapping[str, str]]) -> str:
    found = [by_target[target].get("status", "-") for target in TARGETS]
    if len(set(found)) == 1:
        return f"{found[0]} (all 6)" if found[0] in ("exact", "differs") else found[0]
    return ", ".join(f"{target.removeprefix('ethos-')} {status}" for target, status in zip(TARGETS, found, strict=True))


HEADER = """# Compatibility with compiled files of Vela

Generated by `python benchmarks/compatibility.py`; do not edit. Each model was compiled by several versions of Vela for the six
targets ethos-u55-32, -64, -128, -256, ethos-u65-256 and -512, with that version's default options, and run here unmodified on
two seeded inputs of the whole range. *exact*: every output value equals LiteRT's reference kernels (`BUILTIN_REF`), with
FULLY_CONNECTED in the hardware's rounding. *cpu*: Vela places no operator. *refused*: Vela makes no file. *no reference*:
LiteRT cannot run the source model. Operators named under a difference were cut out, fed with the reference's values and
compiled alone; their causes are in [exactness.md](exactness.md).
"""


def main() -> int:
    """Measure what is missing, write the page; 1 if our side failed anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--models", nargs="*", help="only these (default: all)")
    parser.add_argument("--versions", nargs="*", default=VERSIONS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = load(options.folder)
    for name, model in quantised_models():
        if options.models is None or name in options.models:
            measure(name, model, options.folder, results, tuple(options.versions))
    if options.output:
        write_atomically(options.output, page(results).encode())
    return int(any(result["status"] == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
