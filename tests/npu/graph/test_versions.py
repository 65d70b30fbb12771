"""The table of versions against LiteRT, which looks kernels up by code and version."""

from __future__ import annotations

import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.errors import ModelError
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.graph.ops import OPS
from npu.graph.versions import known_versions
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

BUILTIN = [op for op in OPS if op.name not in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")]
RESOLVERS = (OpResolverType.BUILTIN, OpResolverType.BUILTIN_REF)


def one(kind: str, version: int) -> bytes:
    x, y = (Tensor(name, (1,), DType.FLOAT32) for name in "xy")
    attributes = next(op.attributes for op in OPS if op.name == kind)
    op = Op(kind, (0,), (1,), attributes=attributes() if attributes is not None else None, version=version)
    return write_model(Model((Graph("main", (x, y), (op,), (0,), (1,)),)))


def is_found(kind: str, version: int) -> bool:
    """Whether LiteRT has a kernel, or finds something else wrong."""
    for resolver in RESOLVERS:
        try:
            Interpreter(model_content=one(kind, version), experimental_op_resolver_type=resolver)
        except (RuntimeError, ValueError) as error:
            if "Didn't find op" in str(error) or "unresolved" in str(error):
                continue
        return True
    return False


@pytest.mark.parametrize("kind", [op.name for op in BUILTIN])
def test_versions_are_those_of_litert(kind: str) -> None:
    versions = known_versions(kind)
    if versions is None:
        assert not any(is_found(kind, version) for version in (1, 2))
        return
    around = {versions[0] - 1, versions[0], versions[-1], versions[-1] + 1}
    assert {version for version in around if is_found(kind, version)} == around & set(versions)


@pytest.mark.parametrize("version", [0, 4])
def test_a_version_that_nobody_has_is_refused(version: int) -> None:
    with pytest.raises(ModelError, match=rf"RELU \(op 0\): version must be in \[1, 3\], .*, got {version}$"):
        read_model(one("RELU", version))


def test_operators_of_other_makers_have_any_version() -> None:
    assert known_versions("CUSTOM") is None
    assert known_versions("UNKNOWN_300") is None
