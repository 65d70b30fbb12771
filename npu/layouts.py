"""Where the elements of a feature map lie in memory: the layouts NHWC and NHCWB16.

Both are the same map with three steps: rows, pixels, and groups of 16 channels, which lie next to each other. In NHWC the
groups of a pixel follow one another; in NHCWB16 a group of a pixel, a brick, is followed by that of the next pixel.

`sim.verify.footprint` knows the layouts on its own: a judge must not believe what it judges.
"""

from __future__ import annotations

BRICK_DEPTH = 16
"""Channels of a brick, the unit of a feature map in the format NHCWB16; the same in every product."""


MapShape = tuple[int, int, int]
"""Height, width, depth of a feature map, or a place in it."""
HeightWidth = tuple[int, int]
"""Numbers of a window or of a map along height and width."""
Steps = tuple[int, int, int]
"""Bytes from row to row, from pixel to pixel, and from one group of 16 channels to the next."""


def map_steps(stride_y: int, stride_x: int, stride_c: int, element_bytes: int, *, is_bricked: bool) -> Steps:
    """The steps of a map with these strides; each layout ignores one of them."""
    brick = BRICK_DEPTH * element_bytes
    return (stride_y, brick, stride_c) if is_bricked else (stride_y, stride_x, brick)


def dense_steps(width: int, depth: int, element_bytes: int, *, is_bricked: bool) -> Steps:
    """The steps of a map without gaps."""
    brick = BRICK_DEPTH * element_bytes
    if is_bricked:
        return -(-depth // BRICK_DEPTH) * width * brick, brick, width * brick
    return width * depth * element_bytes, depth * element_bytes, brick


def element_offset(y: int, x: int, channel: int, steps: Steps, element_bytes: int) -> int:
    """Bytes from the first element of a map to another one."""
    group, lane = divmod(channel, BRICK_DEPTH)
    return y * steps[0] + x * steps[1] + group * steps[2] + lane * element_bytes
