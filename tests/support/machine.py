"""Random valid operations with memories to run them on; every choice comes from one seeded generator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    UINT8,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    OperandScaling,
    Pooling,
    PoolingMode,
    Rounding,
    Scale,
    ShramLayout,
    Traversal,
    Upscale,
)
from sim.functional.prepared import Tier, best_tier
from sim.memory import NpuMemory

from tests.naive.operations_weights import encode_plain, encode_records, order
from tests.support.registers import members, modes

ARENA_BYTES = 1 << 17
SHRAM = ShramLayout(2, 16, 8)
TIERS = [tier for tier in Tier if tier is not Tier.DOT_PRODUCT or best_tier() is Tier.DOT_PRODUCT]
"""What this CPU can run."""
Constants = tuple[np.ndarray, list[int], list[Scale]]
"""Weights (O, KH, KW, I), and the bias and scale of each output channel."""


class Workbench:
    """Places feature maps and constants in a memory; `plain` makes operations that the fast kernels take more likely."""

    def __init__(self, seed: int, *, target: str = "ethos-u55-128", plain: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.variant: Variant = load_variant(target)
        self.plain = plain
        self.arena = self.rng.integers(0, 256, ARENA_BYTES, np.uint8)
        self.constants = bytearray()
        self.position = 0

    def memory(self) -> NpuMemory:
        """A fresh memory with the arena in region 1 and the constants in region 0."""
        read_only = np.frombuffer(bytes(self.constants), np.uint8)
        memory = NpuMemory({0: read_only, 1: self.arena.copy()}, self.variant)
        memory.shram[:] = np.random.default_rng(7).integers(0, 256, memory.shram.shape[1], np.uint8)
        return memory

    def number(self, low: int, high: int) -> int:
        """Low..high inclusive."""
        return int(self.rng.integers(low, high + 1))

    def choose(self, *values):  # type: ignore[no-untyped-def]
        """One of the values."""
        return values[self.number(0, len(values) - 1)]

    def maybe(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _allocate(self, size: int) -> int:
        start = -(-self.position // 16) * 16
        self.position = start + size
        assert self.position <= ARENA_BYTES, "the arena of the workbench is too small"
        return start

    def store(self, data: bytes) -> AddressRange:
        """Put constants into region 0."""
        start = len(self.constants)
        self.constants += data
        return AddressRange(0, start, len(data))

    def element(self) -> ElementType:
        if self.plain:
            return INT8 if self.maybe(0.8) else UINT8
        return self.choose(INT8, UINT8, INT16)

    def zero_point(self, element: ElementType) -> int:
        if element.bits == 32 or self.maybe(0.2):
            return 0
        return self.number(element.minimum, element.maximum) if element.bits == 8 else self.number(-300, 300)

    def feature_map(self, height: int, width: int, depth: int, element: ElementType, *, reversible: bool = False) -> FeatureMap:
        """A feature map somewhere in the arena, in any layout, with gaps, tiles and (if `reversible`) negative strides."""
        size = element.bytes
        layout = self.choose(Layout.NHWC, Layout.NHCWB16)
        step_x = depth * size + (self.number(0, 1) * size if layout is Layout.NHWC else 0)
        bricks = -(-depth // 16)
        step_c = 16 * size * width + 16 * self.number(0, 1)
        step_y = (
            width * step_x + size * self.number(0, 3) if layout is Layout.NHWC else bricks * step_c + 16 * self.number(0, 1)
        )
        row_first, column_first = height, width
        second = height
        if self.maybe(0.3):
            row_first, second = self.number(1, height), self.number(1, height)
        if self.maybe(0.1 if self.plain else 0.25):
            column_first = self.number(1, width)
        is_up = reversible and layout is Layout.NHWC and self.maybe(0.2)
        addresses = []
        for _ in range(4):
            extent = (height + 1) * step_y + (16 * size * width if layout is Layout.NHCWB16 else 0)
            start = self._allocate(extent + 32)
            addresses.append(start + (height - 1) * step_y if is_up else start)
        return FeatureMap(
            region=1,
            height=height,
            width=width,
            depth=depth,
            element=element,
            layout=layout,
            zero_point=self.zero_point(element),
            addresses=(addresses[0], addresses[1], addresses[2], addresses[3]),
            tile_height_0=row_first,
            tile_height_1=second,
            tile_width_0=column_first,
            stride_y=-step_y if is_up else step_y,
            stride_x=16 * size if layout is Layout.NHCWB16 else step_x,
            stride_c=step_c if layout is Layout.NHCWB16 else size,
        )

    def activation(self, element: ElementType) -> Activation:
        """Any clamp and function that fits an OFM type."""
        if element.bits == 32:
            if self.maybe(0.7):
                return Activation(-32768, 32767)
            return Activation(-128, 127, self.choose(ActivationFunction.NONE, ActivationFunction.LUT_4), ClipRange.FORCE_INT8)
        low = self.number(element.minimum, -1 if element.is_signed else 60)
        high = self.number(max(low, 0), element.maximum)
        function = ActivationFunction.NONE
        if self.maybe(0.1 if self.plain else 0.3):
            if element.bits == 8:
                function = self.choose(ActivationFunction.LUT_0, ActivationFunction.LUT_3, ActivationFunction.LUT_7)
            else:
                function = self.choose(ActivationFunction.LUT_0, ActivationFunction.TANH, ActivationFunction.SIGMOID)
        clips = {8: ClipRange.FORCE_INT8 if element.is_signed else ClipRange.FORCE_UINT8, 16: ClipRange.FORCE_INT16}
        clip = clips[element.bits] if self.maybe(0.1) else ClipRange.OFM_PRECISION
        return Activation(low, high, function, clip)

    def rounding(self) -> Rounding:
        return Rounding.DOUBLE if self.plain and self.maybe(0.8) else self.choose(*members("rounding"))

    def scale(self, element: ElementType, expected_bits: int) -> Scale:
        """A scale that brings sums of about `expected_bits` bits near the OFM's range."""
        bits = 15 if element.bits == 16 and expected_bits > 24 else 31
        value = self.number(1 << bits - 1, (1 << bits) - 1)
        return Scale(value, min(63, max(0, bits + max(-3, expected_bits - 8) + self.number(-4, 2))))

    def output(self, height: int, width: int, depth: int, element: ElementType, ifm: FeatureMap) -> dict[str, object]:
        """What every kernel operation has."""
        unit = self.variant.accelerator.ofm_ublock.depth * self.variant.accelerator.cores
        return {
            "ofm": self.feature_map(height, width, depth, element, reversible=True),
            "ifm": ifm,
            "block": Block(4, 4, unit * self.number(1, 4)),
            "shram": SHRAM,
            "activation": self.activation(element),
            "rounding": self.rounding(),
        }

    def window(self, largest: int = 5) -> tuple[KernelWindow, IfmPadding, Upscale, tuple[int, int], tuple[int, int]]:
        """(kernel, padding, upscaling, OFM height and width, IFM height and width)."""
        while True:
            kernel = KernelWindow(
                self.number(1, largest),
                self.number(1, largest),
                self.number(1, 3),
                self.number(1, 3),
                1 + self.maybe(0.2),
                1 + self.maybe(0.2),
            )
            upscale = self.choose(Upscale.NEAREST, Upscale.ZEROS) if self.maybe(0.15) else Upscale.NONE
            top, left = self.number(0, kernel.dilated_height - 1), self.number(0, kernel.dilated_width - 1)
            bottom, right = self.number(0, kernel.dilated_height - 1), self.number(0, kernel.dilated_width - 1)
            padding = IfmPadding() if self.maybe(0.4) else IfmPadding(top, left, bottom, right)
            ofm = (self.number(1, 6), self.number(1, 7))
            factor = 1 if upscale is Upscale.NONE else 2
            needed_y = (ofm[0] - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom
            needed_x = (ofm[1] - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right
            if needed_y > 0 and needed_x > 0:
                return kernel, padding, upscale, ofm, (-(-needed_y // factor), -(-needed_x // factor))

    def convolution(self) -> Convolution | DepthwiseConvolution:
        """A convolution or depthwise convolution with its streams in region 0."""
        is_depthwise = self.maybe(0.4)
        kernel, padding, upscale, ofm_size, ifm_size = self.window(3 if self.plain and self.maybe(0.7) else 5)
        depth = self.choose(1, 3, 8, self.number(1, 40), 16, 32)
        outputs = depth if is_depthwise else self.choose(self.number(1, 70), 16, 5)
        element = self.element()
        ifm = self.feature_map(*ifm_size, depth, element)
        out_element = element if self.maybe(0.7) else self.choose(INT8, UINT8, INT16, INT32)
        cores = min(self.variant.accelerator.cores, outputs)
        unused = (AddressRange(0, 0, 0),) * cores
        common = self.output(*ofm_size, outputs, out_element, ifm)
        common |= {"kernel": kernel, "padding": padding, "upscale": upscale, "weights": unused, "scales": unused}
        common |= {"scale": self.scale(element, 18) if self.maybe(0.1) else None, "has_4x4_sub_kernels": self.maybe(0.1)}
        operation: Convolution | DepthwiseConvolution
        if is_depthwise:  # noqa: SIM108 - the type comments need a line each
            operation = DepthwiseConvolution(**common)  # type: ignore[arg-type]
        else:
            operation = Convolution(traversal=self.choose(*Traversal), **common)  # type: ignore[arg-type]
        return self._with_constants(operation, 1 if is_depthwise else depth)

    def dense_convolution(self, height: int, width: int, depth: int, outputs: int) -> Convolution:
        """A 3x3 convolution of int8 maps that keeps their size."""
        done = self.windowed(KernelWindow(3, 3), IfmPadding(1, 1, 1, 1), (height, width), depth, outputs)
        assert isinstance(done, Convolution)
        return done

    def windowed(
        self,
        kernel: KernelWindow,
        padding: IfmPadding,
        ofm_size: tuple[int, int],
        depth: int,
        outputs: int | None = None,
        element: ElementType = INT8,
        constants: Constants | None = None,
    ) -> Convolution | DepthwiseConvolution:
        """A convolution with the plainest output stage, depthwise if `outputs` is None; with `constants` or random ones."""
        height = (ofm_size[0] - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom
        width = (ofm_size[1] - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right
        channels = depth if outputs is None else outputs
        unused = (AddressRange(0, 0, 0),) * min(self.variant.accelerator.cores, channels)
        common = self.output(*ofm_size, channels, element, self.feature_map(height, width, depth, element))
        common |= {"kernel": kernel, "padding": padding, "upscale": Upscale.NONE, "scale": None}
        common |= {"weights": unused, "scales": unused, "has_4x4_sub_kernels": False}
        common |= {"activation": Activation(element.minimum, element.maximum), "rounding": Rounding.DOUBLE}
        if outputs is None:
            return self._with_constants(DepthwiseConvolution(**common), 1, constants)  # type: ignore[arg-type]
        operation = Convolution(traversal=self.choose(*Traversal), **common)  # type: ignore[arg-type]
        return self._with_constants(operation, depth, constants)

    def _with_constants(
        self, operation: Convolution | DepthwiseConvolution, inputs: int, constants: Constants | None = None
    ) -> Convolution | DepthwiseConvolution:
        cores, channels = len(operation.weights), operation.ofm.depth
        weights, biases, scales = self._constants(operation, inputs) if constants is None else constants
        streams, records = [], []
        known = dict(zip(np.ndindex(weights.shape), weights.ravel().tolist(), strict=True))
        for core in range(cores):
            values = [0 if index is None else known[index] for index in order(operation, core, self.variant)]
            own = range(core, channels, cores)
            records.append(
                self.store(
                    encode_records([biases[o] for o in own], [scales[o].scale for o in own], [scales[o].shift for o in own])
                )
            )
            streams.append(self.store(encode_plain(values)))
        return replace(operation, weights=tuple(streams), scales=tuple(records))

    def _constants(self, operation: Convolution | DepthwiseConvolution, inputs: int) -> Constants:
        outputs, kernel, element = operation.ofm.depth, operation.kernel, operation.ifm.element
        reach = self.choose(127, 127, 7, 1) if self.plain else self.choose(127, 255, 7)
        weights = self.rng.integers(-reach - (reach == 127), reach + 1, (outputs, kernel.height, kernel.width, inputs))
        sums = (kernel.height * kernel.width * inputs).bit_length() // 2 + reach.bit_length() + element.bits - 3
        bits = self.choose(20, sums, sums, sums) if element.bits == 8 else 30  # larger ones than sums saturate most outputs
        biases = [self.number(-(1 << bits), 1 << bits) for _ in range(outputs)]
        return weights, biases, [self.scale(element, sums) for _ in range(outputs)]

    def pooling(self) -> Pooling:
        mode = self.choose(*modes("NPU_OP_POOL"))
        kernel, padding, upscale, ofm_size, _ = self.window()
        kernel = replace(kernel, dilation_y=1, dilation_x=1)
        if mode is PoolingMode.REDUCE_SUM or self.maybe(0.2):
            kernel, padding, upscale = KernelWindow(), IfmPadding(), Upscale.NONE
        height = (ofm_size[0] - 1) * kernel.stride_y + kernel.height - padding.top - padding.bottom
        width = (ofm_size[1] - 1) * kernel.stride_x + kernel.width - padding.left - padding.right
        if height < 1 or width < 1:
            return self.pooling()
        factor = 1 if upscale is Upscale.NONE else 2
        depth = self.number(1, 40)
        element = INT32 if mode is PoolingMode.REDUCE_SUM and self.maybe(0.3) else self.element()
        ifm = self.feature_map(-(-height // factor), -(-width // factor), depth, element)
        out_element = element if self.maybe(0.7) else self.choose(INT8, UINT8, INT16, INT32)
        channels = self.choose(1, 1, 3) if mode is PoolingMode.REDUCE_SUM else depth
        common = self.output(*ofm_size, channels, out_element, ifm)
        scale = None if self.maybe(0.4) else (Scale(1, 0) if self.maybe(0.2) else self.scale(element, element.bits))
        if element.bits == 32:
            scale = Scale(self.number(1, 1000), self.number(10, 40))
        return Pooling(mode=mode, kernel=kernel, padding=padding, upscale=upscale, scale=scale, **common)  # type: ignore[arg-type]

    def elementwise(self) -> Elementwise:
        frequent = (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MUL)
        mode = self.choose(*frequent) if self.plain else self.choose(*modes("NPU_OP_ELEMENTWISE"))
        is_shift = mode in (ElementwiseMode.SHL, ElementwiseMode.SHR, ElementwiseMode.CLZ)
        element = INT32 if is_shift or (not self.plain and self.maybe(0.2)) else self.element()
        out_element = (
            INT32 if is_shift or (element.bits == 32 and self.maybe(0.7)) else self.choose(element, element, INT8, INT32)
        )
        height, width, depth = self.number(1, 5), self.number(1, 6), self.number(1, 40)
        ifm = self.feature_map(height, width, depth, element)
        ifm2, scalar = None, None
        if not mode.is_unary:
            if self.maybe(0.2):
                scalar = self.number(max(element.minimum, -(1 << 15)), min(element.maximum, (1 << 15) - 1))
            else:
                extent = [1 if self.maybe(0.2) else size for size in (height, width, depth)]
                ifm2 = self.feature_map(extent[0], extent[1], extent[2], element)
        if is_shift and mode is not ElementwiseMode.CLZ:
            ifm2, scalar = None, self.number(0, 31)
        if element.bits == 16:
            ifm, ifm2 = replace(ifm, zero_point=0), None if ifm2 is None else replace(ifm2, zero_point=0)
        scaling = self.choose(*OperandScaling)
        left = 20 if element.bits == 8 else 15
        opa = Scale(self.number(1 << 14, (1 << 15) - 1), 0)
        if scaling is not OperandScaling.BOTH_16:
            opa = Scale(self.number(1 << 30, (1 << 31) - 1), 32 - left + self.number(0, 8))
        sums = {
            ElementwiseMode.MUL: 2 * element.bits,
            ElementwiseMode.ADD: element.bits + 15,
            ElementwiseMode.SUB: element.bits + 15,
        }
        scale = replace(self.scale(element, sums.get(mode, element.bits)))
        scale = Scale(max(1, scale.scale >> 2), max(0, scale.shift - 2)) if element.bits == 16 else scale
        if element.bits == 32:
            scale = Scale(1, self.number(0, 31))
        return Elementwise(
            mode=mode,
            ifm2=ifm2,
            scalar=scalar,
            scalar_zero_point=0 if element.bits != 8 else self.zero_point(element),
            is_reversed=not is_shift and not mode.is_unary and self.maybe(0.3),
            operand_scaling=scaling,
            operand_rounding=Rounding.DOUBLE if self.maybe(0.8) else self.choose(*members("rounding")),
            opa_scale=opa,
            opb_scale=self.number(1 << 14, (1 << 15) - 1),
            scale=scale,
            **self.output(height, width, depth, out_element, ifm),  # type: ignore[arg-type]
        )

    def operation(self) -> KernelOperation:
        """Any kernel operation."""
        return self.choose(self.convolution, self.convolution, self.pooling, self.elementwise)()
