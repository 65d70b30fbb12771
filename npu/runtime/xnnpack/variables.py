"""Resource variables that live in the delegate; the interpreter's resources do not see them."""

from __future__ import annotations

from npu.numerics.arrays import Array
from npu.runtime.operator import OperatorNode
from npu.runtime.xnnpack.operation import XnnpackOperation

VariableValues = dict[tuple[str, str], Array]


class VariableOperation(XnnpackOperation):
    """VAR_HANDLE, READ_VARIABLE or ASSIGN_VARIABLE. Shapes are those of the file: values of another shape are refused."""

    def __init__(self, index: int, node: OperatorNode, values: VariableValues) -> None:
        super().__init__(index, node)
        self._values = values

    def prepare(self) -> None:
        if self.node.kind == "VAR_HANDLE":
            self.node.set_shape(())
        elif self.node.kind == "READ_VARIABLE":
            self.node.set_shape(tuple(max(size, 0) for size in self.node.output().source.shape))

    def run(self) -> None:
        if self.node.kind == "VAR_HANDLE":
            self.node.output().array[()] = (self.node.attributes.container, self.node.attributes.shared_name)
        elif self.node.kind == "READ_VARIABLE":
            self._read()
        else:
            self._values[self._key()] = self.node.input(1).array.copy()

    def _key(self) -> tuple[str, str]:
        key: tuple[str, str] = self.node.input(0).array.reshape(-1)[0]
        return key

    def _read(self) -> None:
        output, value = self.node.output(), self._values.get(self._key())
        if value is None:
            # A variable that nobody assigned reads as zeros, as with the default kernels.
            output.array.fill(0)
        elif value.shape != output.shape or value.dtype != output.array.dtype:
            raise self.node.fail(
                f"value must be {output.dtype} of shape {list(output.shape)}, got {value.dtype} of shape {list(value.shape)}"
            )
        else:
            output.array[...] = value
