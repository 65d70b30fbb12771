"""Features of discrete inputs: LSH_PROJECTION and SKIP_GRAM.

Facts of the TFLite reference kernels of these operators are in the functions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npu.graph.attributes import LshProjectionType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.fingerprint import fingerprint64
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.types import for_codes


def build_lsh_projection(node: OperatorNode) -> Run:
    """LSH_PROJECTION: signs of hashed items, seeds (functions, bits) and items (n, ...) to int32.

    A bit is whether the sum over the items of weight times Fingerprint64(bytes of the float seed, then of the item), as a
    signed number in double, is above zero. DENSE gives all bits; SPARSE packs those of function i, the first one on top, and
    adds i * 2**bits, in int32.
    """
    seeds, items, weights = node.input(0), node.input(1), node.optional(2)
    if len(seeds.shape) != 2 or seeds.shape[1] > 32:
        raise node.fail(f"seeds must have rank 2 and at most 32 bits, got {list(seeds.shape)}")
    if not items.shape or not items.shape[0]:
        raise node.fail(f"input must have an item, got {list(items.shape)}")
    if weights is not None and weights.shape != items.shape[:1]:
        raise node.fail(f"weights must have shape {[items.shape[0]]}, got {list(weights.shape)}")
    kind = node.attributes.type
    if kind not in (LshProjectionType.SPARSE, LshProjectionType.DENSE):
        raise node.fail(f"type must be SPARSE or DENSE, got {kind.name}")
    bits = seeds.shape[1]

    def run() -> None:
        signs = _signs(seeds.array, items.array, None if weights is None else weights.array)
        if kind is LshProjectionType.DENSE:
            node.output().array[...] = signs.ravel()
            return
        packed = [sum(int(bit) << (bits - 1 - j) for j, bit in enumerate(row)) for row in signs]
        total = np.array([value + (i << (bits % 32)) for i, value in enumerate(packed)], np.int64)
        node.output().array[...] = total.astype(np.int32)

    return run


def _signs(seeds: Array, items: Array, weights: Array | None) -> Array:
    rows = [np.ascontiguousarray(text).tobytes() for text in items]
    signs = np.zeros(seeds.shape, np.int32)
    for place, seed in np.ndenumerate(seeds):
        score = 0.0
        for i, row in enumerate(rows):
            value = float(fingerprint64(np.float32(seed).tobytes() + row))
            score += value if weights is None else float(weights[i]) * value
        signs[place] = score > 0
    return signs


def build_skip_gram(node: OperatorNode) -> Run:
    """SKIP_GRAM: the word groups of a sentence, as strings joined by blanks.

    Groups have `ngram_size` words (or fewer with `include_all_ngrams`) in their order, with at most `max_skip_size` words left
    out between two of them, the next word first. Words end at a white-space character; the first character of the sentence
    never ends one.
    """
    sentence, a = node.input(0), node.attributes
    if not 1 <= a.ngram_size <= 64 or a.max_skip_size < 0:
        raise node.fail(f"groups must have 1 to 64 words and skip 0 or more, got {a.ngram_size} and {a.max_skip_size}")
    node.set_dynamic()

    def run() -> None:
        if not sentence.elements:
            raise node.fail("input must have a string, got none")
        words = _words(sentence.array.reshape(-1)[0])
        groups = list(_groups(words, a.ngram_size, a.max_skip_size, all_sizes=a.include_all_ngrams))
        node.set_shape((len(groups),))
        node.output().array[:] = groups

    return run


_SPACES = b" \t\n\v\f\r"


def _words(text: bytes) -> list[bytes]:
    words, start = [], 0
    for i in range(1, len(text)):
        if text[i] in _SPACES:
            if i > start and text[start] not in _SPACES:
                words.append(text[start:i])
            start = i + 1
    return [*words, text[start:]] if len(text) > start else words


def _groups(words: list[bytes], size: int, skip: int, *, all_sizes: bool) -> Iterator[bytes]:
    """Groups in depth-first order, a longer group before its beginning."""
    if len(words) < size:
        return

    def extend(chosen: list[int]) -> Iterator[bytes]:
        if len(chosen) < size:
            for following in range(chosen[-1] + 1, min(chosen[-1] + skip + 2, len(words))):
                yield from extend([*chosen, following])
        if len(chosen) == size or all_sizes:
            yield b" ".join(words[i] for i in chosen)

    for first in range(len(words)):
        yield from extend([first])


_ITEMS = "f32 i8 u8 i16 i32 i64 bool"

OPERATORS = (
    Implementation("LSH_PROJECTION", build_lsh_projection, for_codes("f32 T f32? -> i32", _ITEMS)),
    Implementation("SKIP_GRAM", build_skip_gram, ("str -> str",)),
)
