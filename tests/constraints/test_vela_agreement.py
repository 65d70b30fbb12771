"""Placement by profile u55-u65 against Vela 5.2 on real int8 models, with a reason for each difference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from constraints.checker import check
from npu.graph.placement import Device
from npu.tflite.reader import read_model

from tests.support.shared import shared_models

# Operators that Vela takes and this profile does not: model -> operator -> (how many, why).
GAPS: dict[str, dict[str, tuple[int, str]]] = {
    "ad_medium_int8": {},
    "edsr_f32b5_int8": {},
    "keyword_scrambled_8bit": {
        "QUANTIZE": (2, "int16 and uint8 operands"),
        "SOFTMAX": (1, "int16 input"),
        "SVDF": (7, "not lowered"),
    },
    "kws_micronet_m_int8": {},
    "mcunet_vww_int8": {"TRANSPOSE": (1, "not lowered")},
    "micro_speech_int8": {},
    "mlperf_ad_int8": {},
    "mlperf_kws_int8": {},
    "mlperf_resnet8_int8": {},
    "mlperf_strww_int8": {},
    "mlperf_vww_int8": {},
    "mltk_kws_on_off_int8": {},
    "mnist_lstm_int8": {"UNIDIRECTIONAL_SEQUENCE_LSTM": (1, "not lowered")},
    "mobilenet_v2_nchw_int8": {"TRANSPOSE": (1, "not lowered")},
    "person_detect_int8": {},
    "rnnoise_int8": {},
    "shufflenet_person_int8": {"TRANSPOSE": (52, "not lowered")},
    "ssd_slim_face_int8": {},
    "yolo_fastest_face_192_int8": {},
}
# Operators that this profile takes and Vela does not.
SURPLUS = {"mcunet_vww_int8": ["MEAN"]}  # over the last dimension alone


def left_on_cpu_by_vela(path: Path, folder: Path) -> set[str]:
    """Names of the output tensors of operators that Vela leaves on the CPU."""
    command = [
        str(Path(sys.executable).with_name("vela")), str(path), "--accelerator-config", "ethos-u55-128",
        "--show-cpu-operations", "--output-dir", str(folder),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(re.findall(r"^\s+CPU: .+? = (.+?) \(outputs", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(set(GAPS) & set(shared_models())))
def test_the_placement_is_that_of_vela_but_for_known_gaps(name: str, tmp_path: Path) -> None:
    path = shared_models()[name]
    graph = read_model(path).graphs[0]
    theirs = left_on_cpu_by_vela(path, tmp_path)
    gaps: dict[str, int] = {}
    surplus = []
    for placed in check(read_model(path)).ops:
        names = {graph.tensors[index].name for index in graph.ops[placed.index].outputs}
        ours_on_cpu, theirs_on_cpu = placed.device is Device.CPU, bool(names & theirs)
        if ours_on_cpu and not theirs_on_cpu:
            gaps[placed.name] = gaps.get(placed.name, 0) + 1
        elif theirs_on_cpu and not ours_on_cpu:
            surplus.append(placed.name)
    assert gaps == {kind: count for kind, (count, _) in GAPS[name].items()}
    assert surplus == SURPLUS.get(name, [])
