"""The NPU families that this project has, by product: the only place that chooses one."""

from __future__ import annotations

from npu.hardware.variant import Product
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.family import Family

FAMILIES: dict[Product, Family] = {product: family for family in (ETHOS_U55_U65, ETHOS_U85) for product in family.products}


def family_of(product: Product) -> Family:
    """The family of a product."""
    return FAMILIES[product]
