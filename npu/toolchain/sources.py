"""Models as the verbs take them: as paths or bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from npu.arguments import BYTES, PATH, require_type
from npu.errors import ModelError
from npu.executorch import is_pte
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.graph.input_shapes import with_input_shapes
from npu.graph.known import may_be_known
from npu.graph.lookups import islands
from npu.graph.open_shapes import has_unsettled
from npu.graph.operands import Shape
from npu.graph.unread import without_unread
from npu.tflite.reader import bytes_of, read_model

Source = str | Path | bytes


def given(model: Source) -> Source:
    """What a caller gave as a model: a path, or bytes. ArgumentTypeError for anything else."""
    require_type("model", model, (*PATH, *BYTES), "a path, or the bytes of a file")
    return bytes(model) if isinstance(model, BYTES) else model


def contents(model: Source) -> bytes:
    """The bytes of a model's file. ModelError if it cannot be read."""
    return model if isinstance(model, bytes) else bytes_of(Path(model))


def load(model: Source) -> Model:
    """Read a TFLite file, Vela's raw output (.npz) or an ExecuTorch program (.pte). ModelError if it is malformed."""
    model = given(model)
    return parse(model, contents(model))


def parse(model: Source, content: bytes) -> Model:
    """`load` for a model whose contents have been read."""
    if is_pte(content):
        from npu.toolchain.pte import read_pte  # imported for such a file, as below

        return read_pte(content, model_name(model))
    if isinstance(model, bytes):
        return read_model(content)
    if not is_raw(content):
        return read_model(content, str(model))
    from npu.toolchain.raw import read_raw

    return read_raw(model)


def is_raw(model: str | Path | bytes) -> bool:
    """Whether a file (or its bytes) is a zip archive, as .npz files are."""
    if isinstance(model, bytes):
        return model[:4] == b"PK\x03\x04"
    path = Path(model)
    if not os.path.isfile(path):  # never raises, unlike Path.is_file
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def model_name(model: Source) -> str:
    """What messages and reports call the model."""
    return "<bytes>" if isinstance(model, bytes) else Path(model).name


def load_compiled(model: Source) -> Model:
    """Read a file that must hold compiled NPU jobs; ModelError if it does not."""
    source = load(model)
    if not is_compiled(source):
        raise ModelError(
            f"{model_name(model)}: must hold compiled ethos-u operators, but it is a plain model; compile it first"
        )
    return source


def load_plain(model: Source, content: bytes | None = None) -> Model:
    """Read a TFLite file that must not be compiled yet; ModelError if it is. `content` is its bytes, if they have been read."""
    model = given(model)
    source = parse(model, contents(model) if content is None else content)
    if is_compiled(source):
        raise ModelError(f"{model_name(model)}: must be a plain TFLite model, but it already holds compiled ethos-u operators")
    return source


def is_compiled_file(model: Source) -> bool:
    """Whether a model is a compiled file."""
    return is_compiled(load(model))


def reduced(source: Model) -> Model:
    """The model as it is placed and compiled: with what need not run marked as such, and no open sizes in its entry.

    What it computes of fixed shapes has become constants, and so have sparse weights; what it computes in floats of one 8-bit
    value is looked up. Itself if there is nothing of all that.
    """
    if any(graph.unneeded for graph in source.graphs):
        return source
    folded = source if _is_settled(source) else _with_folded_shapes(source)
    return without_unread(_with_lookups(folded) if any(map(islands, folded.graphs)) else folded)


def _with_lookups(source: Model) -> Model:
    from npu.fixes.lookups import with_lookups  # as below

    return with_lookups(source)


def _with_folded_shapes(source: Model) -> Model:
    from npu.fixes.constants import with_folded_shapes  # imports the interpreter, which few models need here

    return with_folded_shapes(source)


def shaped(source: Model, shapes: Mapping[str, Shape]) -> Model:
    """The model for inputs of these shapes by name. ModelError if there is no such input, or if an operator cannot follow."""
    if not shapes:
        return source
    from npu.fixes.constants import known_outputs  # as above

    return with_input_shapes(source, shapes, known_outputs)


def settled(source: Model) -> Model:
    """The model with the sizes that its entry leaves open: those of its ends, and what operators on the CPU cost."""
    if _is_settled(source):
        return source
    from npu.fixes.constants import with_settled_sizes  # as above

    return with_settled_sizes(source)


def _is_settled(source: Model) -> bool:
    asks = any(may_be_known(graph.tensors, op) for graph in source.graphs for op in graph.ops)
    return not asks and not has_unsettled(source.graphs[0])
