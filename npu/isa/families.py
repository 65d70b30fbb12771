"""The NPU families that this project has, by product: the only place that chooses one."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from npu.hardware.variant import Product
from npu.isa.family import Family

_PLACES = {
    Product.ETHOS_U55: ("npu.isa.ethos_u55_u65", "ETHOS_U55_U65"),
    Product.ETHOS_U65: ("npu.isa.ethos_u55_u65", "ETHOS_U55_U65"),
    Product.ETHOS_U85: ("npu.isa.ethos_u85.family", "ETHOS_U85"),
}
"""Module and name: a command imports the family of its own target only."""


class _Families(MutableMapping[Product, Family]):
    """The family of every product, imported when it is first asked for."""

    def __init__(self) -> None:
        self._known: dict[Product, Family] = {}

    def __getitem__(self, product: Product) -> Family:
        known = self._known.get(product)
        if known is None:
            module, name = _PLACES[product]
            known = self._known[product] = getattr(import_module(module), name)
        return known

    def __setitem__(self, product: Product, family: Family) -> None:
        self._known[product] = family

    def __delitem__(self, product: Product) -> None:
        del self._known[product]

    def __iter__(self) -> Iterator[Product]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


FAMILIES = _Families()


def family_of(product: Product) -> Family:
    """The family of a product."""
    return FAMILIES[product]
