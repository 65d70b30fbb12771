"""What one operator sees while it is prepared: its tensors and options; the interface between the interpreter and the operator
table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from npu.errors import InterpreterError
from npu.graph.consistency import infer_shapes
from npu.graph.dtype import DType
from npu.graph.operands import Mismatch, Operands
from npu.graph.ops import BY_NAME
from npu.graph.shapes.common import unknown
from npu.numerics.arrays import Array
from npu.numerics.lstm_gates import LstmGates
from npu.records import dataclass
from npu.runtime.tensor import RuntimeTensor

if TYPE_CHECKING:
    from npu.runtime.custom import CustomOperator

Run = Callable[[], None]
"""Executes a prepared operator: reads the input buffers, writes the output buffers. Called once per invoke."""


class SubgraphServices(Protocol):
    """What control flow and resource variables need from the interpreter."""

    def run_subgraph(self, index: int, arguments: Sequence[Array]) -> list[Array]:
        """Run another subgraph of the model on copies of `arguments`; copies of its outputs."""

    def prepare_subgraph(self, index: int, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
        """Prepare another subgraph for inputs of these shapes; the shapes of its outputs, None if the run decides them."""

    def signature_of(self, index: int) -> tuple[list[DType], list[DType]]:
        """Types of the inputs and of the outputs of a subgraph; InterpreterError if there is none of that index."""

    @property
    def resources(self) -> dict[tuple[str, str], Array]:
        """Values of resource variables by (container, shared name)."""

    def run_once(self, index: int) -> None:
        """Run an initialisation subgraph unless this interpreter ran it before."""


LOOP_LIMIT = 100_000
"""What commands give as `while_limit`: a file whose loop never ends is an error there, not a hang."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Choices that change results. `fully_connected_rounding` is "double" (LiteRT reference) or "npu" (two integer
    roundings)."""

    fully_connected_rounding: str = "double"
    lstm_gates: LstmGates = LstmGates.EXACT
    """Gates of int8 LSTM cells without peepholes, projection and normalisation."""
    use_xnnpack: bool = False
    """Apply the XNNPACK-like delegate with its default options and the interpreter's number of threads."""
    while_limit: int | None = None
    """The largest number of iterations of one WHILE; more are an InterpreterError. None: no limit, as in LiteRT."""
    custom_operators: Mapping[str, CustomOperator] = field(default_factory=dict)
    """Kernels of custom operators by name, for this interpreter alone; they come before those that are registered for all."""


@dataclass(slots=True)
class OperatorNode:
    """An operator with its run-time tensors. `inputs` has None where an optional input is absent."""

    kind: str
    label: str
    inputs: tuple[RuntimeTensor | None, ...]
    outputs: tuple[RuntimeTensor, ...]
    attributes: Any
    services: SubgraphServices
    options: RuntimeOptions
    allocate: Callable[[RuntimeTensor, tuple[int, ...]], None]
    intermediates: tuple[RuntimeTensor, ...] = ()
    custom_options: bytes = b""

    def input(self, position: int) -> RuntimeTensor:
        """A mandatory input."""
        tensor = self.optional(position)
        if tensor is None:
            raise InterpreterError(f"{self.label}: input {position} must be given, it is absent")
        return tensor

    def optional(self, position: int) -> RuntimeTensor | None:
        """An input that may be absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self, position: int = 0) -> RuntimeTensor:
        """An output; there must be that many."""
        if position >= len(self.outputs):
            raise InterpreterError(f"{self.label}: must have at least {position + 1} outputs, got {len(self.outputs)}")
        return self.outputs[position]

    def set_shape(self, shape: Sequence[int], position: int = 0) -> None:
        """Fix an output's shape during prepare, or in a run for an output that was declared dynamic."""
        tensor = self.output(position)
        if any(size < 0 for size in shape):
            raise InterpreterError(f"{self.label}: output {position} must have no negative dimension, got {list(shape)}")
        self.allocate(tensor, tuple(int(size) for size in shape))

    def set_dynamic(self, position: int = 0) -> None:
        """Declare that an output's shape is known only in the run."""
        self.output(position).is_dynamic = True

    def scalar(self, tensor: RuntimeTensor) -> Any:
        """The only element of a tensor, as a numpy scalar."""
        if tensor.elements != 1:
            raise self.fail(f"tensor '{tensor.name}' must have one element, got shape {list(tensor.shape)}")
        return tensor.array.reshape(-1)[0]

    def known(self, position: int) -> Array | None:
        """The value of an input if it is a constant, None if it is computed."""
        tensor = self.input(position)
        return tensor.data if tensor.is_constant else None

    def place(self, *, is_running: bool = False) -> bool:
        """Set the shapes of the outputs by the operator table, as far as it has a rule; False where elements decide them.

        Before a run only constants are known, in a run every input is.
        """
        row = BY_NAME.get(self.kind)
        if row is None or row.shape in (None, unknown):
            return True
        known = [None if one is None or not (one.is_constant or is_running) else one.data for one in self.inputs]
        try:
            shapes = infer_shapes(row, Operands(self.attributes, self.inputs, self.outputs, known))
        except Mismatch as error:
            raise self.fail(str(error)) from error
        for position in range(len(self.outputs)):
            if shapes is None:
                self.set_dynamic(position)
            else:
                self.set_shape(shapes[position], position)
        return shapes is not None

    def fail(self, message: str) -> InterpreterError:
        """An error that names the operator; to be raised by the caller."""
        return InterpreterError(f"{self.label}: {message}")
