"""Compiled loops of the weight stream; they see arrays and numbers only."""
