"""Images in files as arrays, and as the input that a model wants; the only place that knows image formats.

.npy, PPM and PGM (binary) and PNG (8 bits, not interlaced) are read here; everything else needs the optional package pillow.
"""

from __future__ import annotations

import re
import struct
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from npu.errors import UserError
from npu.files import load_arrays, read_whole
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.tools.kernels.png import undo_filters

SUFFIXES = (".npy", ".ppm", ".pgm", ".png", ".jpg", ".jpeg", ".bmp")
MAX_PIXELS = 1 << 26
_HEADER_BYTES = 1 << 12
"""Of a PPM or PGM file, comments included; a file may be nothing but blanks."""
_NETPBM = re.compile(rb"P([56])(?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""PNG colour type to samples per pixel."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How pixels become the values of a model's input.

    The image is cut to its central `crop` share (1: whole), resized bilinearly, then (pixel - mean) / std. Without mean and
    std, 8-bit inputs get the pixels themselves (int8: pixel - 128), floats (pixel - 127.5) / 127.5. With them, quantized
    inputs get the quantized values.
    """

    mean: float | None = None
    std: float | None = None
    crop: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise UserError(f"preprocessing: crop must be in (0, 1], got {self.crop}")
        if self.std is not None and not 1e-6 <= self.std <= 1e6:
            raise UserError(f"preprocessing: std must be in [1e-06, 1e+06], got {self.std}")
        if self.mean is not None and not abs(self.mean) <= 1e6:
            raise UserError(f"preprocessing: mean must be in [-1e+06, 1e+06], got {self.mean}")


def find_images(folder: Path) -> list[Path]:
    """The image files of a folder and its subfolders by name; UserError if there are none."""
    if not folder.is_dir():
        raise UserError(f"{folder}: must be a folder of images")
    images = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not images:
        raise UserError(f"{folder}: must hold images ({', '.join(SUFFIXES)}), got none")
    return images


def read_image(path: Path) -> Array:
    """An image as (height, width, 3) uint8; .npy may also hold (height, width) or (height, width, 1) uint8."""
    try:
        if path.exists() and not path.is_file():  # a pipe or device may never end
            raise ValueError("a folder, pipe or device")
        data = read_whole(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: must be a readable image, got: {getattr(error, 'strerror', None) or error}") from error
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            pixels = load_arrays(path)
        elif data[:2] in (b"P5", b"P6"):
            pixels = _netpbm(data)
        elif data.startswith(_SIGNATURE):
            pixels = _png(data)
        else:
            pixels = _with_pillow(path)
    except (ValueError, EOFError, OSError, struct.error, zlib.error) as error:
        raise UserError(f"{path}: must be a complete image, got: {error}") from error
    return _as_rgb(path, pixels)


def _as_rgb(path: Path, pixels: Any) -> Array:
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        got = f"{pixels.dtype} {list(pixels.shape)}" if isinstance(pixels, np.ndarray) else "several arrays"
        raise UserError(f"{path}: must hold uint8 pixels of shape (height, width, channels), got {got}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.shape[2] in (1, 2):
        return np.repeat(pixels[:, :, :1], 3, axis=2)
    if pixels.shape[2] in (3, 4):
        return np.ascontiguousarray(pixels[:, :, :3])
    raise UserError(f"{path}: must have 1, 3 or 4 channels, got {pixels.shape[2]}")


def _netpbm(data: bytes) -> Array:
    header = _NETPBM.match(data[:_HEADER_BYTES])
    if header is None:
        raise ValueError("a PPM or PGM header that is damaged")
    kind, width, height, largest = (int(text) for text in header.groups())
    channels = 3 if kind == 6 else 1
    size = _checked_size(width, height) * channels
    if largest != 255 or len(data) < header.end() + size:
        raise ValueError(f"largest value {largest}, {len(data) - header.end()} of {size} bytes")
    return np.frombuffer(data, np.uint8, size, header.end()).reshape(height, width, channels)


def _png(data: bytes) -> Array:
    chunks = list(_chunks(data))
    if not chunks or chunks[0][0] != b"IHDR":
        raise ValueError("a PNG without its header")
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or interlace or colour not in _CHANNELS:
        raise ValueError(f"a PNG with {depth} bits, colour type {colour}, interlace {interlace}; must be 8 bits, no interlace")
    channels = _CHANNELS[colour]
    size = (_checked_size(width, height) // height * channels + 1) * height
    raw = zlib.decompressobj().decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"), size)
    if len(raw) < size:
        raise ValueError(f"{len(raw)} of {size} bytes of pixels")
    pixels = _unfilter(np.frombuffer(raw, np.uint8).reshape(height, -1), channels).reshape(height, width, channels)
    if colour == 3:
        palette = np.frombuffer(next((body for kind, body in chunks if kind == b"PLTE"), b""), np.uint8).reshape(-1, 3)
        if pixels.max() >= len(palette):
            raise ValueError("a colour outside the palette")
        return palette[pixels[:, :, 0]]
    return pixels


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    result, position = [], len(_SIGNATURE)
    while position + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        result.append((data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += length + 12
    return result


def _unfilter(rows: Array, channels: int) -> Array:
    """Undo the PNG filters; each row starts with its filter type."""
    out = np.zeros((rows.shape[0] + 1, rows.shape[1] - 1), np.uint8)
    if rows[:, 0].max() > 4:
        raise ValueError(f"PNG filter {rows[:, 0].max()}")
    undo_filters(np.ascontiguousarray(rows), channels, out)
    return out[1:]


def _checked_size(width: int, height: int) -> int:
    if not 0 < width * height <= MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels")
    return width * height


def _with_pillow(path: Path) -> Array:
    try:
        reader = import_module("PIL.Image")
    except ImportError as error:
        raise UserError(f"{path}: must be .npy, PPM, PGM or PNG unless pillow is installed (npulab[images])") from error
    try:
        with reader.open(path) as image:
            _checked_size(*image.size)
            return np.asarray(image.convert("RGB"))
    except reader.DecompressionBombError as error:
        raise ValueError(str(error)) from error


def model_input(image: Array, detail: dict[str, Any], how: Preprocessing) -> Array:
    """An image (height, width, 3) as the model's input of shape (1, height, width, 3 or 1)."""
    shape = tuple(int(size) for size in detail["shape"])
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3):
        raise UserError(f"input '{detail['name']}': must be an image of shape (1, height, width, 1 or 3), got {list(shape)}")
    pixels = resize(_central(image, how.crop), shape[1], shape[2])
    if shape[3] == 1:
        pixels = pixels @ np.array([[0.299], [0.587], [0.114]])  # luma of ITU-R BT.601
    return _values(pixels[None], detail, how)


def _values(pixels: Array, detail: dict[str, Any], how: Preprocessing) -> Array:
    dtype = np.dtype(detail["dtype"])
    given = how.mean is not None or how.std is not None
    if dtype.kind == "f" or given:
        centre = how.mean if how.mean is not None else 127.5
        pixels = (pixels - centre) / (how.std if how.std is not None else 127.5)
    if dtype.kind == "f":
        return pixels.astype(dtype)
    if dtype not in (np.int8, np.uint8, np.int16):
        raise UserError(f"input '{detail['name']}': must be float32, int8, uint8 or int16 for images, got {dtype}")
    scale, zero_point = detail["quantization"]
    if given:
        if not scale:
            raise UserError(f"input '{detail['name']}': must have a scale when mean or std are given")
        pixels = pixels / scale + zero_point
    elif dtype == np.int8:
        pixels = pixels - 128
    limits = np.iinfo(dtype)
    return np.clip(np.floor(pixels + 0.5), limits.min, limits.max).astype(dtype)


def _central(image: Array, share: float) -> Array:
    height, width = (max(1, round(size * share)) for size in image.shape[:2])
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height, left : left + width]


def resize(image: Array, height: int, width: int) -> Array:
    """Bilinear with half-pixel centres, float64, of the pixels that count alone: an image may be millions wide."""
    above, below, down = _neighbours(image.shape[0], height)
    left, right, across = _neighbours(image.shape[1], width)
    columns = (image.take(column, 1) for column in (left, right))
    first, second = (_mixed(part.take(above, 0), part.take(below, 0), down.reshape(-1, 1, 1)) for part in columns)
    return _mixed(first, second, across.reshape(1, -1, 1))


def _neighbours(size: int, wanted: int) -> tuple[Array, Array, Array]:
    """For each wanted place the two places of an axis that it lies between, and the share of the second."""
    place = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    low = np.floor(place).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), place - low


def _mixed(first: Array, second: Array, share: Array) -> Array:
    result: Array = first * (1 - share) + second * share
    return result
