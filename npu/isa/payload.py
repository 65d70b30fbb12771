"""The driver payload that carries a command stream: the only place that knows its layout and the configuration words.

Two layouts exist: COP1, a list of driver actions, and COP2, a list of entries with lengths. Both are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Accelerator, Product, Variant
from npu.isa.families import FAMILIES, family_of
from npu.records import dataclass

_WORD_BYTES = 4
_ALIGNMENT_BYTES = 16
_ALIGNMENT_WORDS = _ALIGNMENT_BYTES // _WORD_BYTES
MAX_STREAM_WORDS = 1 << 22
"""The queue size register holds 16 MiB."""

_ACTION_CONFIG = 1
_ACTION_STREAM = 2
_ACTION_READ_APB = 3
_ACTION_DUMP_SHRAM = 4
_ACTION_NOP = 5
_CONFIG_ACTION_WORD = 0x00100001
"""OPTIMIZER_CONFIG, format release 0 patch 1."""
_COP2_HEADER = struct.Struct("<4sHHQ")
_COP2_METADATA = struct.Struct("<III4sHHIIIIQ")
_COP2_STREAM_ENTRY = 1
_COP2_DATA_BYTES = 20
_COP2_FIXED_METADATA_BYTES = 32


class PayloadFormat(Enum):
    """The four bytes that a payload begins with."""

    COP1 = b"COP1"
    COP2 = b"COP2"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration word: what hardware a stream was made for."""

    macs_per_cycle: int
    """All cores together; a power of two."""
    stream_version: int
    memories: int
    """Bits 8 to 15: KiB of SHRAM, all cores together, or the numbers of ports and of weight decoders of Ethos-U85."""
    product: Product
    has_functional_safety: bool = False
    has_custom_dma: bool = False

    @property
    def word(self) -> int:
        """The 32-bit configuration word."""
        return (
            (self.macs_per_cycle.bit_length() - 1)
            | self.stream_version << 4
            | self.memories << 8
            | int(self.has_functional_safety) << 26
            | int(self.has_custom_dma) << 27
            | self.product.value << 28
        )


@dataclass(frozen=True, slots=True)
class Payload:
    """A parsed payload: `words` is the command stream, uint32."""

    format: PayloadFormat
    config_word: int
    id_word: int
    words: NDArray[np.uint32]
    feature_flags: int = 0
    """COP2 only: 1 network-wide addressing, 2 separate input and output regions."""


def decode_config(word: int) -> Configuration:
    """The fields of a configuration word; StreamError if the product is unknown or reserved bits are set."""
    product = (word >> 28) & 0xF
    if product not in {known.value for known in FAMILIES}:
        names = " or ".join(f"{known.value} (Ethos-{family.products[known]})" for known, family in FAMILIES.items())
        raise StreamError(f"configuration word {word:#010x}: product must be {names}, got {product}")
    if word & 0x03FF0000:
        raise StreamError(f"configuration word {word:#010x}: reserved bits 25..16 must be zero")
    return Configuration(
        macs_per_cycle=1 << (word & 0xF),
        stream_version=(word >> 4) & 0xF,
        memories=(word >> 8) & 0xFF,
        product=Product(product),
        has_functional_safety=bool(word >> 26 & 1),
        has_custom_dma=bool(word >> 27 & 1),
    )


def configuration_of(variant: Variant) -> Configuration:
    """The configuration that a stream for `variant` carries."""
    accelerator = variant.accelerator
    if variant.shram.granules is None:
        counts = (accelerator.sram_ports, 0), (accelerator.ext_ports, 2), (accelerator.weight_decoders, 4)
        memories = sum(_log2(count) << position for count, position in counts)
    else:
        memories = variant.shram.total_bytes * accelerator.cores // 1024
    version = family_of(accelerator.product).stream_version
    return Configuration(accelerator.macs_per_cycle, version, memories, accelerator.product)


def _log2(count: int) -> int:
    return count.bit_length() - 1


def is_compatible(config: Configuration, accelerator: Accelerator) -> bool:
    """Whether the driver runs the stream there: product, MACs and stream version equal, no custom DMA."""
    return (
        config.product is accelerator.product
        and config.macs_per_cycle == accelerator.macs_per_cycle
        and config.stream_version == family_of(accelerator.product).stream_version
        and not config.has_custom_dma
    )


def find_target(config: Configuration, variants: Iterable[Variant]) -> Variant:
    """The first variant that runs a stream made for `config` and has the same memories; StreamError if none does."""
    for variant in variants:
        if is_compatible(config, variant.accelerator) and configuration_of(variant).memories == config.memories:
            return variant
    dma = ", custom DMA" if config.has_custom_dma else ""
    asked = f"{config.product.name} with {config.macs_per_cycle} MACs, {_memories_text(config)}, streams of version "
    raise StreamError(
        f"configuration word {config.word:#010x}: no shipped target is {asked}{config.stream_version}{dma}; "
        "give the hardware that the file was compiled for as target or config"
    )


def _memories_text(config: Configuration) -> str:
    if config.product is Product.ETHOS_U85:
        counts = (1 << (config.memories >> position & 3) for position in (0, 2, 4))
        return "{} SRAM ports, {} EXT ports, {} weight decoders".format(*counts)
    return f"{config.memories} KiB of SHRAM"


def parse_payload(data: bytes) -> Payload:
    """Parse a COP1 or COP2 payload; StreamError names the offset of what is wrong."""
    if len(data) < _WORD_BYTES:
        raise StreamError(f"payload: must have at least {_WORD_BYTES} bytes, got {len(data)}")
    if data[:4] == PayloadFormat.COP1.value:
        return _parse_actions(data)
    if data[:4] == PayloadFormat.COP2.value:
        return _parse_entries(data)
    raise StreamError(f"payload: must begin with COP1 or COP2, got {data[:4]!r}")


def _parse_actions(data: bytes) -> Payload:
    if len(data) % _WORD_BYTES:
        raise StreamError(f"payload: length must be a multiple of {_WORD_BYTES} bytes, got {len(data)}")
    words = np.frombuffer(data, dtype="<u4").astype(np.uint32)
    config: tuple[int, int] | None = None
    stream: NDArray[np.uint32] | None = None
    for action, position, size in _actions(words):
        _check_action(action, size, position, len(words), has_config=config is not None, has_stream=stream is not None)
        body = words[position + 1 : position + 1 + size]
        if action == _ACTION_CONFIG:
            config = int(body[0]), int(body[1])
        elif action == _ACTION_STREAM:
            stream = body
    if config is None or stream is None:
        raise StreamError(f"payload: must have {'a command stream' if config else 'a configuration'} action")
    return Payload(PayloadFormat.COP1, config[0], config[1], stream)


def _actions(words: NDArray[np.uint32]) -> Iterator[tuple[int, int, int]]:
    """Kind, place of the first word and number of further words of every action of a COP1 payload; nothing is checked."""
    position = 1
    while position < len(words):
        head = int(words[position])
        action, parameter = head & 0xFF, head >> 16
        length = parameter | (head >> 8 & 0xFF) << 16
        size = {_ACTION_CONFIG: 2, _ACTION_STREAM: length}.get(action, 0)
        yield action, position, size
        position += 1 + size


def _check_action(action: int, size: int, position: int, total: int, *, has_config: bool, has_stream: bool) -> None:
    where = f"payload: action at byte {position * _WORD_BYTES}"
    if action not in (_ACTION_CONFIG, _ACTION_STREAM, _ACTION_READ_APB, _ACTION_DUMP_SHRAM, _ACTION_NOP):
        raise StreamError(f"{where}: must be 1 to 5, got {action}")
    if size > total - position - 1:
        raise StreamError(f"{where}: needs {size} more words, got {total - position - 1}")
    if action == _ACTION_CONFIG and has_config:
        raise StreamError(f"{where}: must be the only configuration")
    if action == _ACTION_STREAM:
        if has_stream:
            raise StreamError(f"{where}: must be the only command stream")
        if not 0 < size <= MAX_STREAM_WORDS:
            raise StreamError(f"{where}: command stream must have 1 to {MAX_STREAM_WORDS} words, got {size}")
        if (position + 1) % _ALIGNMENT_WORDS:
            raise StreamError(f"{where}: command stream must start at a multiple of {_ALIGNMENT_BYTES} bytes")


def _parse_entries(data: bytes) -> Payload:
    fixed = _COP2_HEADER.size + _COP2_METADATA.size
    if len(data) < fixed:
        raise StreamError(f"payload: a COP2 payload must have at least {fixed} bytes, got {len(data)}")
    _, major, _, total = _COP2_HEADER.unpack_from(data)
    fields = _COP2_METADATA.unpack_from(data, _COP2_HEADER.size)
    kind, entry_bytes, metadata_bytes, tag, _, _, data_bytes, config_word, id_word, flags, _ = fields
    start = _COP2_HEADER.size + 12 + metadata_bytes
    end = _COP2_HEADER.size + 8 + entry_bytes
    rules = (
        (major == 1, "major version must be 1", major),
        (total == len(data) - _COP2_HEADER.size, f"length must be {len(data) - _COP2_HEADER.size}", total),
        (kind == _COP2_STREAM_ENTRY, "entry type must be 1", kind),
        (end == len(data), f"entry length must be {len(data) - _COP2_HEADER.size - 8}", entry_bytes),
        (tag in (b"VEUM", b"MUEV"), "metadata tag must be VEUM", tag),
        (data_bytes == _COP2_DATA_BYTES, f"metadata data length must be {_COP2_DATA_BYTES}", data_bytes),
        (metadata_bytes >= _COP2_FIXED_METADATA_BYTES and start <= end, "metadata length must fit the entry", metadata_bytes),
        (start % _ALIGNMENT_BYTES == 0, f"command stream must start at a multiple of {_ALIGNMENT_BYTES}", start),
        ((end - start) % _WORD_BYTES == 0, "command stream must be whole words", end - start),
        (0 < end - start <= MAX_STREAM_WORDS * _WORD_BYTES, "command stream must have 1 to 2**22 words", end - start),
    )
    for is_met, rule, got in rules:
        if not is_met:
            raise StreamError(f"payload: COP2 {rule}, got {got!r}")
    words = np.frombuffer(data, dtype="<u4", offset=start).astype(np.uint32)
    return Payload(PayloadFormat.COP2, config_word, id_word, words, flags)


def build_payload(words: NDArray[np.uint32], variant: Variant) -> bytes:
    """COP1 payload of a command stream: configuration, NOPs up to the alignment, stream."""
    if not 0 < len(words) <= MAX_STREAM_WORDS:
        raise StreamError(f"command stream: must have 1 to {MAX_STREAM_WORDS} words, got {len(words)}")
    head = [int.from_bytes(PayloadFormat.COP1.value, "little"), _CONFIG_ACTION_WORD]
    head += [configuration_of(variant).word, family_of(variant.accelerator.product).architecture_id]
    while (len(head) + 1) % _ALIGNMENT_WORDS:
        head.append(_ACTION_NOP)
    head.append(_stream_action(len(words)))
    return np.array(head, dtype="<u4").tobytes() + np.asarray(words, dtype="<u4").tobytes()


def replace_words(data: bytes, words: NDArray[np.uint32]) -> bytes:
    """The payload `data` with another command stream, everything else as it is; StreamError as `parse_payload`."""
    if not 0 < len(words) <= MAX_STREAM_WORDS:
        raise StreamError(f"command stream: must have 1 to {MAX_STREAM_WORDS} words, got {len(words)}")
    payload = parse_payload(data)
    stream = words.astype("<u4").tobytes()
    if payload.format is PayloadFormat.COP1:
        actions = _actions(np.frombuffer(data, dtype="<u4"))
        start = next(_WORD_BYTES * (position + 1) for action, position, _ in actions if action == _ACTION_STREAM)
        end = start + len(payload.words) * _WORD_BYTES
        head = struct.pack("<I", _stream_action(len(words)))
        return data[: start - _WORD_BYTES] + head + stream + data[end:]
    start = len(data) - len(payload.words) * _WORD_BYTES
    longer = len(stream) - (len(data) - start)
    magic, major, minor, total = _COP2_HEADER.unpack_from(data)
    kind, entry_bytes = struct.unpack_from("<II", data, _COP2_HEADER.size)
    head = _COP2_HEADER.pack(magic, major, minor, total + longer) + struct.pack("<II", kind, entry_bytes + longer)
    return head + data[len(head) : start] + stream


def _stream_action(length: int) -> int:
    """First word of the action that carries `length` command words."""
    return _ACTION_STREAM | (length >> 16) << 8 | (length & 0xFFFF) << 16
