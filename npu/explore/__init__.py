"""Whole spaces of models and hardware: which chip runs a model, what a change of hardware buys, which network is best.

`point` measures one model on one hardware as `npu run --timing-only` does; `space` says which points there are; `sweep`
measures them on any number of workers and keeps a journal; `table` writes what came out; `pareto` picks the best.
"""
