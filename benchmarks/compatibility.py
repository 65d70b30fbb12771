"""Files of Vela, on the simulator, against LiteRT: `python benchmarks/compatibility.py FOLDER -o docs/compatibility.md`.

FOLDER keeps the other Vela versions (installed there on first use), the files they made, and the results, one file per model.
A result counts as long as the code that executes files is what it was measured with; an interrupted run goes on where it
stopped, and several runs may share the folder if each has models of its own (`--models`). The page names the models with
results that do not count. Models come from beside the project (`tests/support/shared.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.errors import UserError
from npu.files import write_atomically
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.tflite.reader import read_model

from tests.support.compatibility import (
    TARGETS,
    VERSIONS,
    Array,
    Result,
    compile_with,
    differing_operators,
    environment,
    examine,
    reference,
)
from tests.support.litert import random_inputs, repaired
from tests.support.shared import shared_models

SEEDS = (1, 2)
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
SLOW = {"deeplabv3_dm05_uint8": "its resizes become tens of thousands of operations"}
"""Models that run with the installed Vela and one target only."""
ONLY = (VERSIONS[-1], "ethos-u55-128")
ROOT = Path(__file__).parents[1]
CODE = ("sim", "npu/isa", "npu/numerics", "npu/runtime", "tests/support/litert.py", "tests/support/compatibility.py")
"""What decides a result, Vela and LiteRT apart."""
Results = dict[str, dict[str, str]]
Cases = Sequence[tuple[list[Array], list[Array]]]
"""Inputs and expected outputs."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the files of some versions differ for a model; `section` is a heading's anchor in docs/exactness.md."""

    model: str
    versions: tuple[str, ...]
    text: str
    section: str


CAUSES = (
    Cause(
        "dtln_int8",
        VERSIONS,
        "UNIDIRECTIONAL_SEQUENCE_LSTM: Vela computes the gates by the hardware's SIGMOID and TANH, LiteRT by a polynomial",
        "lstm-gates",
    ),
    Cause(
        "okay_nabu_stream_int8",
        ("5.0.0", "5.2.0"),
        "Vela puts CALL_ONCE, which sets the variables, behind the READ_VARIABLEs: the first inference reads zeros",
        "variables-read-before-they-are-set",
    ),
    Cause(
        "okay_nabu_stream_int8",
        ("4.2.0",),
        "STRIDED_SLICE of an output of SPLIT_V: Vela leaves the first row of the slice out and reads from row 0",
        "slice-of-a-split",
    ),
)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Of the sources below `CODE`."""
    total = hashlib.sha256()
    for part in CODE:
        path = ROOT / part
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(str(source.relative_to(ROOT)).encode() + b"\0" + source.read_bytes())
    return total.hexdigest()[:16]


def quantized_models() -> Iterator[tuple[str, bytes]]:
    """Plain models with a quantized operator, small files first."""
    for name, path in sorted(shared_models().items(), key=lambda item: item[1].stat().st_size):
        try:
            model = read_model(path)
        except UserError:
            continue
        graph = model.graphs[0]
        kinds = {graph.tensors[index].dtype for op in graph.ops for index in op.outputs}
        if not is_compiled(model) and kinds & set(QUANTIZED):
            yield name, repaired(path.read_bytes())


def measure(name: str, model: bytes, folder: Path, versions: Iterable[str]) -> None:
    """Fill the results of one model, what counts already excepted; saved after each target."""
    results = load(folder, name)
    missing = [
        (version, target)
        for version in versions
        for target in TARGETS
        if results.get(f"{name}|{version}|{target}", {}).get("code") != code_digest()
    ]
    if name in SLOW:
        missing = [pair for pair in missing if pair == ONLY]
    if not missing:
        return
    try:
        cases = [(inputs, reference(model, inputs)) for inputs in (random_inputs(model, seed) for seed in SEEDS)]
    except (RuntimeError, AssertionError) as error:
        for version, target in missing:
            results[f"{name}|{version}|{target}"] = entry(Result("no reference", str(error)[:160]))
        save(results, folder, name)
        return
    operators: dict[str, str] = {}
    for version, target in missing:
        start = time.perf_counter()
        vela = environment(version, folder)
        result = judge(model, version, target, cases, folder)
        if result.status == "differs" and version not in operators and cause_of(name, version) is None:
            try:
                found = differing_operators(model, vela, target, cases[0][0])
            except (UserError, RuntimeError) as error:
                found = {"not localised": str(error)[:200]}
            operators[version] = "; ".join(f"{kind} {note}" for kind, note in found.items())
        results[f"{name}|{version}|{target}"] = {**entry(result), "operators": operators.get(version, "")}
        seconds = time.perf_counter() - start
        sys.stdout.write(f"{name:32} {version:7} {target:14} {result.status:8} {seconds:6.1f} s {result.note}\n")
        sys.stdout.flush()
        save(results, folder, name)


def judge(model: bytes, version: str, target: str, cases: Cases, folder: Path) -> Result:
    """Compile and compare."""
    try:
        content = compiled(model, version, target, folder)
    except RuntimeError as error:
        return Result("refused", str(error)[:160])
    try:
        return examine(content, cases)
    except UserError as error:
        return Result("failed", str(error)[:300])


def compiled(model: bytes, version: str, target: str, folder: Path) -> bytes:
    """The file of a Vela version, kept in the folder; RuntimeError if that Vela makes none."""
    digest = hashlib.sha256(model).hexdigest()[:16]
    path = folder / "compiled" / f"{digest}-{version}-{target}.tflite"
    if not path.exists():
        content = compile_with(environment(version, folder), model, target)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)
    return path.read_bytes()


def entry(result: Result) -> dict[str, str]:
    """A result as it is kept."""
    return {**asdict(result), "code": code_digest()}


def save(results: Results, folder: Path, name: str) -> None:
    (folder / "results").mkdir(exist_ok=True)
    write_atomically(folder / "results" / f"{name}.json", json.dumps(results, indent=1, sort_keys=True).encode())


def load(folder: Path, name: str = "*") -> Results:
    """The results, of one model or all, whatever code they were measured with."""
    found: Results = {}
    for path in sorted((folder / "results").glob(f"{name}.json")):
        kept: Results = json.loads(path.read_text())
        found |= kept
    return found


def cause_of(name: str, version: str) -> Cause | None:
    """The known cause of a difference."""
    return next((cause for cause in CAUSES if cause.model == name and version in cause.versions), None)


def page(results: Results, codes: Collection[str]) -> str:
    """The document: one table of models by versions, the differences with their causes, what was left out.

    Models with results of other code than `codes` are named.
    """
    names = sorted({key.split("|")[0] for key in results})
    lines = [HEADER, "| model | " + " | ".join(f"Vela {version}" for version in VERSIONS) + " |", "| --- " * 5 + "|"]
    for name in names:
        cells = [_cell({t: results.get(f"{name}|{version}|{t}", {}) for t in TARGETS}) for version in VERSIONS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "## Differences", "", *_differences(results), "", "## Not compared", ""]
    lines += _not_compared(results)
    lines += [f"- {name}: measured for Vela {ONLY[0]}, {ONLY[1]} only: {why}" for name, why in SLOW.items()]
    earlier = sorted({key.split("|")[0] for key, value in results.items() if value.get("code") not in codes})
    if earlier:
        lines += ["", f"Measured with an earlier state of the code, in part at least: {', '.join(earlier)}."]
    return "\n".join(lines) + "\n"


def _not_compared(results: Results) -> list[str]:
    """One line per model and reason, with the versions of Vela if it is not the reason with all of them."""
    versions: dict[tuple[str, str, str], set[str]] = {}
    for key, value in results.items():
        if value["status"] in ("refused", "no reference", "cpu"):
            name, version, _ = key.split("|")
            versions.setdefault((name, value["status"], value["note"].partition(". ")[0].rstrip(".")), set()).add(version)
    lines = []
    for (name, status, note), held in sorted(versions.items()):
        which = "" if len(held) == len(VERSIONS) else f", Vela {', '.join(item for item in VERSIONS if item in held)}"
        lines.append(f"- {name}{which}: {status}{': ' + note if note else ''}".replace("<", "&lt;"))
    return lines


def _differences(results: Results) -> list[str]:
    """One row per model and cause."""
    rows: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for key in sorted(results):
        result = results[key]
        name, version, target = key.split("|")
        if result["status"] not in ("differs", "failed"):
            continue
        cause = cause_of(name, version) if result["status"] == "differs" else None
        operators = f"; {result['operators']}" if result.get("operators") else ""
        text = f"[{cause.text}](exactness.md#{cause.section})" if cause else f"not explained ({result['status']}){operators}"
        rows.setdefault((name, text, result["note"]), []).append((version, target))
    if not rows:
        return ["None."]
    lines = ["| model | Vela | targets | values | cause |", "| --- | --- | --- | --- | --- |"]
    for (name, text, note), places in rows.items():
        versions = ", ".join(version for version in VERSIONS if any(version == place for place, _ in places))
        targets = [target for target in TARGETS if any(target == place for _, place in places)]
        where = "all" if len(targets) == len(TARGETS) else ", ".join(item.removeprefix("ethos-") for item in targets)
        lines.append(f"| {name} | {versions} | {where} | {note} | {text} |")
    return lines


def _cell(by_target: Mapping[str, Mapping[str, str]]) -> str:
    found = [by_target[target].get("status", "-") for target in TARGETS]
    if len(set(found)) == 1:
        return f"{found[0]} (all 6)" if found[0] in ("exact", "differs") else found[0]
    return ", ".join(f"{target.removeprefix('ethos-')} {status}" for target, status in zip(TARGETS, found, strict=True))


HEADER = """# Compatibility with compiled files of Vela

Which files of which versions of Vela run here, and whether their outputs are exact. Generated by
`python benchmarks/compatibility.py`; do not edit. Each model was compiled by several versions of Vela for the six
targets ethos-u55-32, -64, -128, -256, ethos-u65-256 and -512, with that version's default options, and run here unmodified on
two seeded inputs of the whole range. *exact*: every output value equals LiteRT's reference kernels (`BUILTIN_REF`), with
FULLY_CONNECTED in the hardware's rounding. *cpu*: Vela places no operator. *refused*: Vela makes no file. *no reference*:
LiteRT cannot run the source model. [exactness.md](exactness.md) explains each kind of difference and names the test that proves
it; [models.md](models.md) says where the models come from.
"""


def main() -> int:
    """Measure what is missing, write the page; 1 if our side failed anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--models", nargs="*", help="only these (default: all)")
    parser.add_argument("--versions", nargs="*", default=VERSIONS)
    parser.add_argument("--code", nargs="*", help="only make the page; results of the code of these digests count")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.code is None:
        for name, model in quantized_models():
            if options.models is None or name in options.models:
                measure(name, model, options.folder, options.versions)
    results = load(options.folder)
    if options.output:
        write_atomically(options.output, page(results, options.code or [code_digest()]).encode())
    return int(any(result["status"] == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
