"""Breaks the source on purpose and counts what the tests notice: `make mutants SAMPLE=200`.

cosmic-ray makes the mutants; of those of each package a random sample is tried, in a copy of the sources, with the tests of its
folder, which must pass without it. Survivors are printed with what was changed.
`python -m tests.support.mutants --sample 20 --only npu/isa --seed 3 --results FILE` puts the counts into a file.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_RECORDS = "tests/npu/test_records.py"
PACKAGES = {
    "npu/compiler": ("tests/npu/compiler/test_decisions.py", f"{_RECORDS} tests/npu/compiler"),
    "npu/isa": (
        "tests/npu/isa/test_every_byte.py",
        "tests/npu/isa/test_every_field.py",
        f"{_RECORDS} tests/npu/isa tests/sim/verify",
    ),
    "sim/timing": ("tests/sim/timing/test_pinned.py", f"{_RECORDS} tests/sim/timing"),
    "constraints": ("tests/constraints/test_every_rule.py", f"{_RECORDS} tests/constraints"),
}
"""Package to the tests that must notice what is wrong with it: golden files, which notice most, then the others."""
MODELS = ROOT.parent / "shared"
LEAST_SCORE = 0.9
CPU_SECONDS = 120
"""Most processor time of a run of the tests of one mutant, which fails by then."""
SECONDS = 3600
"""Longest that they may take on a machine that does other things, too; nothing is known of a mutant by then."""
CONFIG = """
[cosmic-ray]
module-path = {module}
timeout = {seconds}.0
excluded-modules = []
test-command = {command}
[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True, slots=True)
class Score:
    """`mutants` are all of a package, `tried` the sample, `killed` those that a test noticed."""

    mutants: int
    tried: int
    killed: int


def copy_sources(target: Path) -> None:
    """The files that git knows, so that nothing of the checkout is touched."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in (item.decode() for item in listed if item):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def annotation_lines(path: Path) -> set[int]:
    """Lines of a module on which something is only said of types, which nothing evaluates."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        said = [getattr(node, "returns", None), getattr(node, "annotation", None)]
        for part in (part for part in said if isinstance(part, ast.expr)):
            lines |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return lines


def keep_sample(session: Path, count: int, seed: int) -> int:
    """Forget all but `count` mutants of a session, of those that are not on a line of annotations; how many those are."""
    with sqlite3.connect(session) as database:
        order = "order by module_path, operator_name, operator_args, occurrence"  # names of jobs are others every time
        rows = list(database.execute(f"select job_id, module_path, start_pos_row from mutation_specs {order}"))
        said = {module: annotation_lines(session.parent / module) for module in {module for _, module, _ in rows}}
        jobs = [(job,) for job, module, line in rows if line not in said[module]]
        database.execute("create temporary table kept (job_id text)")
        database.executemany("insert into kept values (?)", random.Random(seed).sample(jobs, min(count, len(jobs))))
        for table in ("mutation_specs", "work_items"):
            database.execute(f"delete from {table} where job_id not in (select job_id from kept)")
    return len(jobs)


def outcomes(session: Path) -> Iterator[tuple[str, str]]:
    """(outcome, difference) of every mutant that was tried to the end."""
    with sqlite3.connect(session) as database:
        yield from database.execute("select test_outcome, diff from work_results where output is null or output != 'timeout'")


def score(package: str, tests: Sequence[str], sample: int, seed: int) -> Score:
    """Try a sample of the mutants of a package; survivors are printed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        copy_sources(copy)
        if MODELS.is_dir():  # real models beside the checkout are tests, too
            (Path(folder) / MODELS.name).symlink_to(MODELS)
        config, session = copy / "mutants.toml", copy / "mutants.sqlite"
        tried = " && ".join(f"{sys.executable} -m pytest -q -x -p no:cacheprovider {paths}" for paths in tests)
        forgotten = f"find {package} -name __pycache__ -prune -exec rm -r {{}} +"  # two mutants of a second may be as long
        command = f"sh -c 'ulimit -t {CPU_SECONDS}; {forgotten}; {tried}'"
        config.write_text(CONFIG.format(module=json.dumps(package), seconds=SECONDS, command=json.dumps(command)))
        subprocess.run(shlex.split(command), cwd=copy, check=True)  # tests that fail anyway would kill every mutant
        tool = [sys.executable, "-m", "cosmic_ray.cli"]
        subprocess.run([*tool, "init", str(config), str(session)], cwd=copy, check=True)
        mutants = keep_sample(session, sample, seed)
        subprocess.run([*tool, "exec", str(config), str(session)], cwd=copy, check=True)
        found = list(outcomes(session))
    killed = sum(outcome == "KILLED" for outcome, _ in found)
    for outcome, difference in found:
        if outcome == "SURVIVED":
            print(difference)  # noqa: T201
    return Score(mutants, len(found), killed)


def put_result(path: Path, package: str, seed: int, found: Score) -> None:
    """Adds a sample to a results file; which survivors are equivalent, and why, is written there by hand."""
    results = json.loads(path.read_text()) if path.exists() else {}
    counts = {"seed": seed, "mutants": found.mutants, "tried": found.tried, "killed": found.killed}
    results.setdefault(package, []).append({**counts, "equivalent": [], "survived": []})
    path.write_text(json.dumps(results, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=50, help="mutants of each package (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: %(default)s)")
    parser.add_argument("--only", choices=PACKAGES, action="append", help="packages (default: all)")
    parser.add_argument("--results", type=Path, help="a JSON file to put the counts into")
    given = parser.parse_args()
    killed = tried = 0
    for package in given.only or PACKAGES:
        found = score(package, PACKAGES[package], given.sample, given.seed)
        print(f"{package}: {found.killed} of {found.tried} mutants killed, of {found.mutants}", flush=True)  # noqa: T201
        killed, tried = killed + found.killed, tried + found.tried
        if given.results is not None:
            put_result(given.results, package, given.seed, found)
    return int(killed < LEAST_SCORE * tried)


if __name__ == "__main__":
    sys.exit(main())
