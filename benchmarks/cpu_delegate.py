"""How fast the XNNPACK-like CPU delegate is, beside LiteRT with XNNPACK, in one process.

    python benchmarks/cpu_delegate.py [MODEL.tflite ...] [--threads 1 2] [--rounds 40] [--busy 0] [--profile] [--avx2]

Without models: a MobileNetV2 with random weights in float32 and int8, and what of the usual test networks lies beside the
project. Constant half-precision weights that a model unpacks with DEQUANTIZE are made float32 constants first, for both.
Printed as a table: medians in milliseconds, their ratio, and the ratio of the minima, which a busy machine
disturbs least. Rounds alternate between the two. Before each, nothing runs until the threads of the other one, which wait for
more work on a processor for a while, are asleep; then it runs unmeasured until its own threads and the caches are ready.
With --busy, so many other processes compute meanwhile, at a lower priority. With --avx2, and NPULAB_CPU=avx2 in the
environment, both sides use kernels for AVX2 alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter as LiteRt

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contestants import prepare
from benchmarks.limited_peer import limit_to_avx2
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import default_options
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs
from tests.support.shared import shared_models
from tests.support.xnnpack import Layers

USUAL = (
    "mlperf_vww_float", "blazeface_fp16w", "kwt1_float", "mobilenet_v2_1.0_224_INT8", "mlperf_vww_int8", "mlperf_resnet8_int8",
    "mlperf_kws_int8", "mlperf_ad_int8", "person_detect_int8", "kws_micronet_m_int8", "mobilenet_v1_025_128_uint8",
)  # fmt: skip
PAUSE_SECONDS, READY_SECONDS = 0.02, 0.03
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repeats and first stride of MobileNetV2's stages."""


def mobilenet(dtype: DType) -> bytes:
    """MobileNetV2 for 224x224 images and 1000 classes, with random weights."""
    net = Layers(dtype, (1, 224, 224, 3))
    net.conv(32, 3, 2)
    for expansion, channels, repeats, first in BLOCKS:
        for repeat in range(repeats):
            start, before, stride = net.at, net.shape[3], first if repeat == 0 else 1
            if expansion > 1:
                net.conv(before * expansion)
            net.depthwise(3, stride)
            net.conv(channels, activation=FusedActivation.NONE)
            if stride == 1 and before == channels:
                net.add(start)
    net.conv(1280)
    net.mean()
    net.dense(1000)
    return net.build()


def with_float_weights(content: bytes) -> bytes:
    """The model with constants in place of DEQUANTIZE operators on half-precision constants."""
    model = read_model(content)
    graph = model.graphs[0]
    tensors, ops = list(graph.tensors), []
    for op in graph.ops:
        source = tensors[op.inputs[0]] if op.kind == "DEQUANTIZE" and op.inputs[0] != ABSENT else None
        if source is not None and source.dtype is DType.FLOAT16 and source.data is not None:
            target = op.outputs[0]
            tensors[target] = replace(tensors[target], data=source.data.astype(np.float32))
        else:
            ops.append(op)
    return write_model(replace(model, graphs=(replace(graph, tensors=tuple(tensors), ops=tuple(ops)), *model.graphs[1:])))


def milliseconds(run: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def ready(interpreter: Any, content: bytes) -> Any:
    """The interpreter, allocated, with random inputs, run once."""
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), random_inputs(content, 0), strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Others that want a processor all the time."""
    command = ["nice", sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as others:
        for _ in range(count):
            others.callback(subprocess.Popen(command).kill)
        yield


def measure(name: str, content: bytes, threads: int, rounds: int, *, profile: bool) -> str:
    """One line of results, and lines of the profile."""
    delegate = XnnpackDelegate(replace(default_options(), num_threads=threads, qs8=True, qu8=True))
    ours = ready(CpuInterpreter(model_content=content, experimental_delegates=[delegate]), content)
    theirs = ready(LiteRt(model_content=content, num_threads=threads), content)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for who, interpreter in (("ours", ours), ("theirs", theirs)):
            prepare(interpreter.invoke, PAUSE_SECONDS, READY_SECONDS)
            times[who].append(milliseconds(interpreter.invoke))
    mine, other = (float(np.median(times[key])) for key in ("ours", "theirs"))
    least = min(times["ours"]) / min(times["theirs"])
    line = f"| {name:30} | {threads:7} | {mine:11.3f} | {other:10.3f} | {mine / other:5.2f} | {least:9.2f} |\n"
    lines = [line, *(_profile(ours) if profile else ())]
    ours.close()
    delegate.close()
    return "".join(lines)


def _profile(interpreter: CpuInterpreter) -> list[str]:
    interpreter.start_profile()
    interpreter.invoke()
    sums: dict[str, list[float]] = defaultdict(list)
    for _, _, kind, seconds in interpreter.take_profile():
        sums[kind].append(seconds * 1e3)
    rows = sorted(sums.items(), key=lambda row: -sum(row[1]))
    return [f"    {kind:36} {len(values):3} {sum(values):9.3f} ms\n" for kind, values in rows[:8]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--busy", type=int, default=0, help="other processes that compute meanwhile")
    parser.add_argument("--profile", action="store_true", help="also print the operators that take the most time")
    parser.add_argument("--avx2", action="store_true", help="leave the peer kernels for AVX2 alone")
    options = parser.parse_args()
    if options.avx2:
        if os.environ.get("NPULAB_CPU") != "avx2":
            parser.error("--avx2: NPULAB_CPU=avx2 must be in the environment, for kernels are chosen before")
        limit_to_avx2()
    contents = {path.name: path.read_bytes() for path in options.models}
    if not contents:
        contents = {f"MobileNetV2 {dtype} (random)": mobilenet(dtype) for dtype in (DType.FLOAT32, DType.INT8)}
        contents |= {name: shared_models()[name].read_bytes() for name in USUAL if name in shared_models()}
    sys.stdout.write(f"| {'model':30} | threads | delegate ms | XNNPACK ms | ratio | of minima |\n|---|---|---|---|---|---|\n")
    with busy_processes(options.busy):
        for name, content in contents.items():
            for threads in options.threads:
                sys.stdout.write(measure(name, with_float_weights(content), threads, options.rounds, profile=options.profile))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
