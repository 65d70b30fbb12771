"""The simulated machine: what a command stream computes, and when."""
