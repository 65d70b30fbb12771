"""The targets that the compiler writes command streams for."""

from __future__ import annotations

from npu.hardware.catalogue import list_variants


def compiler_targets() -> tuple[str, ...]:
    """Names of the shipped variants, smallest array of each product first."""
    return tuple(list_variants())
