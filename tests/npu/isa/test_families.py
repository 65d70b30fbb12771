"""A family is one record: nothing else knows the products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.validate import LARGEST_BLOCK, LARGEST_BLOCKDEP
from npu.hardware.variant import Product
from npu.isa.decode import decode, read_commands
from npu.isa.disassemble import assemble, disassemble
from npu.isa.encode import encode
from npu.isa.families import FAMILIES, family_of
from npu.isa.payload import build_payload, decode_config, parse_payload

from tests.support.families import sibling
from tests.support.operations import operations

WORDS = np.array([0xFFFF0000], np.uint32)


def test_every_product_of_a_description_has_a_family() -> None:
    assert set(FAMILIES) == set(Product)
    assert all(product in family.products for product, family in FAMILIES.items())


@pytest.mark.parametrize("product", FAMILIES)
def test_a_description_allows_what_the_registers_of_its_family_hold(product: Product) -> None:
    def most(name: str) -> int:
        return family_of(product).by_name[name].fields[0].limits(product)[1]

    block = tuple(most(f"NPU_SET_OFM_BLK_{axis}_M1") + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
    assert block == LARGEST_BLOCK[product]
    assert most("NPU_SET_BLOCKDEP") == LARGEST_BLOCKDEP[product]


@pytest.mark.parametrize("target", list_variants())
def test_buffers_share_banks_where_operations_choose_no_micro_block(target: str) -> None:
    variant = load_variant(target)
    assert (variant.shram.granules is None) is (family_of(variant.accelerator.product).buffers.micro_blocks is not None)


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
    with pytest.raises(StreamError, match=r"product must be 0 \(Ethos-U55\) or 1 \(Ethos-U65\) or 2 \(Ethos-U85\), got 3"):
        decode_config(0x30000118)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_a_sibling_is_written_read_and_listed_by_its_own_table(data: st.DataObject) -> None:
    variant = load_variant("ethos-u65-256")
    made = tuple(data.draw(operations(variant)))
    before = encode(made, variant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAMILIES, Product.ETHOS_U65, sibling())
        words = encode(made, variant)
        payload = parse_payload(build_payload(words, variant))
        text = str(disassemble(payload.words, variant))
        assert payload.id_word == 0x20000000
        assert [one.operation for one in decode(payload.words, variant)] == list(made)
        assert np.array_equal(assemble(text), words)
        assert "NPU_SET_IFM_REGION" not in text
        assert not np.array_equal(words, before)
        with pytest.raises(StreamError, match="must be a known command"):
            assemble(".product ETHOS_U65\nNPU_SET_IFM_REGION value=1\n")
    with pytest.raises(StreamError):
        decode(words, variant)
    assert np.array_equal(encode(made, variant), before)
