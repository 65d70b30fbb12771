"""The shipped delegates use the delegate interface and nothing else of the interpreter."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.compiler.block_config import BlockChooser
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.runtime.delegate import Context, Delegate, KernelRegistration, Status, as_delegate
from npu.runtime.dummy import create_dummy_delegate
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import default_options
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_in_memory
from sim.delegate import EthosUDelegate

from tests.support.sample_models import image_classifier
from tests.support.xnnpack import mobile_network

OFFERED = frozenset(name for name in vars(Context) if not name.startswith("_"))


class _Narrow:
    """A context that has the members of the interface only."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        assert name in OFFERED, f"a delegate must not use '{name}'"
        return getattr(self._context, name)

    def replace_node_subsets_with_delegate_kernels(
        self, registration: KernelRegistration, nodes: Any, delegate: Delegate
    ) -> Status:
        r = registration
        free = r.free
        narrow = replace(
            r,
            init=lambda context, params: r.init(_Narrow(context), params),
            prepare=lambda context, node: r.prepare(_Narrow(context), node),
            invoke=lambda context, node: r.invoke(_Narrow(context), node),
            free=None if free is None else lambda context, data: free(_Narrow(context), data),
        )
        return self._context.replace_node_subsets_with_delegate_kernels(narrow, nodes, delegate)


class _Behind(Delegate):
    """Shows a delegate narrow contexts."""

    def __init__(self, inner: Delegate) -> None:
        self._inner = inner
        self.flags = inner.flags

    def prepare(self, context: Context) -> Status:
        return self._inner.prepare(_Narrow(context))

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        return self._inner.copy_from_buffer_handle(_Narrow(context), buffer_handle, tensor)


def _xnnpack() -> Delegate:
    return as_delegate(XnnpackDelegate(replace(default_options(), qs8=True)))


def _compiled() -> bytes:
    return (
        compile_in_memory(read_model(image_classifier()), "classifier", BlockChooser(load_variant("ethos-u55-128")))
        .written("classifier")
        .content
    )


CASES = {
    "dummy": (create_dummy_delegate, mobile_network),
    "xnnpack in float": (_xnnpack, mobile_network),
    "xnnpack in int8": (_xnnpack, lambda: mobile_network(DType.INT8)),
    "simulated NPU": (lambda: as_delegate(EthosUDelegate()), _compiled),
}


def _run(content: bytes, delegate: Delegate) -> tuple[CpuInterpreter, list[np.ndarray]]:
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    generator = np.random.default_rng(3)
    for detail in interpreter.get_input_details():
        drawn = generator.integers(-100, 100, detail["shape"])
        interpreter.set_tensor(detail["index"], drawn.astype(detail["dtype"]))
    interpreter.start_profile()
    interpreter.invoke()
    interpreter.take_profile()
    return interpreter, [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.seed("D-C-1", "D-S-9")
@pytest.mark.parametrize("name", CASES)
def test_delegates_run_with_the_members_of_the_interface_alone(name: str) -> None:
    make, model = CASES[name]
    content = model()
    interpreter, narrow = _run(content, _Behind(make()))
    assert any(step["replaces"] for step in interpreter.execution_plan())
    interpreter.close()
    for ours, reference in zip(narrow, _run(content, make())[1], strict=True):
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.seed("D-C-1")
@pytest.mark.parametrize(
    "module", ["npu.runtime.dummy", "npu.runtime.xnnpack_plugin", "npu.runtime.xnnpack.auto", "sim.plugin"]
)
def test_delegates_load_nothing_of_the_interpreter(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(name for name in sys.modules if name.startswith('npu.runtime.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "npu.runtime.delegate" in loaded
    assert not {"npu.runtime.interpreter", "npu.runtime.subgraph", "npu.runtime.signature"}.intersection(loaded)
