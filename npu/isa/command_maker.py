"""What the command tables of all families are written with: registers of a number, of an address, of a feature map."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from npu.hardware.variant import Product
from npu.isa.command import AS_IT_IS, FLAG, MINUS_ONE, PATTERN, Command, CommandKind, Field, FieldCode
from npu.isa.operations import Dma, DmaWait, Interrupt, KernelWait, Layout, PmuMask, Stop, Traversal, Upscale
from npu.records import dataclass

_ADDRESS_BITS = 40


class Signedness(IntEnum):
    """Signedness of a feature map (register value)."""

    UNSIGNED = 0
    SIGNED = 1


class Precision(IntEnum):
    """Element width of a feature map (register value), the last one of Ethos-U85."""

    BITS_8 = 0
    BITS_16 = 1
    BITS_32 = 2
    BITS_64 = 3


class ScaleMode(IntEnum):
    """Where the OFM scale comes from (register value)."""

    PER_CHANNEL = 0
    GLOBAL = 1


class Decomposition(IntEnum):
    """Largest sub-kernel (register value)."""

    SUB_KERNEL_8X8 = 0
    SUB_KERNEL_4X4 = 1


class DmaTarget(IntEnum):
    """Whether one side of a transfer is memory or a memory of the accelerator (register value)."""

    EXTERNAL = 0
    INTERNAL = 1


def bits(low: int, high: int) -> tuple[int, ...]:
    """Operand bits low..high, both included."""
    return tuple(range(low, high + 1))


SIXTEEN = bits(0, 15)
REGION = "base pointer that the addresses are relative to"
_TILES = ("tile 0, top left", "tile 1, top right", "tile 2, bottom left", "tile 3, bottom right")
_ZERO_POINT = "16-bit pattern, signed if the feature map is signed"


PLACES = {
    "ifm": (
        "NPU_SET_IFM_REGION",
        "NPU_SET_IFM_BASE0",
        "NPU_SET_IFM_BASE1",
        "NPU_SET_IFM_BASE2",
        "NPU_SET_IFM_BASE3",
        "NPU_SET_IFM_HEIGHT0_M1",
        "NPU_SET_IFM_HEIGHT1_M1",
        "NPU_SET_IFM_WIDTH0_M1",
        "NPU_SET_IFM_STRIDE_C",
        "NPU_SET_IFM_STRIDE_Y",
        "NPU_SET_IFM_STRIDE_X",
    ),
    "ifm2": (
        "NPU_SET_IFM2_REGION",
        "NPU_SET_IFM2_BASE0",
        "NPU_SET_IFM2_BASE1",
        "NPU_SET_IFM2_BASE2",
        "NPU_SET_IFM2_BASE3",
        "NPU_SET_IFM2_HEIGHT0_M1",
        "NPU_SET_IFM2_HEIGHT1_M1",
        "NPU_SET_IFM2_WIDTH0_M1",
        "NPU_SET_IFM2_STRIDE_C",
        "NPU_SET_IFM2_STRIDE_Y",
        "NPU_SET_IFM2_STRIDE_X",
    ),
    "ofm": (
        "NPU_SET_OFM_REGION",
        "NPU_SET_OFM_BASE0",
        "NPU_SET_OFM_BASE1",
        "NPU_SET_OFM_BASE2",
        "NPU_SET_OFM_BASE3",
        "NPU_SET_OFM_HEIGHT0_M1",
        "NPU_SET_OFM_HEIGHT1_M1",
        "NPU_SET_OFM_WIDTH0_M1",
        "NPU_SET_OFM_STRIDE_C",
        "NPU_SET_OFM_STRIDE_Y",
        "NPU_SET_OFM_STRIDE_X",
    ),
}
"""Registers of where each feature map is: region, four tiles, their sizes, and strides."""

_NUMBERS = {"ifm": 0, "ofm": 16, "ifm2": 128}
"""What the opcodes of their registers are larger by than those of the IFM's."""


def sign(holds: str) -> Field:
    """Of a feature map's elements."""
    return Field("sign", bits(0, 0), f"{holds}.element.is_signed", code=FLAG, enum=Signedness)


def layout(holds: str) -> Field:
    """Of a feature map."""
    return Field("layout", bits(6, 7), f"{holds}.layout", enum=Layout)


@dataclass(frozen=True, slots=True)
class CommandMaker:
    """Makes the commands of a family's products, which have addresses of so many bits."""

    address_widths: Mapping[Product, int]

    @property
    def products(self) -> frozenset[Product]:
        """All of the family."""
        return frozenset(self.address_widths)

    def operation(self, name: str, opcode: int, starts: type, doc: str, *fields: Field) -> Command:
        """A command that kicks off an operation."""
        return Command(name, opcode, CommandKind.OPERATION, fields, doc, self.products, starts=starts)

    def register(self, name: str, opcode: int, doc: str, *fields: Field, products: frozenset[Product] | None = None) -> Command:
        """A register of one word."""
        return Command(name, opcode, CommandKind.REGISTER, fields, doc, products or self.products)

    def number(
        self, name: str, opcode: int, width: int, holds: str, doc: str, code: FieldCode = AS_IT_IS, maximum: int | None = None
    ) -> Command:
        """A register that holds one unsigned number of so many bits."""
        return self.register(name, opcode, doc, Field("value", bits(0, width - 1), holds, code=code, maximum=maximum))

    def wide(self, name: str, opcode: int, doc: str, *fields: Field, products: frozenset[Product] | None = None) -> Command:
        """A register of two words."""
        return Command(name, opcode, CommandKind.WIDE_REGISTER, fields, doc, products or self.products)

    def address(self, name: str, opcode: int, holds: str, doc: str, products: frozenset[Product] | None = None) -> Command:
        """A register that holds an address."""
        field = Field("value", bits(0, _ADDRESS_BITS - 1), holds, widths=self.address_widths)
        return self.wide(name, opcode, doc, field, products=products)

    def stride(self, name: str, opcode: int, holds: str, doc: str) -> Command:
        """A register of a signed number; the Python core of Vela (up to 4.2) copies its sign into the whole parameter."""
        note = "sign-extended over the parameter"
        field = Field("value", bits(0, _ADDRESS_BITS - 1), holds, note, is_signed=True, widths=self.address_widths)
        return Command(name, opcode, CommandKind.WIDE_REGISTER, (field,), doc, self.products, sign_copies=0xFF << _ADDRESS_BITS)

    def length(
        self, name: str, opcode: int, width: int, holds: str, doc: str, products: frozenset[Product] | None = None
    ) -> Command:
        """A register that holds a number of bytes."""
        return self.wide(name, opcode, doc, Field("value", bits(0, width - 1), holds), products=products)

    def place_of_map(self, holds: str) -> tuple[Command, ...]:
        """Where a feature map is: region, tiles and strides."""
        region, *bases, height_0, height_1, width_0, stride_c, stride_y, stride_x = PLACES[holds]
        number = _NUMBERS[holds]

        def tile_size(name: str, opcode: int, attribute: str, doc: str) -> Command:
            return self.number(name, opcode + number, 16, f"{holds}.{attribute}", doc, MINUS_ONE)

        return (
            self.number(region, 271 + number, 3, f"{holds}.region", REGION),
            *(
                self.address(name, tile + number, f"{holds}.addresses[{tile}]", f"address of {what}")
                for tile, (name, what) in enumerate(zip(bases, _TILES, strict=True))
            ),
            tile_size(height_0, 267, "tile_height_0", "height of tile 0, minus 1"),
            tile_size(height_1, 268, "tile_height_1", "height of tile 1, minus 1"),
            tile_size(width_0, 266, "tile_width_0", "width of tiles 0 and 2, minus 1"),
            self.stride(stride_c, 6 + number, f"{holds}.stride_c", "bytes from one 16-channel brick to the next"),
            self.stride(stride_y, 5 + number, f"{holds}.stride_y", "bytes from one row to the next"),
            self.stride(stride_x, 4 + number, f"{holds}.stride_x", "bytes from one column to the next"),
        )

    def zero_point(self, name: str, opcode: int, holds: str) -> Command:
        """That of a feature map."""
        return self.number(name, opcode, 16, holds, _ZERO_POINT, PATTERN)

    def extent_of_ofm(self) -> tuple[Command, ...]:
        """Rows, columns and channels of the OFM."""
        return (
            self.number("NPU_SET_OFM_HEIGHT_M1", 274, 16, "ofm.height", "OFM height, minus 1", MINUS_ONE),
            self.number("NPU_SET_OFM_WIDTH_M1", 273, 16, "ofm.width", "OFM width, minus 1", MINUS_ONE),
            self.number("NPU_SET_OFM_DEPTH_M1", 275, 16, "ofm.depth", "OFM channels, minus 1", MINUS_ONE),
        )

    def interrupts(self) -> tuple[Command, ...]:
        """What ends a stream, and what goes on."""
        mask = Field("mask", SIXTEEN, "mask")
        return (
            self.operation("NPU_OP_STOP", 0, Stop, "end the stream and raise an interrupt", mask),
            self.operation("NPU_OP_IRQ", 1, Interrupt, "raise an interrupt and go on", mask),
        )

    def transfers_and_waits(self, transfer_bits: int, kernel_bits: int) -> tuple[Command, ...]:
        """What starts transfers, and what waits, with fields of so many bits; the switch of the counters."""
        return (
            self.operation("NPU_OP_DMA_START", 16, Dma, "start a transfer"),
            self.operation(
                "NPU_OP_DMA_WAIT",
                17,
                DmaWait,
                "block until few enough transfers are unfinished",
                Field("outstanding", bits(0, transfer_bits - 1), "outstanding"),
            ),
            self.operation(
                "NPU_OP_KERNEL_WAIT",
                18,
                KernelWait,
                "block until few enough kernels are unfinished",
                Field("outstanding", bits(0, kernel_bits - 1), "outstanding"),
            ),
            self.operation(
                "NPU_OP_PMU_MASK",
                19,
                PmuMask,
                "switch the performance counters on or off",
                Field("enable", bits(0, 0), "enable"),
            ),
        )

    def limits_of_activation(self) -> tuple[Command, ...]:
        """Clamps."""
        pattern = "16-bit pattern, signed if the OFM is signed"
        return (
            self.number("NPU_SET_ACTIVATION_MIN", 294, 16, "activation.minimum", f"lower clamp; {pattern}", PATTERN),
            self.number("NPU_SET_ACTIVATION_MAX", 295, 16, "activation.maximum", f"upper clamp; {pattern}", PATTERN),
        )

    def block(self, height_bits: int, width_bits: int, depth_bits: int) -> tuple[Command, ...]:
        """That of the OFM, with registers of so many bits."""
        depth = "block depth, minus 1; sets the order of the weights"
        return (
            self.number("NPU_SET_OFM_BLK_HEIGHT_M1", 278, height_bits, "block.height", "block height, minus 1", MINUS_ONE),
            self.number("NPU_SET_OFM_BLK_WIDTH_M1", 277, width_bits, "block.width", "block width, minus 1", MINUS_ONE),
            self.number("NPU_SET_OFM_BLK_DEPTH_M1", 279, depth_bits, "block.depth", depth, MINUS_ONE),
        )

    def upscale_and_padding(self) -> tuple[Command, ...]:
        """What is around and between the elements of an IFM."""
        return (
            self.register(
                "NPU_SET_IFM_UPSCALE",
                263,
                "what is inserted between elements",
                Field("mode", bits(0, 1), "upscale", enum=Upscale),
            ),
            self.number("NPU_SET_IFM_PAD_TOP", 256, 7, "padding.top", "rows of padding above"),
            self.number("NPU_SET_IFM_PAD_LEFT", 257, 7, "padding.left", "columns of padding on the left"),
            self.number("NPU_SET_IFM_PAD_BOTTOM", 259, 8, "padding.bottom", "rows of padding below", maximum=128),
            self.number("NPU_SET_IFM_PAD_RIGHT", 258, 8, "padding.right", "columns of padding on the right", maximum=128),
        )

    def extent_of_kernel(self) -> tuple[Command, ...]:
        """Of the kernel, dilated; of a resize, of the IFM."""
        return tuple(
            self.number(name, opcode, 16, f"kernel.dilated_{axis}", f"dilated kernel {axis}, minus 1", MINUS_ONE)
            for name, opcode, axis in (("NPU_SET_KERNEL_HEIGHT_M1", 289, "height"), ("NPU_SET_KERNEL_WIDTH_M1", 288, "width"))
        )

    def stride_of_kernel(self) -> Command:
        """Strides, dilations, and the order of the weights."""
        return self.register(
            "NPU_SET_KERNEL_STRIDE",
            290,
            "strides, dilations and order of the weights",
            Field("stride_x_m1", (0, 6), "kernel.stride_x", "horizontal stride, minus 1", MINUS_ONE),
            Field("stride_y_m1", (1, 9), "kernel.stride_y", "vertical stride, minus 1", MINUS_ONE),
            Field("traversal", (2,), "traversal", "convolution only", enum=Traversal),
            Field("dilation_x_m1", (3,), "kernel.dilation_x", "horizontal dilation, minus 1", MINUS_ONE),
            Field("dilation_y_m1", (4,), "kernel.dilation_y", "vertical dilation, minus 1", MINUS_ONE),
            Field("decomposition", (5,), "has_4x4_sub_kernels", "size of sub-kernels", FLAG, Decomposition),
        )
