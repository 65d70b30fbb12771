"""Importing this module makes the XNNPACK-like delegate the default of every later interpreter; it has no other contents."""

from __future__ import annotations

from npu.runtime.xnnpack.auto import enable_by_default

enable_by_default()
