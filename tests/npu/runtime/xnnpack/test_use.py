"""Switching the delegate on, its life beside interpreters, threads and profiling."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter, OpResolverType
from npu.runtime.misuse import InterpreterStateError, InterpreterValueError
from npu.runtime.operator import RuntimeOptions
from npu.runtime.xnnpack import threads as threads_module
from npu.runtime.xnnpack.auto import disable_by_default, enable_by_default
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.options import HalfPrecision, XnnpackOptions, default_options

from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.shared import ROOT
from tests.support.xnnpack import Layers, delegated, mobile_network, options, steps_apart

F32, INT8 = DType.FLOAT32, DType.INT8
CONTENT = mobile_network(blocks=2)


@pytest.fixture
def _by_default() -> Iterator[None]:
    enable_by_default(options(qs8=True))
    yield
    disable_by_default()


def delegates(interpreter: CpuInterpreter) -> list[str | None]:
    return [step["delegate"] for step in interpreter.execution_plan()]


@pytest.mark.seed("X-E-1")
def test_an_interpreter_option_applies_the_delegate_and_is_off_by_default() -> None:
    assert set(delegates(CpuInterpreter(model_content=CONTENT))) == {None}
    assert delegates(CpuInterpreter(model_content=CONTENT, options=RuntimeOptions(use_xnnpack=True))) == ["XnnpackDelegate"]


@pytest.mark.seed("X-E-2")
@pytest.mark.usefixtures("_by_default")
def test_a_process_wide_default_gives_every_interpreter_the_delegate_except_where_kernels_are_named() -> None:
    assert delegates(CpuInterpreter(model_content=CONTENT)) == ["XnnpackDelegate"]
    quantized = mobile_network(INT8, blocks=1)
    assert delegates(CpuInterpreter(model_content=quantized)) == ["XnnpackDelegate"]
    for resolver in (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        assert set(delegates(CpuInterpreter(model_content=CONTENT, experimental_op_resolver_type=resolver))) == {None}


@pytest.mark.seed("X-E-2")
def test_an_environment_variable_gives_every_interpreter_the_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    quantized = mobile_network(INT8, blocks=1)
    for value, floating, signed in (("1", True, False), ("qs8, qu8", True, True), ("0", False, False), ("", False, False)):
        monkeypatch.setenv("NPU_XNNPACK", value)
        assert ("XnnpackDelegate" in delegates(CpuInterpreter(model_content=CONTENT))) is floating
        assert ("XnnpackDelegate" in delegates(CpuInterpreter(model_content=quantized))) is signed
        named = CpuInterpreter(model_content=CONTENT, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        assert set(delegates(named)) == {None}


@pytest.mark.seed("X-E-2")
def test_an_unknown_name_in_the_environment_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_XNNPACK", "qs8,fast")
    with pytest.raises(ValueError, match=r"NPU_XNNPACK: must be 0, 1 or names of qs8, .*, got 'fast'"):
        CpuInterpreter(model_content=CONTENT)


@pytest.mark.seed("X-E-3")
def test_importing_one_module_registers_the_delegate() -> None:
    code = (
        "import npu.runtime.xnnpack.registered, npu.runtime.defaults as d;"
        "print([made.name() for made in d.default_delegates(1)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['XnnpackDelegate']"


@pytest.mark.seed("X-E-4", "X-E-7")
def test_the_low_level_order_is_options_delegate_modify_allocate_close() -> None:
    delegate = XnnpackDelegate(default_options())
    interpreter = CpuInterpreter(model_content=CONTENT)
    interpreter.modify_graph_with_delegate(delegate)
    inputs = random_inputs(CONTENT, 0)
    assert steps_apart(run(interpreter, inputs)[0], run_reference(CONTENT, inputs)[0]) <= 64
    interpreter.close()
    delegate.close()
    late = CpuInterpreter(model_content=CONTENT)
    late.allocate_tensors()
    with pytest.raises(InterpreterStateError, match="before allocate_tensors"):
        late.modify_graph_with_delegate(XnnpackDelegate())


@pytest.mark.seed("X-E-5", "X-E-10")
def test_options_come_from_the_defaults_function_with_one_thread() -> None:
    made = default_options()
    assert {field.name: getattr(made, field.name) for field in fields(made)} == {
        "num_threads": 1, "qs8": False, "qu8": False, "force_fp16": False, "variable_operators": False,
        "transient_indirection_buffer": False, "weights_cache": None, "half_precision": HalfPrecision.EMULATED,
    }  # fmt: skip
    with pytest.raises(TypeError, match="missing"):
        XnnpackOptions()  # type: ignore[call-arg]
    for count in (0, 65, True, 1.5):
        with pytest.raises(InterpreterValueError, match=r"num_threads must be in \[1, 64\], got"):
            replace(made, num_threads=count)
    wrong = {"qs8": "no", "force_fp16": 1, "half_precision": "none", "weights_cache": "file"}
    for name, value in wrong.items():
        with pytest.raises(InterpreterValueError, match=f"xnnpack options: {name} must be of type .*, got {value!r}"):
            replace(made, **{name: value})
    with pytest.raises(InterpreterValueError, match=r"options must be XnnpackOptions, got \{'qs8': True\}"):
        XnnpackDelegate({"qs8": True})  # type: ignore[arg-type]


@pytest.mark.seed("X-E-6")
def test_an_interpreter_whose_delegate_failed_runs_on_default_kernels_or_another_delegate() -> None:
    interpreter = CpuInterpreter(model_content=CONTENT)
    failing = XnnpackDelegate(options(force_fp16=True, half_precision=HalfPrecision.NONE))
    with pytest.raises(InterpreterError, match="forced fp16 must have a CPU"):
        interpreter.modify_graph_with_delegate(failing)
    assert set(delegates(interpreter)) == {None}
    interpreter.modify_graph_with_delegate(XnnpackDelegate())
    inputs = random_inputs(CONTENT, 0)
    assert steps_apart(run(interpreter, inputs)[0], run_reference(CONTENT, inputs)[0]) <= 64


@pytest.mark.seed("X-E-8")
def test_closing_the_delegate_before_its_interpreter_is_an_error() -> None:
    interpreter, delegate = delegated(CONTENT)
    with pytest.raises(InterpreterStateError, match="interpreter must be closed before the delegate"):
        delegate.close()
    interpreter.close()
    delegate.close()
    with pytest.raises(InterpreterError, match="must be open, it was closed"):
        CpuInterpreter(model_content=CONTENT, experimental_delegates=[delegate])


@pytest.mark.seed("X-E-9")
def test_interpreters_with_and_without_the_delegate_run_side_by_side() -> None:
    inputs = random_inputs(CONTENT, 1)
    plain, (fast, _) = CpuInterpreter(model_content=CONTENT), delegated(CONTENT)
    assert steps_apart(run(fast, inputs)[0], run(plain, inputs)[0]) <= 64


@pytest.mark.seed("X-E-11")
def test_the_number_of_threads_is_the_delegate_s_option_or_the_interpreter_s_argument_by_default() -> None:
    delegate = XnnpackDelegate(options(num_threads=3))
    CpuInterpreter(model_content=CONTENT, num_threads=1, experimental_delegates=[delegate])
    assert delegate.options.num_threads == 3
    enable_by_default()
    try:
        interpreter = CpuInterpreter(model_content=CONTENT, num_threads=2)
        assert [made.options.num_threads for made in interpreter._owned] == [2]  # type: ignore[attr-defined]
    finally:
        disable_by_default()


def wide_network(dtype: DType) -> bytes:
    """Few pixels and many channels, which threads share by blocks of channels."""
    net = Layers(dtype, (1, 7, 7, 60))
    net.conv(330)
    net.conv(100, 3)
    net.mean()
    net.dense(203)
    return net.build()


def test_threads_share_the_larger_operand_of_a_product() -> None:
    rows = np.zeros(4, r.JOB)
    rows["kind"] = r.GEMM_FLOAT, r.GEMM_FLOAT, r.GEMM_REAL, r.DEPTHWISE_FLOAT
    rows["rows"], rows["groups"] = (49, 12544, 1, 112), (80, 2, 63, 6)
    counts = [threads_module.share(row, 2, 6) for row in rows]
    assert rows["by_blocks"].tolist() == [True, False, True, False]
    for row, count in zip(rows, counts, strict=True):
        extent = row["groups"] if row["by_blocks"] else row["rows"]
        assert 1 < count <= 6
        assert row["chunk"] * (count - 1) < extent


@pytest.mark.seed("X-E-12")
@pytest.mark.parametrize("smallest", [1, None])
@pytest.mark.parametrize("make", [lambda dtype: mobile_network(dtype, blocks=3), wide_network], ids=["mobile", "wide"])
@pytest.mark.parametrize("dtype", [F32, INT8])
def test_results_are_the_same_bytes_at_any_number_of_threads(
    dtype: DType, make: Callable[[DType], bytes], smallest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if smallest is not None:
        monkeypatch.setattr(threads_module, "_SMALLEST_SHARED", smallest)
        monkeypatch.setattr(threads_module, "_SMALLEST_CHUNK", smallest)
    content = make(dtype)
    inputs = random_inputs(content, 2)
    expected = run(delegated(content, qs8=True)[0], inputs)[0].tobytes()
    for threads in (2, 3, 5):
        interpreter, delegate = delegated(content, qs8=True, num_threads=threads)
        for _ in range(3):
            assert run(interpreter, inputs)[0].tobytes() == expected
        interpreter.close()
        delegate.close()


@pytest.mark.seed("X-P-1")
@pytest.mark.parametrize("transient", [False, True])
def test_operators_inside_the_delegate_appear_in_the_profile(transient: bool) -> None:
    interpreter, _ = delegated(CONTENT, transient_indirection_buffer=transient)
    run(interpreter, random_inputs(CONTENT, 0))
    quiet = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    interpreter.start_profile()
    interpreter.invoke()
    records = interpreter.take_profile()
    *inside, last = records
    kinds = [op.kind for op in interpreter.model.graphs[0].ops]
    assert [(node, name) for _, node, name, _ in inside] == [(i, f"XNNPACK/{kind}") for i, kind in enumerate(kinds)]
    assert last[2] == "XnnpackDelegate"
    assert 0 < sum(seconds for *_, seconds in inside) <= last[3]
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), quiet)


@pytest.mark.slow
@pytest.mark.seed("X-E-12")
def test_results_are_the_same_without_dot_product_instructions(tmp_path: Path) -> None:
    content = mobile_network(INT8, blocks=2)
    inputs = random_inputs(content, 4)
    (tmp_path / "model.tflite").write_bytes(content)
    np.save(tmp_path / "input.npy", inputs[0])
    code = (
        "import sys, numpy as np; from tests.support.interpreters import run; from tests.support.xnnpack import delegated;"
        "from npu.native.cpu import current; assert not current().has_dot_product;"
        "folder = sys.argv[1]; content = open(folder + '/model.tflite', 'rb').read();"
        "np.save(folder + '/output.npy', run(delegated(content, qs8=True)[0], [np.load(folder + '/input.npy')])[0])"
    )
    plain = {"NPULAB_CPU": "x86-64", "NPULAB_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env={**os.environ, **plain}, cwd=ROOT)
    np.testing.assert_array_equal(np.load(tmp_path / "output.npy"), run_reference(content, inputs)[0])
