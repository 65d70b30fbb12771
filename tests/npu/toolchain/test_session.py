"""A session: hardware read once, models compiled once, shared by threads; results that other processes can have."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from benchmarks.many_models import keyword_network
from npu.compiler.block_config import BlockChooser
from npu.errors import ConfigError
from npu.hardware import catalogue
from npu.isa.decode import decode
from npu.isa.payload import parse_payload
from npu.reports.operator_map import stored_map
from npu.tflite.reader import read_model
from npu.toolchain import executable
from npu.toolchain.compile import compile_in_memory, compile_in_session
from npu.toolchain.session import Session

from tests.support.shared import shared_models

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS, PARTIAL = EXAMPLES / "digits.tflite", EXAMPLES / "digits_partial.tflite"
RESULTS = {
    "check": npu.check,
    "compile": npu.compile,
    "run": npu.run,
    "time_model": npu.time_model,
    "time_model with events": lambda model: npu.time_model(model, with_events=True),
    "explain": npu.explain,
    "fix": npu.fix,
    "verify": lambda model: npu.verify(npu.compile(model).content),
    "diff": lambda model: npu.diff(model, npu.compile(model).content),
    "load": npu.load,
}


@pytest.mark.parametrize("verb", RESULTS)
def test_results_can_be_sent_to_another_process(verb: str) -> None:
    result = RESULTS[verb](PARTIAL)
    copy = pickle.loads(pickle.dumps(result))
    assert type(copy) is type(result)
    report = getattr(result, "report", None)
    assert getattr(copy, "report", None) == report
    if verb.startswith("time_model"):
        assert copy.report_with_pmu() == result.report_with_pmu()
        assert [job.trace.bounds for job in copy.jobs] == [job.trace.bounds for job in result.jobs]


def test_a_session_can_be_sent_to_another_process() -> None:
    session = Session(npu.Hardware("ethos-u65-256", memory_mode="Sram_Only"), "v0.1")
    copy = pickle.loads(pickle.dumps(session))
    assert (copy.hardware, copy.profile, copy.variant) == (session.hardware, session.profile, session.variant)


def test_a_model_is_compiled_once_whatever_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def count(*arguments: object, **options: object) -> object:
        compiled.append(arguments[1])
        return compile_in_session(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(executable, "compile_in_session", count)
    session = Session()
    outputs = [npu.run(DIGITS, session=session).outputs for _ in range(2)]
    timed = npu.time_model(DIGITS.read_bytes(), session=session)
    assert compiled == ["digits.tflite"]
    assert np.array_equal(*(output[0] for output in outputs))
    assert timed.report.model == "<bytes>"
    assert timed.report.totals == npu.time_model(DIGITS).report.totals


def test_a_description_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "board.yaml"
    path.write_text("extends: ethos-u55-64\n")
    session = Session(npu.Hardware(config=path))
    first = session.variant
    path.write_text("extends: ethos-u55-32\n")
    assert session.variant is first
    assert npu.time_model(DIGITS, session=session).variant is first


def test_a_session_and_hardware_at_once_are_refused() -> None:
    for keywords in ({"target": "ethos-u55-32"}, {"memory_mode": "Sram_Only"}, {"profile": "v0.1"}):
        with pytest.raises(ConfigError, match="session: decides hardware, profile, goal and gates; leave target"):
            npu.time_model(DIGITS, session=Session(), **keywords)


TAKE_HARDWARE = (
    "check",
    "check_report",
    "compare",
    "compile",
    "diff",
    "explain",
    "export",
    "fix",
    "run",
    "time_model",
    "verify",
)


@pytest.mark.parametrize("keyword", ["memory_mode", "system"])
@pytest.mark.parametrize("verb", TAKE_HARDWARE)
def test_memory_mode_and_system_are_taken_everywhere(verb: str, keyword: str) -> None:
    """And looked at: one that is not shipped is named."""
    compiled = npu.compile(DIGITS).content
    models = {"verify": (compiled,), "diff": (DIGITS, compiled), "export": (compiled,)}.get(verb, (DIGITS,))
    with pytest.raises(ConfigError, match="nowhere"):
        getattr(npu, verb)(*models, **{keyword: "nowhere"})


def test_no_verb_takes_a_target_alone() -> None:
    verbs = {name for name in npu.__all__ if inspect.isfunction(getattr(npu, name))}
    taking = {name for name in verbs if "target" in inspect.signature(getattr(npu, name)).parameters}
    assert taking == set(TAKE_HARDWARE)


def test_blocks_that_were_chosen_for_another_model_are_those_of_a_session_of_its_own() -> None:
    random = np.random.default_rng(5)
    for target in ("ethos-u55-64", "ethos-u65-512"):
        session = Session(npu.Hardware(target))
        for model in [keyword_network(random) for _ in range(5)]:
            assert npu.compile(model, session=session).content == npu.compile(model, target=target).content
            assert npu.time_model(model, session=session).report == npu.time_model(model, target=target).report


def test_cycles_without_weights_are_near_and_say_what_they_are() -> None:
    random = np.random.default_rng(7)
    for target in ("ethos-u55-64", "ethos-u65-512"):
        session = Session(npu.Hardware(target))
        for model in (DIGITS.read_bytes(), *(keyword_network(random) for _ in range(3))):
            estimated = npu.time_model(model, session=session, with_weights=False).report
            exact = npu.time_model(model, session=session).report
            assert estimated.totals.total_cycles == pytest.approx(exact.totals.total_cycles, rel=0.02)
            assert estimated.totals.flash_bytes == pytest.approx(exact.totals.flash_bytes, rel=0.035)
            assert executable.SIZES_ARE_ESTIMATES in (estimated.notes or ())
            assert exact == npu.time_model(model, target=target).report


def test_a_stream_from_the_compiler_holds_what_its_words_say() -> None:
    random = np.random.default_rng(6)
    for target in ("ethos-u55-64", "ethos-u65-512"):
        variant = Session(npu.Hardware(target)).variant
        for content in (DIGITS.read_bytes(), PARTIAL.read_bytes(), *(keyword_network(random) for _ in range(4))):
            for partition in compile_in_memory(read_model(content), "model", BlockChooser(variant)).compiled_model.partitions:
                words = parse_payload(partition.payload).words
                assert np.array_equal(partition.stream.words, words)
                assert partition.stream.operations == decode(words, variant)


def test_eight_threads_share_a_session() -> None:
    """Each on a model of its own, and all on the same ones; every result is that of a session of its own."""
    targets = ("ethos-u55-32", "ethos-u65-512")
    sessions = {target: Session(npu.Hardware(target)) for target in targets}
    tasks = [(model, target) for model in (DIGITS, PARTIAL) for target in targets] * 4
    expected = {task: npu.run(task[0], target=task[1]) for task in set(tasks)}
    catalogue._load_shipped.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda task: npu.run(task[0], session=sessions[task[1]]), tasks))
    for task, result in zip(tasks, results, strict=True):
        assert result.report == expected[task].report
        assert all(map(np.array_equal, result.outputs, expected[task].outputs))


def test_a_model_that_was_compiled_here_is_the_one_in_its_file() -> None:
    """What runs without being written is what a board would read."""
    models = {path.stem: path for path in (DIGITS, PARTIAL)}
    shared = shared_models()
    models |= {name: shared[name] for name in ("mlperf_kws_int8", "micro_speech_int8", "dtln_int8") if name in shared}
    for target in ("ethos-u55-128", "ethos-u65-512"):
        variant = Session(npu.Hardware(target)).variant
        for name, path in models.items():
            source = read_model(path)
            compilation = compile_in_memory(source, name, BlockChooser(variant))
            written = read_model(compilation.written(name).content)
            assert facts(compilation.model) == facts(written)
            if stored_map(written, name) is not None:
                assert compilation.operators == stored_map(written, name)


def facts(value: Any) -> Any:
    """Records, their fields and arrays as plain values that can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple | list):
        return [facts(item) for item in value]
    if isinstance(value, Mapping):
        return {key: facts(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return type(value), {field.name: facts(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
