"""A family is one record: nothing else knows the products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.decode import read_commands
from npu.isa.families import FAMILIES, family_of
from npu.isa.payload import build_payload, decode_config, parse_payload

WORDS = np.array([0xFFFF0000], np.uint32)


def test_every_product_of_a_description_has_a_family() -> None:
    assert set(FAMILIES) == set(Product)
    assert all(product in family.products for product, family in FAMILIES.items())


def test_the_payload_names_the_architecture_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = load_variant("ethos-u65-256")
    monkeypatch.setitem(FAMILIES, Product.ETHOS_U65, replace(family_of(Product.ETHOS_U65), architecture_id=0x20000000))
    assert parse_payload(build_payload(WORDS, variant)).id_word == 0x20000000
    assert parse_payload(build_payload(WORDS, load_variant("ethos-u55-128"))).id_word == 0x10066001


def test_a_stream_has_the_commands_of_its_family() -> None:
    names = [command.command.name for command in read_commands(WORDS, Product.ETHOS_U55)]
    assert names == ["NPU_OP_STOP"]
    assert names[0] in {command.name for command in family_of(Product.ETHOS_U55).commands}


def test_a_product_without_a_family_is_refused() -> None:
    with pytest.raises(StreamError, match=r"product must be 0 \(Ethos-U55\) or 1 \(Ethos-U65\), got 2"):
        decode_config(0x20000118)
