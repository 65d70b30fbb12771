"""The simulated NPU as a delegate of the interpreter: runs the command streams of `ethos-u` operators bit-exactly.

Feature maps live in scratch at the offsets of the file's arena metadata and are bound by tensor index (`npu.graph.ethos_u`
says how such an operator looks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, UserError, stream_errors_at
from npu.graph.ethos_u import CUSTOM_CODE, CUSTOM_OPTIONS, Input, Region
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.variant import Variant
from npu.isa.payload import Configuration, decode_config, find_target, is_compatible
from npu.isa.stream import CommandStream
from npu.native.call import array_address
from npu.numerics.arrays import Array
from npu.runtime.delegate import (
    Context,
    DelegateParams,
    Node,
    Registration,
    SimpleDelegate,
    SimpleDelegateKernel,
    Status,
    Tensors,
)
from npu.runtime.tensor import RuntimeTensor
from sim.container import CompiledFile, JobMap, NpuJob, job_of, job_title, npu_operators
from sim.memory import NpuMemory

if TYPE_CHECKING:
    from sim.functional.prepared import Tier
    from sim.machine import Hook, Machine

_SLACK_BYTES = 4096


class EthosUDelegate(SimpleDelegate):
    """Runs every `ethos-u` operator of a compiled file.

    `variant` None takes the shipped variant that the operator's configuration word names; else the word must fit `variant`.
    `file` is the compiled file that the interpreter runs, if its jobs have been read before; it says the variant too.
    `tier` selects the kernels; `hook` is called after every operation (see `sim.machine.Machine.run`).
    `num_threads` as `sim.machine.Machine` takes it.
    """

    def __init__(
        self,
        variant: Variant | None = None,
        *,
        file: CompiledFile | None = None,
        tier: Tier | None = None,
        hook: Hook | None = None,
        num_threads: int = 1,
    ) -> None:
        self.variant = variant if file is None else file.variant
        self.file = file
        self.tier = tier
        self.hook = hook
        self.num_threads = num_threads
        self._machines: dict[str, Machine] = {}
        self._arenas: WeakKeyDictionary[Context, dict[int, npt.NDArray[np.uint8]]] = WeakKeyDictionary()

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        return registration.builtin_code == "CUSTOM" and registration.custom_name == CUSTOM_CODE

    def initialize(self, context: Context) -> Status:
        return Status.OK

    def name(self) -> str:
        return "EthosUDelegate"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        return _JobKernel(self)

    def arena(self, context: Context, tensor: RuntimeTensor) -> npt.NDArray[np.uint8]:
        """The memory of a scratch tensor. All operators of a graph that name the tensor share it, as they do on the board:
        one may leave there what a later one completes.
        """
        arenas = self._arenas.setdefault(context, {})
        if tensor.index not in arenas:
            arenas[tensor.index] = np.zeros(tensor.bytes, np.uint8)
        return arenas[tensor.index]

    def variant_of(self, config: Configuration) -> Variant:
        """The hardware for a configuration word. SimulationError if the delegate's variant does not fit it."""
        variant = self.variant
        if variant is None:
            variant = find_target(config, [load_variant(name) for name in list_variants()])
        elif not is_compatible(config, variant.accelerator):
            made_for = f"{config.product.name} with {config.macs_per_cycle} MACs"
            raise SimulationError(f"must be compiled for {variant.name}, got one for {made_for}")
        return variant

    def machine(self, config: Configuration) -> Machine:
        """The machine for a configuration word, made once. It is imported for the first run: whether a file can run is said
        without it.
        """
        from sim.machine import Machine

        variant = self.variant_of(config)
        if variant.name not in self._machines:
            self._machines[variant.name] = Machine(variant, self.tier, self.num_threads)
        return self._machines[variant.name]


class _JobKernel(SimpleDelegateKernel):
    """One partition: one or more consecutive `ethos-u` operators."""

    def __init__(self, delegate: EthosUDelegate) -> None:
        self._delegate = delegate
        self._jobs: list[_BoundJob] = []

    def init(self, context: Context, params: DelegateParams) -> Status:
        try:
            for index in params.nodes_to_replace:
                node, _ = context.get_node_and_registration(index)
                self._jobs.append(_BoundJob(self._delegate, context, node))
        except UserError as error:
            context.report_error(str(error.at(job_title(index))))
            return Status.DELEGATE_ERROR
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        made: frozenset[int] = frozenset()
        for job in self._jobs:
            with job.errors:
                job.run(context, made)
            made |= job.outputs
        return Status.OK

    def eval_many(self, context: Context, node: Node, given: Tensors, made: Tensors) -> int:
        return self._jobs[0].run_many(given, made) if len(self._jobs) == 1 else 0


class _BoundJob:
    """One operator bound to a memory."""

    def __init__(self, delegate: EthosUDelegate, context: Context, node: Node) -> None:
        if node.custom_options != CUSTOM_OPTIONS:
            got = node.custom_options[:8].hex(" ") or "none"
            raise SimulationError(f"custom options must be {CUSTOM_OPTIONS.hex(' ')}, got {got}")
        file = delegate.file if delegate.file is not None and delegate.file.model is context.model else None
        place = context.subgraph_index, node.index
        job = job_of(context.model, *place) if file is None else file.job(*place)
        tensors = context.tensors
        self.errors = stream_errors_at(job_title(node.index), operator=node.index)
        self._delegate = delegate
        self._config = decode_config(job.payload.config_word)
        variant = delegate.variant_of(self._config)
        self._machine: Machine | None = None
        self._stream = CommandStream(job.payload.words, variant) if file is None else file.stream(*place)
        regions: dict[int, npt.NDArray[np.uint8]] = {
            Region.CONSTANTS: _read_only(tensors[node.inputs[Input.CONSTANTS]]),
            Region.ARENA: delegate.arena(context, tensors[node.inputs[Input.SCRATCH]]),
            Region.FAST: delegate.arena(context, tensors[node.inputs[Input.FAST_SCRATCH]]),
        }
        regions |= {region: _separate(job, region) for region in job.region_bytes.keys() - regions.keys()}
        is_alone = (
            sum(1 for _ in npu_operators(context.model)) == 1
        )  # others could read anything of the scratch that they share
        results = [output.place for output in job.outputs] if is_alone else None
        self._memory = NpuMemory(regions, variant, results, [given.place for given in job.inputs])
        self._inputs, self._outputs = _places(job.inputs, regions), _places(job.outputs, regions)
        self.outputs = frozenset(place.index for place in self._outputs)
        """Indices of the tensors it writes."""
        placed = self.outputs.union(place.index for place in self._inputs)
        for index in (*node.inputs[Input.FIRST_MAP :], *node.outputs):
            if index not in placed and not tensors[index].is_constant:
                raise SimulationError(f"tensor '{tensors[index].name}': must have a place in the arena, got none")

    def run(self, context: Context, made_before: frozenset[int] = frozenset()) -> None:
        """Copy the inputs into scratch, execute, copy the outputs out.

        Tensors inside a partition have no buffer: those of `made_before`, outputs of its earlier jobs, are in scratch.
        """
        tensors = context.tensors
        for place in self._inputs:
            array = tensors[place.index].data
            if array is None and place.index in made_before:
                continue
            place.fill(tensors[place.index].array)
        if self._machine is None:
            self._machine = self._delegate.machine(self._config)
        self._machine.run(self._stream, self._memory, hook=self._delegate.hook)
        for place in self._outputs:
            array = tensors[place.index].data
            if array is not None:
                place.copy_to(array)

    def run_many(self, given: Tensors, made: Tensors) -> int:
        """Inferences of inputs and outputs of their own, in one call; how many are done."""
        if self._machine is None or self._delegate.hook is not None or not made.keys() <= self.outputs:
            return 0
        inputs, outputs = self._inputs, [place for place in self._outputs if place.index in made]
        if not given.keys() >= {place.index for place in inputs}:
            return 0
        addresses = _addresses([given[place.index] for place in inputs]), _addresses([made[place.index] for place in outputs])
        from sim.functional.prepared import Moved

        moved = Moved(_spans(inputs), _spans(outputs), addresses)
        with self.errors:
            return self._machine.run_again(self._stream, self._memory, moved)


class _BoundTensor:
    """Where a tensor is in its region."""

    __slots__ = ("_array", "_theirs", "_view", "index")

    def __init__(self, index: int, data: npt.NDArray[np.uint8]) -> None:
        self.index, self._view = index, data.data
        self._array: Array | None = None
        self._theirs = self._view

    @property
    def span(self) -> tuple[int, int]:
        """Address and bytes."""
        return array_address(self._view), self._view.nbytes

    def fill(self, array: Array) -> None:
        """Take over the values of a tensor's buffer."""
        self._view[:] = self._bytes_of(array)

    def copy_to(self, array: Array) -> None:
        """Give the values to a tensor's buffer."""
        self._bytes_of(array)[:] = self._view

    def _bytes_of(self, array: Array) -> memoryview:
        """Of a buffer, which is another one only after an allocation; it has no gaps."""
        if array is not self._array:
            assert array.flags.c_contiguous
            self._array, self._theirs = array, array.reshape(-1).view(np.uint8).data
        return self._theirs


def _spans(places: Sequence[_BoundTensor]) -> npt.NDArray[np.int64]:
    """(places, 2): addresses and bytes."""
    return np.array([place.span for place in places], np.int64).reshape(len(places), 2)


def _addresses(tensors: Sequence[Sequence[Array]]) -> npt.NDArray[np.int64]:
    """(runs, tensors): where the arrays of each tensor are."""
    return np.ascontiguousarray(np.array([list(map(array_address, arrays)) for arrays in tensors], np.int64).T)


def _read_only(tensor: RuntimeTensor) -> npt.NDArray[np.uint8]:
    if tensor.bytes == 0:
        return np.zeros(0, np.uint8)
    if not tensor.is_constant or tensor.data is None:
        raise SimulationError(f"read-only tensor '{tensor.name}' must be a constant, got a computed one")
    data = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return data


def _separate(job: NpuJob, region: int) -> npt.NDArray[np.uint8]:
    """A region of inputs or outputs alone, as large as its maps need."""
    places = [given.place for given in (*job.inputs, *job.outputs) if given.place[0] == region]
    limit = 2 * sum(end - start for _, start, end in places) + _SLACK_BYTES
    size = job.region_bytes[region]
    if size > limit:
        raise SimulationError(f"region {region} must hold its maps in at most {limit} bytes, got offsets up to {size}")
    return np.zeros(size, np.uint8)


def _places(maps: Sequence[JobMap], regions: Mapping[int, npt.NDArray[np.uint8]]) -> list[_BoundTensor]:
    """Of the tensors; constants without a place are in the read-only data."""
    places = []
    for fm in maps:
        region, start, end = fm.place
        if end > regions[region].size:
            raise SimulationError(
                f"tensor '{fm.name}': {end - start} bytes must lie in {regions[region].size} of scratch, got offset {start}"
            )
        places.append(_BoundTensor(fm.index, regions[region][start:end]))
    return places
