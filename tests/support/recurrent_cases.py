"""Random single-operator models of operators with state and of look-ups, by operator and types: cases of differential tests.

Sizes and options are those that LiteRT's reference kernels run without reading beyond their buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType

from tests.support.operator_cases import F32, I8, I16, I32, U8, In, Rng, model, random_data, scale_of, zero_of

STATEFUL: dict[str, Callable[[Rng], bytes]] = {}
"""Models whose inputs may be any values of their types."""


single = partial(model, version=1)


def _chance(rng: Rng, share: float = 0.5) -> bool:
    return bool(rng.random() < share)


def _matrix(rng: Rng, shape: Sequence[int], dtype: DType) -> In:
    if dtype is F32:
        return In(shape, F32, data=(0.4 * rng.standard_normal(shape)).astype(np.float32))
    return In(shape, dtype, scale_of(rng, 0.002, 0.02), data=random_data(rng, shape, I8).view(np.int8))


def _vector(rng: Rng, count: int) -> In:
    return In((count,), F32, data=(0.4 * rng.standard_normal(count)).astype(np.float32))


def _variable(shape: Sequence[int], dtype: DType = F32, scale: float | None = None, zero_point: int = 0) -> In:
    return In(shape, dtype, scale, zero_point, is_variable=True)


def _layout(rng: Rng, batches: int, times: int, features: int) -> tuple[tuple[int, int, int], bool]:
    major = _chance(rng)
    return ((times, batches, features) if major else (batches, times, features)), major


def _float_cell(rng: Rng, sizes: tuple[int, int, int], dtype: DType, *, diagonal: bool = False) -> list[In | None]:
    """Inputs 1 to 17 of an LSTM."""
    features, units, outputs = sizes
    coupled, peepholes, projected = _chance(rng, 0.3), _chance(rng), outputs != units or _chance(rng, 0.3)
    recurrent: Callable[[], In] = (lambda: _vector(rng, units)) if diagonal else (lambda: _matrix(rng, (units, outputs), dtype))
    skip = [coupled, False, False, False]
    cell: list[In | None] = [None if s else _matrix(rng, (units, features), dtype) for s in skip]
    cell += [None if s else recurrent() for s in skip]
    cell += [_matrix(rng, (units,), dtype) if peepholes and not s else None for s in skip[:3]]
    cell += [None if s else _vector(rng, units) for s in skip]
    cell += [_matrix(rng, (outputs, units), dtype) if projected else None]
    return [*cell, _vector(rng, outputs) if projected and _chance(rng) else None]


def _norms(rng: Rng, units: int, *, coupled: bool) -> list[In | None]:
    return [None if coupled and i == 0 else _vector(rng, units) for i in range(4)]


def _activation(rng: Rng) -> FusedActivation:
    kinds = (FusedActivation.TANH, FusedActivation.TANH, FusedActivation.RELU, FusedActivation.RELU6)
    return kinds[rng.integers(0, len(kinds))]


def _clips(rng: Rng) -> tuple[float, float]:
    return float(rng.choice([0.0, 0.4])), float(rng.choice([0.0, 0.3]))


def lstm(rng: Rng, kind: str, dtype: DType) -> bytes:
    """LSTM or UNIDIRECTIONAL_SEQUENCE_LSTM on floats."""
    batches, times, features, units, outputs = (int(v) for v in rng.integers(1, 6, 5))
    outputs = units if _chance(rng) else outputs
    diagonal = kind != "LSTM" and dtype is F32 and outputs == units and _chance(rng, 0.2)
    cell = _float_cell(rng, (features, units, outputs), dtype, diagonal=diagonal)
    norms = _norms(rng, units, coupled=cell[0] is None) if _chance(rng) else [None] * 4
    states = [_variable((batches, outputs)), _variable((batches, units))]
    shape, major = _layout(rng, batches, times, features)
    asymmetric = dtype is not F32 and _chance(rng)
    if kind == "LSTM":
        shape = (batches, features)  # type: ignore[assignment]
        options: Any = at.LSTMOptions(_activation(rng), *_clips(rng), asymmetric_quantize_inputs=asymmetric)
    else:
        options = at.UnidirectionalSequenceLSTMOptions(_activation(rng), *_clips(rng), major, asymmetric, diagonal)
    return single(kind, [In(shape, F32), *cell, *states, *norms], [In((1,), F32)], options)


def bidirectional_lstm(rng: Rng, dtype: DType) -> bytes:
    """BIDIRECTIONAL_SEQUENCE_LSTM without auxiliary input, with one for the backward cell, and with one for both."""
    batches, times, features = (int(v) for v in rng.integers(1, 6, 3))
    units, outputs = (int(v) for v in rng.integers(1, 6, 2))
    sizes = [(features, units, units if _chance(rng) else outputs)] * 2  # both cells must have the same
    shape, major = _layout(rng, batches, times, features)
    merged = _chance(rng) and (major or batches == 1)
    cells = [_float_cell(rng, size, dtype) for size in sizes]
    states = [_variable((batches, n)) for _, units, outputs in sizes for n in (outputs, units)]
    extra = rng.integers(0, 3)
    auxiliary: list[In | None] = [In(shape, F32) if extra else None]
    for (_, units, _), cell in zip(sizes, cells, strict=True):
        skip = [cell[0] is None, False, False, False]
        auxiliary += [_matrix(rng, (units, features), dtype) if extra == 2 and not s else None for s in skip]
    options = at.BidirectionalSequenceLSTMOptions(
        _activation(rng), *_clips(rng), merged, major, dtype is not F32 and _chance(rng)
    )
    outputs_made = [In((1,), F32)] * (1 if merged else 2)
    return single(
        "BIDIRECTIONAL_SEQUENCE_LSTM", [In(shape, F32), *cells[0], *cells[1], *states, *auxiliary], outputs_made, options
    )


def _integer_gates(rng: Rng, units: int, features: int, *, coupled: bool) -> list[In | None]:
    return [None if coupled and i == 0 else _matrix(rng, (units, features), I8) for i in range(4)]


def integer_lstm(rng: Rng, kind: str) -> bytes:
    """int8 activations and weights, int16 cell state."""
    batches, times, features, units, outputs = (int(v) for v in rng.integers(1, 7, 5))
    outputs = units if _chance(rng) else min(outputs, units)
    coupled, peepholes, normalized = (_chance(rng, share) for share in (0.3, 0.4, 0.5))
    projected = outputs != units or _chance(rng, 0.3)
    skip = [coupled, False, False, False]
    ifm_scale, cell_scale = scale_of(rng, 0.005, 0.05), float(2.0 ** rng.integers(-15, -10))
    state = In((batches, outputs), I8, scale_of(rng, 0.004, 0.02), zero_of(rng, I8), is_variable=True)

    def diagonal(top: int, dtype: DType = I16, scale: float = 1e-4) -> In:
        return In((units,), dtype, scale, data=rng.integers(-top, top, units))

    biases = [None if s else diagonal(20000, I32, 1e-5) for s in skip]
    holes = [diagonal(3000) if peepholes and not s else None for s in skip[:3]]
    norms = [diagonal(30000, I16, 3e-5) if normalized and not s else None for s in skip]
    projection = [_matrix(rng, (outputs, units), I8) if projected else None]
    projection += [In((outputs,), I32, 1e-5, data=rng.integers(-2000, 2000, outputs)) if projected and _chance(rng) else None]
    hidden = In((1,), I8, scale_of(rng, 0.004, 0.02), zero_of(rng, I8)) if projected else state
    between = [In((1,), I16, scale_of(rng, 1e-4, 1e-3)) for _ in range(4)] + [In((1,), I8, hidden.scale, hidden.zero_point)]
    shape, major = _layout(rng, batches, times, features)
    if kind == "LSTM":
        shape = (batches, features)  # type: ignore[assignment]
        options: Any = at.LSTMOptions(FusedActivation.TANH, *_clips(rng))
    else:
        options = at.UnidirectionalSequenceLSTMOptions(FusedActivation.TANH, *_clips(rng), major)
    ifm = In(shape, I8, ifm_scale, zero_of(rng, I8))
    gates = _integer_gates(rng, units, features, coupled=coupled) + _integer_gates(rng, units, outputs, coupled=coupled)
    inputs = [ifm, *gates, *holes, *biases, *projection, state, _variable((batches, units), I16, cell_scale), *norms]
    return single(kind, inputs, [In((1,), I8, state.scale, state.zero_point)], options, intermediates=between, version=3)


def basic_lstm(rng: Rng, dtype: DType) -> bytes:
    """LSTM with the basic kernel."""
    batches, features, units = (int(v) for v in rng.integers(1, 6, 3))
    options = at.LSTMOptions(FusedActivation.TANH, kernel_type=at.LstmKernelType.BASIC)
    shapes = ((batches, units), (batches, units), (batches, features + units), (batches, 4 * units))
    matrix = (4 * units, features + units)
    if dtype is F32:
        inputs = [
            In((batches, features), F32), _variable((batches, units)), _matrix(rng, matrix, F32), _vector(rng, 4 * units),
            _variable((batches, units)),
        ]  # fmt: skip
        return single("LSTM", inputs, [In(shape, F32) for shape in shapes], options, version=2)
    scale, weight_scale = 1 / 128, scale_of(rng, 0.005, 0.02)
    bias = In((4 * units,), I32, scale * weight_scale, data=rng.integers(-3000, 3000, 4 * units))
    inputs = [
        In((batches, features), U8, scale, 128), _variable((batches, units), U8, scale, 128),
        In(matrix, U8, weight_scale, zero_of(rng, U8), data=random_data(rng, matrix, U8)), bias,
        _variable((batches, units), I16, 2.0**-11),
    ]  # fmt: skip
    kinds = ((U8, scale, 128), (I16, 2.0**-11, 0), (U8, scale, 128), (I16, 2.0**-12, 0))
    return single("LSTM", inputs, [In(s, *k) for s, k in zip(shapes, kinds, strict=True)], options, version=2)


def rnn(rng: Rng, kind: str, dtype: DType) -> bytes:
    """RNN or UNIDIRECTIONAL_SEQUENCE_RNN."""
    batches, times, features, units = (int(v) for v in rng.integers(1, 6, 4))
    shape, major = _layout(rng, batches, times, features)
    cell = [_matrix(rng, (units, features), dtype), _matrix(rng, (units, units), dtype), _vector(rng, units)]
    asymmetric, squash = dtype is not F32 and _chance(rng), _activation(rng)
    options: Any = at.SequenceRNNOptions(major, squash, asymmetric)
    if kind == "RNN":
        shape, options = (batches, features), at.RNNOptions(squash, asymmetric)  # type: ignore[assignment]
    return single(kind, [In(shape, F32), *cell, _variable((batches, units))], [In((1,), F32)], options)


def bidirectional_rnn(rng: Rng, dtype: DType) -> bytes:
    """BIDIRECTIONAL_SEQUENCE_RNN with and without auxiliary input."""
    batches, times, features, *units = (int(v) for v in rng.integers(1, 6, 5))
    shape, major = _layout(rng, batches, times, features)
    merged, extra = _chance(rng) and (dtype is F32 or batches == 1 or not major), rng.integers(0, 3)
    cells: list[In | None] = []
    for n in units:
        cells += [_matrix(rng, (n, features), dtype), _matrix(rng, (n, n), dtype), _vector(rng, n), _variable((batches, n))]
    cells += [In(shape, F32) if extra else None]
    cells += [_matrix(rng, (n, features), dtype) if extra == 2 else None for n in units]
    options = at.BidirectionalSequenceRNNOptions(major, _activation(rng), merged, dtype is not F32 and _chance(rng))
    return single("BIDIRECTIONAL_SEQUENCE_RNN", [In(shape, F32), *cells], [In((1,), F32)] * (1 if merged else 2), options)


def svdf(rng: Rng, dtype: DType) -> bytes:
    """SVDF of float inputs and weights of a type."""
    batches, features, units, memory, rank = (int(v) for v in rng.integers(1, 5, 5))
    filters = units * rank
    bias = _vector(rng, units) if _chance(rng) else None
    inputs = [
        In((batches, features), F32), _matrix(rng, (filters, features), dtype), _matrix(rng, (filters, memory), dtype), bias,
        _variable((batches, filters * memory)),
    ]  # fmt: skip
    asymmetric = dtype is not F32 and _chance(rng)
    return single("SVDF", inputs, [In((1,), F32)], at.SVDFOptions(rank, _activation(rng), asymmetric))


for _kind in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
    for _name, _dtype in (("float32", F32), ("hybrid", I8), ("hybrid_uint8", U8)):
        STATEFUL[f"{_kind}-{_name}"] = lambda rng, k=_kind, d=_dtype: lstm(rng, k, d)
    STATEFUL[f"{_kind}-int8"] = lambda rng, k=_kind: integer_lstm(rng, k)
for _kind in ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"):
    for _name, _dtype in (("float32", F32), ("hybrid", I8), ("hybrid_uint8", U8)):
        STATEFUL[f"{_kind}-{_name}"] = lambda rng, k=_kind, d=_dtype: rnn(rng, k, d)
for _name, _dtype in (("float32", F32), ("hybrid", I8), ("hybrid_uint8", U8)):
    STATEFUL[f"BIDIRECTIONAL_SEQUENCE_LSTM-{_name}"] = lambda rng, d=_dtype: bidirectional_lstm(rng, d)
    STATEFUL[f"BIDIRECTIONAL_SEQUENCE_RNN-{_name}"] = lambda rng, d=_dtype: bidirectional_rnn(rng, d)
    STATEFUL[f"SVDF-{_name}"] = lambda rng, d=_dtype: svdf(rng, d)
STATEFUL["LSTM-basic_float32"] = lambda rng: basic_lstm(rng, F32)
STATEFUL["LSTM-basic_uint8"] = lambda rng: basic_lstm(rng, U8)
