"""Transcendental functions element by element, through the C library as the reference kernels call it."""

from __future__ import annotations

import math

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

_INPUT = ty.constant(ty.float32, 1)
_UNARY = ty.void(_INPUT, ty.float32[::1])
_BINARY = ty.void(_INPUT, _INPUT, ty.float32[::1])


@kernel(_UNARY)
def exponential(x, out):  # type: ignore[no-untyped-def]
    """e**x."""
    for i in range(x.size):
        out[i] = math.exp(x[i])


@kernel(_UNARY)
def logarithm(x, out):  # type: ignore[no-untyped-def]
    """ln x."""
    for i in range(x.size):
        out[i] = np.log(x[i])


@kernel(_UNARY, error_model="numpy")
def inverse_square_root(x, out):  # type: ignore[no-untyped-def]
    """1 / sqrt x, each rounded; infinite for 0."""
    for i in range(x.size):
        out[i] = np.float32(1) / np.sqrt(x[i])


@kernel(_UNARY)
def hyperbolic_tangent(x, out):  # type: ignore[no-untyped-def]
    """tanh x."""
    for i in range(x.size):
        out[i] = math.tanh(x[i])


@kernel(_UNARY)
def sine(x, out):  # type: ignore[no-untyped-def]
    """sin x."""
    for i in range(x.size):
        out[i] = math.sin(x[i])


@kernel(_UNARY)
def cosine(x, out):  # type: ignore[no-untyped-def]
    """cos x."""
    for i in range(x.size):
        out[i] = math.cos(x[i])


@kernel(_UNARY)
def exponential_minus_one(x, out):  # type: ignore[no-untyped-def]
    """e**x - 1 for negative x, x otherwise (ELU)."""
    for i in range(x.size):
        out[i] = math.expm1(x[i]) if x[i] < np.float32(0) else x[i]


@kernel(_UNARY)
def complementary_error_function(x, out):  # type: ignore[no-untyped-def]
    """1 - erf x."""
    for i in range(x.size):
        out[i] = math.erfc(x[i])


@kernel(_BINARY)
def power_float(x, y, out):  # type: ignore[no-untyped-def]
    """x**y."""
    for i in range(x.size):
        out[i] = math.pow(x[i], y[i])
