"""The targets that the compiler writes command streams for."""

from __future__ import annotations

from npu.errors import CompileError
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.variant import Variant
from npu.isa.families import family_of


def is_compiled_for(variant: Variant) -> bool:
    """Whether command streams for a variant are written here, not only read."""
    return family_of(variant.accelerator.product).check is not None


def compiler_targets() -> tuple[str, ...]:
    """Names of the shipped variants to compile for, smallest array first."""
    return tuple(name for name in list_variants() if is_compiled_for(load_variant(name)))


def require_compiled_for(variant: Variant) -> None:
    """CompileError if nothing is compiled for a variant."""
    if not is_compiled_for(variant):
        product = variant.accelerator.product
        raise CompileError(
            f"target: must be an NPU to compile for, got {variant.name}: streams of "
            f"Ethos-{family_of(product).products[product]} are read only here; compile the model with Vela, then run, verify "
            "or disasm what it wrote"
        )
