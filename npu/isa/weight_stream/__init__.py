"""Compressed weight streams: order of traversal, entropy decoder and encoder."""
