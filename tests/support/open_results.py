"""Models whose results LiteRT's reference kernels leave open: rows of docs/exactness.md."""

from __future__ import annotations

from npu.tflite.reader import read_model


def looks_behind_a_map(content: bytes) -> bool:
    """Whether a map is enlarged so far that the rounded scale leads behind its last row or column (docs/exactness.md)."""
    for graph in read_model(content).graphs:
        for op in graph.ops:
            if op.kind == "RESIZE_BILINEAR" and not getattr(op.attributes, "align_corners", False):
                ifm, wanted = (graph.tensors[index] for index in op.inputs[:2])
                for size, out in zip(ifm.shape[1:3], () if wanted.data is None else wanted.data.ravel(), strict=False):
                    if ((size << 10) + int(out) // 2) // max(int(out), 1) * (int(out) - 1) >> 10 >= size:
                        return True
    return False
