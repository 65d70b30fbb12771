"""The simulated NPU as a delegate of the interpreter: runs the command streams of `ethos-u` operators bit-exactly.

Feature maps live in scratch at the offsets of the file's arena metadata and are bound by tensor index (`npu.graph.ethos_u`
says how such an operator looks).
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, UserError, stream_errors_at
from npu.graph.ethos_u import CUSTOM_CODE, CUSTOM_OPTIONS, Input, Region, arena_offsets
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.variant import Variant
from npu.isa.payload import Configuration, decode_config, find_target, is_compatible, parse_payload
from npu.runtime.delegate import (
    Context,
    DelegateParams,
    Node,
    Registration,
    SimpleDelegate,
    SimpleDelegateKernel,
    Status,
)
from npu.runtime.tensor import RuntimeTensor
from sim.container import job_title, regions_of_maps
from sim.functional.plan import Tier
from sim.machine import Hook, Machine
from sim.memory import Memory

_SLACK_BYTES = 4096


class EthosUDelegate(SimpleDelegate):
    """Runs every `ethos-u` operator of a compiled file.

    `variant` None takes the shipped variant that the operator's configuration word names; else the word must fit `variant`.
    `tier` selects the kernels; `hook` is called after every operation (see `sim.machine.Machine.run`).
    """

    def __init__(self, variant: Variant | None = None, *, tier: Tier | None = None, hook: Hook | None = None) -> None:
        self.variant = variant
        self.tier = tier
        self.hook = hook
        self._machines: dict[str, Machine] = {}
        self._arenas: WeakKeyDictionary[Context, dict[int, npt.NDArray[np.uint8]]] = WeakKeyDictionary()

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        return registration.builtin_code == "CUSTOM" and registration.custom_name == CUSTOM_CODE

    def initialize(self, context: Context) -> Status:
        return Status.OK

    def name(self) -> str:
        return "EthosUDelegate"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        return _Kernel(self)

    def arena(self, context: Context, tensor: RuntimeTensor) -> npt.NDArray[np.uint8]:
        """The memory of a scratch tensor. All operators of a graph that name the tensor share it, as they do on the board:
        one may leave there what a later one completes.
        """
        arenas = self._arenas.setdefault(context, {})
        if tensor.index not in arenas:
            arenas[tensor.index] = np.zeros(tensor.bytes, np.uint8)
        return arenas[tensor.index]

    def machine(self, config: Configuration) -> Machine:
        """The machine for a configuration word, made once. SimulationError if the delegate's variant does not fit it."""
        variant = self.variant
        if variant is None:
            variant = find_target(config, [load_variant(name) for name in list_variants()])
        elif not is_compatible(config, variant.accelerator):
            made_for = f"{config.product.name} with {config.macs_per_cycle} MACs"
            raise SimulationError(f"must be compiled for {variant.name}, got one for {made_for}")
        if variant.name not in self._machines:
            self._machines[variant.name] = Machine(variant, self.tier)
        return self._machines[variant.name]


class _Kernel(SimpleDelegateKernel):
    """One partition: one or more consecutive `ethos-u` operators."""

    def __init__(self, delegate: EthosUDelegate) -> None:
        self._delegate = delegate
        self._jobs: list[_Job] = []

    def init(self, context: Context, params: DelegateParams) -> Status:
        try:
            for index in params.nodes_to_replace:
                node, _ = context.get_node_and_registration(index)
                self._jobs.append(_Job(self._delegate, context, node))
        except UserError as error:
            context.report_error(str(error.at(job_title(index))))
            return Status.DELEGATE_ERROR
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        made: frozenset[int] = frozenset()
        for job in self._jobs:
            with stream_errors_at(job_title(job.index), operator=job.index):
                job.run(context, made)
            made |= job.outputs
        return Status.OK


class _Job:
    """One operator bound to a memory."""

    def __init__(self, delegate: EthosUDelegate, context: Context, node: Node) -> None:
        _check_node(node)
        self.index = node.index
        tensors = context.tensors
        self._delegate = delegate
        payload = parse_payload(_constant(tensors, node.inputs[Input.COMMANDS], "command stream").tobytes())
        self._words = payload.words
        self._machine = delegate.machine(decode_config(payload.config_word))
        offsets = _offsets(context)
        scratch = tensors[node.inputs[Input.SCRATCH]]
        self._arena = delegate.arena(context, scratch)
        origin = max(0, offsets[scratch.index])
        constants = _read_only(tensors, node.inputs[Input.CONSTANTS])
        regions: dict[int, npt.NDArray[np.uint8]] = {Region.CONSTANTS: constants, Region.ARENA: self._arena}
        regions[Region.FAST] = delegate.arena(context, tensors[node.inputs[Input.FAST_SCRATCH]])
        inputs, outputs = node.inputs[Input.FIRST_MAP :], node.outputs
        for_inputs, for_outputs = regions_of_maps(payload)
        if for_inputs != Region.ARENA:
            regions[for_inputs] = _separate(for_inputs, inputs, tensors, offsets)
            regions[for_outputs] = _separate(for_outputs, outputs, tensors, offsets)
        self._memory = Memory(regions, self._machine.variant)
        self._inputs = _places(tensors, inputs, offsets, origin if for_inputs == Region.ARENA else 0, regions[for_inputs])
        self._outputs = _places(tensors, outputs, offsets, origin if for_outputs == Region.ARENA else 0, regions[for_outputs])

    @property
    def outputs(self) -> frozenset[int]:
        """Indices of the tensors it writes."""
        return frozenset(index for index, _ in self._outputs)

    def run(self, context: Context, made_before: frozenset[int] = frozenset()) -> None:
        """Copy the inputs into scratch, execute, copy the outputs out.

        Tensors inside a partition have no buffer: those of `made_before`, outputs of its earlier jobs, are in scratch.
        """
        for index, place in self._inputs:
            if index in made_before and context.tensors[index].data is None:
                continue
            place[:] = np.ascontiguousarray(context.tensors[index].array).reshape(-1).view(np.uint8)
        self._machine.run(self._words, self._memory, hook=self._delegate.hook)
        for index, place in self._outputs:
            array = context.tensors[index].data
            if array is not None:
                array[...] = place.view(array.dtype).reshape(array.shape)


def _check_node(node: Node) -> None:
    if len(node.inputs) < Input.FIRST_MAP or any(index < 0 for index in node.inputs):
        raise SimulationError(
            f"must have command stream, read-only data and two scratches as inputs, got {len(node.inputs)} inputs"
        )
    if node.custom_options != CUSTOM_OPTIONS:
        got = node.custom_options[:8].hex(" ") or "none"
        raise SimulationError(f"custom options must be {CUSTOM_OPTIONS.hex(' ')}, got {got}")


def _constant(tensors: Sequence[RuntimeTensor], index: int, what: str) -> npt.NDArray[np.uint8]:
    tensor = tensors[index]
    if not tensor.is_constant or tensor.data is None:
        raise SimulationError(f"{what} tensor '{tensor.name}' must be a constant, got a computed one")
    return np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)


def _read_only(tensors: Sequence[RuntimeTensor], index: int) -> npt.NDArray[np.uint8]:
    if tensors[index].bytes == 0:
        return np.zeros(0, np.uint8)
    data = _constant(tensors, index, "read-only").view()
    data.flags.writeable = False
    return data


def _offsets(context: Context) -> list[int]:
    """Arena offset of every tensor of the context's subgraph, -1 where not planned."""
    first = sum(len(graph.tensors) for graph in context.model.graphs[: context.subgraph_index])
    offsets: list[int] = arena_offsets(context.model)[first : first + len(context.tensors)].tolist()
    return offsets


def _separate(
    region: int, indices: Sequence[int], tensors: Sequence[RuntimeTensor], offsets: Sequence[int]
) -> npt.NDArray[np.uint8]:
    """A region of inputs or outputs alone, as large as its maps need."""
    total = max((offsets[index] + tensors[index].bytes for index in indices if offsets[index] >= 0), default=0)
    limit = 2 * sum(tensors[index].bytes for index in indices) + _SLACK_BYTES
    if total > limit:
        raise SimulationError(f"region {region} must hold its maps in at most {limit} bytes, got offsets up to {total}")
    return np.zeros(-(-total // 16) * 16, np.uint8)


def _places(
    tensors: Sequence[RuntimeTensor], indices: Sequence[int], offsets: Sequence[int], origin: int, arena: npt.NDArray[np.uint8]
) -> list[tuple[int, npt.NDArray[np.uint8]]]:
    """(tensor index, its bytes in its region); constants without a place are in the read-only data."""
    places = []
    for index in indices:
        tensor = tensors[index]
        if tensor.is_constant and offsets[index] < 0:
            continue
        start = offsets[index] - origin
        if offsets[index] < 0 or start < 0 or start + tensor.bytes > arena.size:
            raise SimulationError(
                f"tensor '{tensor.name}': {tensor.bytes} bytes must lie in {arena.size} of scratch, got offset {start}"
            )
        places.append((index, arena[start : start + tensor.bytes]))
    return places
