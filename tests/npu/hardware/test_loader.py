"""Shipped descriptions, inheritance, and every message that a wrong description can cause."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from npu.errors import ConfigError
from npu.hardware import shipped
from npu.hardware.catalogue import list_section, list_variants, load_variant
from npu.hardware.document import MAX_FILE_BYTES
from npu.hardware.variant import Port, Product, Size, Variant

# Facts of the products: MACs, cores, OFM ublock, SHRAM banks, reserved LUT banks, LUT address, AXI bytes, address bits.
PRODUCTS = {
    "ethos-u55-32": (Product.ETHOS_U55, 32, 1, (1, 1, 4), 16, 0, 0x3800, 8, 32),
    "ethos-u55-64": (Product.ETHOS_U55, 64, 1, (1, 1, 8), 16, 0, 0x3800, 8, 32),
    "ethos-u55-128": (Product.ETHOS_U55, 128, 1, (1, 2, 8), 24, 2, 0x5800, 8, 32),
    "ethos-u55-256": (Product.ETHOS_U55, 256, 1, (2, 2, 8), 48, 2, 0xB800, 8, 32),
    "ethos-u65-256": (Product.ETHOS_U65, 256, 1, (2, 2, 8), 48, 2, 0xB800, 16, 40),
    "ethos-u65-512": (Product.ETHOS_U65, 512, 2, (2, 2, 8), 48, 2, 0xB800, 16, 40),
    "ethos-u85-128": (Product.ETHOS_U85, 128, 1, (1, 2, 8), 2, 2, 0, 16, 40),
    "ethos-u85-256": (Product.ETHOS_U85, 256, 1, (2, 2, 8), 2, 2, 0, 16, 40),
    "ethos-u85-512": (Product.ETHOS_U85, 512, 1, (2, 2, 16), 2, 2, 0, 16, 40),
    "ethos-u85-1024": (Product.ETHOS_U85, 1024, 1, (2, 2, 32), 2, 2, 0, 16, 40),
    "ethos-u85-2048": (Product.ETHOS_U85, 2048, 1, (2, 2, 64), 2, 2, 0, 16, 40),
}
# Of Ethos-U85: weight decoders, SRAM and EXT ports, KiB of IFM memory.
APART = {
    "ethos-u85-128": (1, 2, 1, 8),
    "ethos-u85-256": (1, 2, 1, 16),
    "ethos-u85-512": (2, 2, 1, 16),
    "ethos-u85-1024": (4, 2, 2, 16),
    "ethos-u85-2048": (4, 4, 2, 32),
}
# Output-unit cycles per element in field order, as Vela 5.2 assumes them.
OUTPUT_CYCLES = {
    "ethos-u55-32": (2, 3, 3, 3, 4, 6, 1, 2, 1, 1),
    "ethos-u55-64": (1, 1.5, 1.5, 1.5, 2, 3, 0.5, 1, 1, 1),
    "ethos-u55-128": (0.75, 1.25, 0.75, 0.75, 1, 1.5, 0.25, 0.5, 1, 0.5),
    "ethos-u55-256": (0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25, 1, 0.25),
    "ethos-u65-256": (0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25, 1, 0.25),
    "ethos-u65-512": (0.3125, 0.5625, 0.25, 0.1875, 0.25, 0.375, 0.0625, 0.125, 0.5, 0.125),
}
# Banks per buffer kind in field order.
GRANULES = {
    "ethos-u55-32": (2, 2, 2, 2, 4, 4, 4),
    "ethos-u55-64": (2, 2, 2, 2, 4, 4, 8),
    "ethos-u55-128": (4, 4, 4, 4, 8, 8, 12),
    "ethos-u55-256": (8, 8, 8, 8, 16, 16, 20),
    "ethos-u65-256": (8, 8, 8, 8, 16, 16, 20),
    "ethos-u65-512": (8, 8, 8, 8, 16, 16, 20),
}
# Clock in MHz, bytes per cycle of the second memory as (AXI bytes x clock scale).
SYSTEMS = {
    "Ethos_U55_Deep_Embedded": ("ethos-u55-128", 200, 0.5),
    "Ethos_U55_High_End_Embedded": ("ethos-u55-128", 500, 1.0),
    "Ethos_U65_Embedded": ("ethos-u65-256", 500, 1.0),
    "Ethos_U65_Mid_End": ("ethos-u65-256", 500, 7.5),
    "Ethos_U65_High_End": ("ethos-u65-256", 1000, 3.75),
    "Ethos_U65_Client_Server": ("ethos-u65-256", 1000, 12.0),
    "Ethos_U85_SYS_DRAM_Low": ("ethos-u85-128", 500, 7.5),
    "Ethos_U85_SYS_DRAM_Mid": ("ethos-u85-512", 1000, 12.0),
    "Ethos_U85_SYS_DRAM_Mid_1024": ("ethos-u85-1024", 1000, 12.0),
    "Ethos_U85_SYS_DRAM_High": ("ethos-u85-2048", 1000, 12.0),
}
MEMORY_MODES = {
    "Sram_Only": (Port.AXI0, Port.AXI0, Port.AXI0, False),
    "Shared_Sram": (Port.AXI1, Port.AXI0, Port.AXI0, False),
    "Dedicated_Sram": (Port.AXI1, Port.AXI1, Port.AXI0, True),
}


@pytest.fixture
def write(tmp_path: Path):
    def make(text: str, name: str = "board.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_variant(path)
    return str(caught.value)


def test_the_shipped_variants_are_listed_by_size() -> None:
    assert list_variants() == tuple(PRODUCTS)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_shipped_variant_has_the_facts_of_its_product(name: str) -> None:
    product, macs, cores, ublock, banks, lut_banks, lut_address, axi_bytes, address_bits = PRODUCTS[name]
    variant = load_variant(name)
    accelerator, shram = variant.accelerator, variant.shram
    assert (variant.name, accelerator.product, accelerator.macs_per_cycle, accelerator.cores) == (name, product, macs, cores)
    assert accelerator.ofm_ublock == Size(*ublock)
    assert accelerator.max_block == (Size(128, 128, 1024) if name in APART else Size(32, 64, 128))
    assert (shram.banks, shram.reserved_lut_banks, shram.lut_address) == (banks, lut_banks, lut_address)
    assert (accelerator.axi_data_bytes, accelerator.address_bits) == (axi_bytes, address_bits)
    assert accelerator.max_outstanding_dma == {Product.ETHOS_U55: 1, Product.ETHOS_U65: 2, Product.ETHOS_U85: 4}[product]
    if name in APART:
        ports = accelerator.sram_ports, accelerator.ext_ports
        assert (accelerator.weight_decoders, *ports, variant.timing.ifm_buffer_bytes // 1024) == APART[name]
        assert shram.granules is None
        assert variant.timing.output_cycles.other == 64 / macs
    else:
        assert tuple(dataclasses.astuple(variant.timing.output_cycles)) == OUTPUT_CYCLES[name]
        assert tuple(dataclasses.astuple(shram.granules)) == GRANULES[name]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_shipped_system_has_the_clock_and_bandwidth_of_its_preset(name: str) -> None:
    target, mhz, bytes_per_cycle = SYSTEMS[name]
    variant = load_variant(target, system=name, memory_mode="Shared_Sram")
    memory = variant.system.memories[Port.AXI1]
    assert variant.system.name == name
    assert variant.system.clock_hz == mhz * 1_000_000
    # The presets of U55 give bytes per cycle on its own 8-byte port, those of U65 on 16 bytes.
    assert memory.clock_scale * variant.accelerator.axi_data_bytes == bytes_per_cycle


@pytest.mark.parametrize("name", MEMORY_MODES)
def test_a_shipped_memory_mode_uses_the_ports_of_its_preset(name: str) -> None:
    mode = load_variant("ethos-u65-256", memory_mode=name).memory_mode
    assert (mode.constants, mode.arena, mode.cache, mode.has_separate_cache) == MEMORY_MODES[name]


def test_the_defaults_are_those_of_the_published_measurements() -> None:
    u55, u65 = load_variant("ethos-u55-128"), load_variant("ethos-u65-512")
    assert (u55.system.name, u55.memory_mode.name) == ("Ethos_U55_High_End_Embedded", "Shared_Sram")
    assert (u65.system.name, u65.memory_mode.name) == ("Ethos_U65_High_End", "Dedicated_Sram")
    assert u65.memory_mode.arena_cache_bytes == 384 * 1024
    for macs, size in ((128, "Low"), (256, "Low"), (512, "Mid"), (1024, "Mid_1024"), (2048, "High")):
        variant = load_variant(f"ethos-u85-{macs}")
        assert (variant.system.name, variant.memory_mode.name) == (f"Ethos_U85_SYS_DRAM_{size}", "Dedicated_Sram")
    flash, dram = u55.system.adapters[Port.AXI1], u65.system.adapters[Port.AXI1]
    assert (flash.pulse_on_cycles, flash.pulse_off_cycles, flash.beats_per_window) == (320, 80, 50)
    assert (dram.pulse_on_cycles, dram.pulse_off_cycles, dram.beats_per_window) == (4000, 1000, 1172)


def test_the_ideal_system_has_no_adapters_and_no_latency() -> None:
    system = load_variant("ethos-u55-128", system="high_end_embedded_ideal").system
    assert not system.adapters
    assert system.memories[Port.AXI1].read_latency_cycles == 0
    assert system.clock_hz == 500_000_000


SPELLINGS = ["Ethos_U55_High_End_Embedded", "ethos-u55-high-end-embedded", "HIGH_END_EMBEDDED", "high-end-embedded"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_system_names_are_found_in_any_usual_spelling(spelling: str) -> None:
    assert load_variant("Ethos_U55_128", system=spelling).system.name == "Ethos_U55_High_End_Embedded"


@pytest.mark.parametrize("section", ["system", "memory_mode", "cpu"])
def test_every_shipped_section_loads_on_every_variant(section: str) -> None:
    for name in list_section(section):
        for target in list_variants():
            needs_dram = name.startswith("dedicated") and "u55" in target
            system = "ethos-u65-high-end" if needs_dram else None
            mode = "Shared_Sram" if section == "system" else None
            load_variant(target, **{"system": system, "memory_mode": mode, section: name})


@pytest.mark.parametrize(("target", "system"), [("ethos-u55-128", "High_End_Embedded"), ("ethos-u65-256", "Embedded")])
def test_an_arena_in_flash_is_refused(target: str, system: str) -> None:
    message = r"memory_mode.arena: must be a port whose memory can be written, got axi1, which is flash in system Ethos_U"
    with pytest.raises(ConfigError, match=message):
        load_variant(target, system=system, memory_mode="Dedicated_Sram")


def test_packaged_descriptions_win_over_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "npu" / "_configs").mkdir(parents=True)
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "npu")
    assert shipped.configs_folder() == tmp_path / "npu" / "_configs"


def test_a_variant_is_plain_data() -> None:
    record = dataclasses.asdict(load_variant("ethos-u55-128"))
    assert record["accelerator"]["ofm_ublock"] == {"height": 1, "width": 2, "depth": 8}


# Inheritance


def test_a_board_overrides_nested_fields_and_keeps_the_rest(write) -> None:
    system = "{clock_hz: 400_000_000, memories: {axi1: {clock_scale: 0.5}}}"
    variant = load_variant(write(f"extends: ethos-u55-128\nsystem: {system}\n"))
    base = load_variant("ethos-u55-128")
    assert variant.name == "board"
    assert variant.system.clock_hz == 400_000_000
    assert variant.system.memories[Port.AXI1].clock_scale == 0.5
    assert variant.system.memories[Port.AXI0] == base.system.memories[Port.AXI0]
    assert variant.accelerator == base.accelerator


def test_an_empty_mapping_replaces_what_was_inherited(write) -> None:
    assert not load_variant(write("extends: ethos-u55-128\nsystem: {adapters: {}}\n")).system.adapters


def test_one_adapter_is_taken_away_by_null(write) -> None:
    base = load_variant("ethos-u55-128")
    changed = load_variant(write("extends: ethos-u55-128\nsystem: {adapters: {axi1: null}}\n"))
    assert set(changed.system.adapters) == {Port.AXI0}
    assert changed.system.adapters[Port.AXI0] == base.system.adapters[Port.AXI0]


@pytest.mark.parametrize(("text", "value"), [("1e-3", 0.001), ("1E0", 1.0), ("1.5e1", 15.0), (".5e-1", 0.05), ("2.5e-1", 0.25)])
def test_numbers_may_have_an_exponent_as_in_json(write, text: str, value: float) -> None:
    variant = load_variant(write(f"extends: ethos-u55-128\nsystem: {{memories: {{axi0: {{clock_scale: {text}}}}}}}\n"))
    assert variant.system.memories[Port.AXI0].clock_scale == value


def test_a_section_may_be_a_name_or_extend_one(write) -> None:
    system = "{extends: Deep_Embedded, clock_hz: 160_000_000}"
    variant = load_variant(write(f"extends: ethos-u55-64\nname: Bench\nsystem: {system}\ncpu: cortex-m4\n"))
    assert (variant.name, variant.system.name, variant.cpu.name) == ("Bench", "Ethos_U55_Deep_Embedded", "Cortex-M4")
    assert variant.system.clock_hz == 160_000_000
    assert variant.system.memories[Port.AXI1].clock_scale == 0.0625


def test_a_board_may_extend_a_board_beside_it(write) -> None:
    write("extends: ethos-u55-32\nname: First\nshram: {banks: 20}\n", "first.yaml")
    variant = load_variant(write("extends: first.yaml\n"))
    assert (variant.name, variant.shram.banks, variant.accelerator.macs_per_cycle) == ("board", 20, 32)


def test_a_full_board_needs_no_base(write) -> None:
    full = write(_dump(dataclasses.asdict(load_variant("ethos-u55-128"))))
    assert load_variant(full) == load_variant("ethos-u55-128")


def test_sources_may_stand_beside_any_number(write) -> None:
    text = "extends: ethos-u55-128\nsource: data sheet\nshram: {banks: 32, source: {banks: page 4}}\n"
    assert load_variant(write(text)).shram.banks == 32


@pytest.mark.parametrize(
    "where", ["system: {adapters: {source: x}}", "system: {adapters: {axi1: {source: x}}}", "timing: {source: x}"]
)
def test_a_source_alone_changes_nothing(where: str, write) -> None:
    assert load_variant(write(f"extends: ethos-u55-128\n{where}\n", "board.yaml")) == dataclasses.replace(
        load_variant("ethos-u55-128"), name="board"
    )


def _dump(value: object, depth: int = 0) -> str:
    """YAML of nested dictionaries, independent of the loader."""
    lines = []
    for key, item in value.items():
        name = getattr(key, "value", key)
        if isinstance(item, dict):
            lines.append(f"{'  ' * depth}{name}:" + (" {}" if not item else "\n" + _dump(item, depth + 1).rstrip("\n")))
        else:
            shown = getattr(item, "name", "null" if item is None else item)
            lines.append(f"{'  ' * depth}{name}: {str(shown).lower() if isinstance(shown, bool) else shown}")
    return "\n".join(lines) + "\n"


# Refusals: case -> (lines under `extends: ethos-u55-128`, what the message must hold)

REFUSED = {
    "unknown_key": ("shram: {bank: 3}", ["board.yaml", "shram.bank", "did you mean 'banks'"]),
    "unknown_section": ("shrm: {}", ["shrm", "did you mean 'shram'"]),
    "wrong_type": (
        "shram: {banks: '48k'}",
        ["board.yaml:2: shram.banks: must be an integer in [1, 64], got '48k'; write the number without unit and quotes"],
    ),
    "boolean_number": ("shram: {banks: true}", ["shram.banks", "got True"]),
    "fractional_integer": ("shram: {banks: 24.5}", ["shram.banks", "got 24.5"]),
    "huge_integer": (f"shram: {{banks: 0x{'f' * 6000}}}", ["board.yaml:2: must be a number of at most 1024 bits"]),
    "below_range": ("accelerator: {max_kernel_stride: 0}", ["accelerator.max_kernel_stride", "[1, 4]", "got 0"]),
    "above_range": ("accelerator: {max_kernel_stride: 5}", ["accelerator.max_kernel_stride", "[1, 4]", "got 5"]),
    "infinite": ("system: {memories: {axi0: {clock_scale: .inf}}}", ["system.memories.axi0.clock_scale", "got inf"]),
    "not_a_number": ("system: {memories: {axi0: {clock_scale: .nan}}}", ["system.memories.axi0.clock_scale", "got nan"]),
    "not_text": ("name: 5", ["name", "must be a non-empty text, got 5"]),
    "empty_text": ("name: ''", ["name", "must be a non-empty text"]),
    "not_boolean": ("memory_mode: {has_separate_cache: 1}", ["memory_mode.has_separate_cache", "true or false", "got 1"]),
    "enum_value": ("accelerator: {product: u55}", ["accelerator.product", "ethos_u55, ethos_u65", "got 'u55'"]),
    "enum_key": ("system: {memories: {axi7: {}}}", ["system.memories.axi7", "axi0, axi1"]),
    "section_is_list": ("shram: []", ["shram: must be a mapping, got []"]),
    "mapping_is_number": ("system: {memories: 4}", ["system.memories: must be a mapping, got 4"]),
    "unknown_system": ("system: Hi_End", ["board.yaml:2: system: must be one of", "ethos-u65-high-end"]),
    "unknown_cpu": ("cpu: cortex-m555", ["board.yaml:2: cpu: must be one of", "did you mean 'cortex-m55'"]),
    "section_file_missing": ("cpu: nowhere.yaml", ["nowhere.yaml: must be a YAML file", "no such file; shipped names"]),
    "section_base_is_number": ("cpu: {extends: 3}", ["cpu.extends", "got 3"]),
    "long_value_is_cut": (f"shram: {{banks: {'x' * 500}}}", ["xxx..."]),
    "macs_do_not_fit_ublock": ("accelerator: {macs_per_cycle: 256}", ["macs_per_cycle", "= 128, got 256"]),
    "macs_no_power_of_two": (
        "accelerator: {macs_per_cycle: 384, ofm_ublock: {width: 6}}",
        ["macs_per_cycle", "power of two", "got 384"],
    ),
    "block_no_multiple": ("accelerator: {max_block: {width: 63}}", ["max_block.width", "multiple", "got 63"]),
    "block_beyond_its_registers": (
        "accelerator: {max_block: {depth: 256}}",
        ["max_block.depth", "at most 128", "got 256"],
    ),
    "block_below_a_brick": (
        "accelerator: {max_block: {depth: 8}}",
        ["accelerator.max_block.depth: must be at least the 16 channels of a brick, got 8"],
    ),
    "rate_that_overflows": ("timing: {output_cycles: {other: 1.0e+14}}", ["output_cycles.other", "[0, 10,000]"]),
    "latency_beyond_reason": (
        "system: {adapters: {axi0: {read_latency_cycles: 2000000}}}",
        ["adapters.axi0.read_latency_cycles", "[0, 1,000,000]", "got 2000000"],
    ),
    "memory_taken_away": ("system: {memories: {axi1: null}}", ["memory_mode.constants", "got axi1"]),
    "wider_dot_product": ("accelerator: {dot_product_width: 16, macs_per_cycle: 256}", ["dot_product_width", "got 16"]),
    "second_core_that_no_command_addresses": (
        "accelerator: {cores: 2, macs_per_cycle: 256}",
        ["accelerator.cores", "must be at most the 1", "ethos_u55 address", "got 2"],
    ),
    "burst_no_power_of_two": (
        "system: {memories: {axi0: {burst_bytes: 48}}}",
        ["board.yaml:2: system.memories.axi0.burst_bytes: must be a power of two, got 48"],
    ),
    "longest_burst_no_power_of_two": (
        "timing: {max_burst_bytes: 96}",
        ["board.yaml:2: timing.max_burst_bytes: must be a power of two, got 96"],
    ),
    "burst_below_a_beat": (
        "accelerator: {axi_data_bytes: 64}",
        ["system.memories.axi0.burst_bytes: must be at least accelerator.axi_data_bytes (64), got 32"],
    ),
    "cache_line_no_power_of_two": ("cpu: {cache_line_bytes: 24}", ["cpu.cache_line_bytes: must be a power of two, got 24"]),
    "granule_beyond_the_memory": (
        "shram: {granules: {ifm_32_bit: 21}}",
        ["shram.granules.ifm_32_bit: must fit the 20 banks beside the output banks and the look-up tables, got 21"],
    ),
    "axi_width": ("accelerator: {axi_data_bytes: 12}", ["axi_data_bytes", "power of two", "got 12"]),
    "other_architecture": (
        "accelerator: {product: ethos_u75}",
        ["must be one of ethos_u55, ethos_u65, ethos_u85, got 'ethos_u75'"],
    ),
    "shared_buffers_of_ethos_u85": (
        "accelerator: {product: ethos_u85}",
        ["shram.granules: must be left out", "buffers of ethos_u85 have memories of their own, got some and 0"],
    ),
    "a_buffer_apart_on_ethos_u55": ("timing: {ifm_buffer_bytes: 8192}", ["must be given", "share the banks", "some and 8192"]),
    "lut_no_whole_banks": ("shram: {lut_bytes: 1536}", ["shram.lut_bytes", "multiple of bank_bytes", "got 1536"]),
    "more_luts_than_there_are": ("shram: {lut_bytes: 4096}", ["shram.lut_bytes", "[1024, 2048]", "got 4096"]),
    "input_block_of_another_plane": (
        "accelerator: {ifm_ublock: {height: 2}}",
        ["accelerator.ifm_ublock.height", "that of ofm_ublock (1)", "got 2"],
    ),
    "input_block_that_is_not_filled": ("accelerator: {ifm_ublock: {depth: 3}}", ["ifm_ublock.depth", "divide the 16", "got 3"]),
    "input_block_that_is_exceeded": ("accelerator: {ifm_ublock: {depth: 32}}", ["ifm_ublock.depth", "divide the 16", "got 32"]),
    "shram_too_small": ("shram: {banks: 8}", ["shram.banks", "(20 banks), got 8"]),
    "banks_beyond_their_registers": ("shram: {banks: 65}", ["shram.banks: must be an integer in [1, 64], got 65"]),
    "blockdep_that_no_register_holds": ("accelerator: {max_blockdep: 4}", ["max_blockdep: must be in [0, 3]", "got 4"]),
    "port_without_memory": (
        "system: {memories: {}}\n",
        ["memory_mode.constants", "must be a port that system.memories describes", "got axi1"],
    ),
    "cache_on_arena_port": ("memory_mode: {has_separate_cache: true}", ["memory_mode.has_separate_cache", "got true"]),
    "cache_larger_than_memory": (
        "system: {memories: {axi0: {size_bytes: 1024}}}",
        ["memory_mode.arena_cache_bytes", "at most the 1024 bytes", "got 4194304"],
    ),
    "cpu_without_default": ("cpu: {cycles_per_mac: {}}", ["cpu: cycles_per_mac", "'default'"]),
}  # fmt: skip


def test_the_end_of_the_buffers_has_a_register_of_six_bits(write) -> None:
    assert "shram.banks: must be at most 63" in refusal(write("extends: ethos-u55-32\nshram: {banks: 64}\n"))
    assert load_variant(write("extends: ethos-u55-32\nshram: {banks: 63}\n")).shram.banks == 63
    assert load_variant(write("extends: ethos-u55-128\nshram: {banks: 64}\n")).shram.banks == 64


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_description_is_refused_with_its_key_and_value(case: str, write) -> None:
    lines, parts = REFUSED[case]
    message = refusal(write(f"extends: ethos-u55-128\n{lines}\n"))
    for part in parts:
        assert part in message


MALFORMED = {
    "empty": ("", "must be a hardware description, that is a mapping such as 'extends: ethos-u55-128', got an empty file"),
    "list": ("- 1\n", "', got a list"),
    "text": ("hello\n", "', got a text"),
    "syntax": ("a: [1, 2\n", "board.yaml:2: must be valid YAML, got: "),
    "duplicate_key": ("name: a\nname: b\n", "board.yaml:2: name: must stand here once, got it twice"),
    "duplicate_key_below": ("shram:\n  banks: 24\n  banks: 32\n", "board.yaml:3: banks: must stand here once, got it twice"),
    "octal": ("shram: {banks: 032}\n", "board.yaml:1: must be a decimal or hexadecimal number, got '032'"),
    "binary": ("shram: {banks: 0b11000}\n", "must be a decimal or hexadecimal number, got '0b11000'"),
    "base_60": ("cpu: {job_start_cycles: 1:30}\n", "must be a decimal or hexadecimal number, got '1:30'"),
    "fraction_of_base_60": ("cpu: {relative_error: 1:30.5}\n", "must be a decimal number, got '1:30.5'"),
    "number_key": ("5: a\n", "board.yaml:1: a key must be text, got '5'"),
    "list_key": ("[a]: 1\n", "a key must be text, got a list or mapping"),
    "alias": ("a: &x {b: 1}\nc: *x\n", "must not use anchors and aliases"),
    "alias_bomb": ("a: &a [1,1]\nb: &b [*a,*a]\nc: [*b,*b]\n", "must not use anchors and aliases"),
    "tag": ("a: !!python/object/apply:os.system ['true']\n", "must not use explicit tags"),
    "empty_integer_tag": ("a: !!int ''\n", "must not use explicit tags"),
    "two_documents": ("a: 1\n---\nb: 2\n", "must be valid YAML"),
    "deep": ("a: " + "[" * 5000 + "\n", "must not nest deeper than 16 levels"),
    "huge_integer": ("a: " + "9" * 6000 + "\n", "holds a value that cannot be read"),
    "impossible_date": ("a: 2001-99-99\n", "holds a value that cannot be read"),
    "control_character": ("a: \x01\n", "must be text, got character 0x1 at 3"),
    "base_is_number": ("extends: 5\n", "extends: must be the name or path of a description, got 5"),
    "unknown_base": ("extends: ethos-u55-129\n", "did you mean 'ethos-u55-128'"),
    "missing_everything": ("name: x\n", "accelerator: is missing; it must be a mapping"),
    "extends_itself": ("extends: board.yaml\n", "must not lead back to itself, got board.yaml -> board.yaml"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused(case: str, write) -> None:
    text, part = MALFORMED[case]
    message = refusal(write(text))
    assert part in message
    assert "board.yaml" in message


def numeric_fields(cls: type, value: object, key: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Dotted keys of every number in a record and in what it holds."""
    for field in dataclasses.fields(cls):
        held = getattr(value, field.name)
        rows = held.items() if isinstance(held, Mapping) else [(None, held)]
        for name, item in rows:
            here = (*key, field.name) if name is None else (*key, field.name, getattr(name, "value", name))
            if dataclasses.is_dataclass(item):
                yield from numeric_fields(type(item), item, here)
            elif isinstance(item, int | float) and not isinstance(item, bool):
                yield here


IMPOSSIBLE = ("-1", ".nan", ".inf", "1.0e+300", "-0.5", "'12'", "many", "[1]", "true", "9" * 40)


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_no_number_takes_what_no_hardware_can_have(value: str, write) -> None:
    """Every key gets two of the values, every value a fifth of the keys."""
    keys = list(numeric_fields(Variant, load_variant("ethos-u65-512")))
    assert len(keys) > 100
    for key in keys[IMPOSSIBLE.index(value) % 5 :: 5]:
        nested = "".join(f"{'  ' * depth}{name}:\n" for depth, name in enumerate(key)).rstrip("\n")
        message = refusal(write(f"extends: ethos-u65-512\n{nested} {value}\n"))
        assert re.search(
            rf"board\.yaml:{len(key) + 1}: {re.escape('.'.join(key))}: must be (an integer|a number) in \[.+, .+\], got ",
            message,
        )


def test_a_file_that_is_too_long_is_refused(write) -> None:
    assert "must be a hardware description, that is a YAML file of text of at most 65536" in refusal(
        write("#" * (MAX_FILE_BYTES + 1))
    )


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "that is a YAML file of text, got bytes that are no UTF-8 text, the first at 0" in refusal(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "must be a YAML file with a hardware description, got a folder" in refusal(tmp_path)


def test_a_device_or_pipe_is_refused_without_being_opened(tmp_path: Path) -> None:
    """A pipe without a writer would block for ever, /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (Path("/dev/zero"), tmp_path / "pipe.yaml"):
        assert f"{path}: must be a YAML file with a hardware description, got a device or pipe" in refusal(path)


def test_a_file_of_two_gigabytes_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    assert "of at most 65536 bytes, got more" in refusal(path)


def test_an_unreadable_file_is_refused(write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("extends: ethos-u55-128\n")
    monkeypatch.setattr(Path, "open", fail)
    assert "that is a YAML file of text, got: Permission denied" in refusal(path)


def test_a_ring_of_files_is_refused(write) -> None:
    write("extends: board.yaml\n", "other.yaml")
    assert "board.yaml -> other.yaml -> board.yaml" in refusal(write("extends: other.yaml\n"))


def test_a_chain_that_is_too_long_is_refused(write) -> None:
    write("extends: ethos-u55-128\n", "b0.yaml")
    for index in range(1, 12):
        last = write(f"extends: b{index - 1}.yaml\n", f"b{index}.yaml")
    assert "must not be a chain longer than 8 files" in refusal(last)


def test_an_unknown_target_names_the_shipped_ones() -> None:
    with pytest.raises(ConfigError, match=r"must be one of ethos-u55-32, .* got 'u55'"):
        load_variant("u55")


def test_whole_numbers_may_have_an_exponent(write) -> None:
    assert load_variant(write("extends: ethos-u55-128\nsystem: {clock_hz: 400e6}\n")).system.clock_hz == 400_000_000


PLACES = {
    "key of a section": ("extends: ethos-u55-128\nsystem:\n  clok_hz: 3\n", "board.yaml:3: system.clok_hz: is no known key"),
    "key of a section's file": (
        "extends: ethos-u55-128\nsystem: part.yaml\n",
        "part.yaml:3: system.memories.axi0.burst: is",
    ),
    "base of a section": (
        "extends: ethos-u55-128\n\nsystem:\n  extends: Lo_End\n",
        "board.yaml:4: system.extends: must be one of ethos-u55-deep-embedded,",
    ),
    "base": ("name: mine\nextends: ethos-u55-182\n", "board.yaml:2: extends: must be one of ethos-u55-32,"),
    "base that is no file": ("extends: nowhere.yaml\n", "board.yaml:1: extends: nowhere.yaml: must be a YAML file"),
    "contradiction": (
        "extends: ethos-u55-128\naccelerator:\n  cores: 2\n  macs_per_cycle: 512\n",
        "board.yaml:4: accelerator.macs_per_cycle: must be ofm_ublock elements (16) x dot_product_width (8) x cores (2) = 256",
    ),
    "missing key": ("accelerator:\n  cores: 1\n", "board.yaml:1: accelerator.product: is missing"),
}


@pytest.mark.parametrize("case", PLACES)
def test_messages_tell_the_line(case: str, write) -> None:
    write("extends: ethos-u55-high-end-embedded\nmemories:\n  axi0: {burst: 3}\n", "part.yaml")
    text, message = PLACES[case]
    assert message in refusal(write(text))


def test_what_a_section_lacks_is_looked_for_in_its_file(write) -> None:
    write("clock_hz: 500_000_000\n", "part.yaml")
    assert "part.yaml: system.name: is missing" in refusal(write("extends: ethos-u55-128\nsystem: part.yaml\n"))


def test_the_message_names_the_file_that_set_the_key(write) -> None:
    write("extends: ethos-u55-128\nshram: {banks: many}\n", "first.yaml")
    assert "first.yaml:2: shram.banks" in refusal(write("extends: first.yaml\nsystem: {clock_hz: 200_000_000}\n"))
