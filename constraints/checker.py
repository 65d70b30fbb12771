"""The checker: from a model to a placement. Linear in the number of operators; it never prints and never changes the model."""

from __future__ import annotations

from constraints.profiles import profile_named
from constraints.rule import Profile
from constraints.view import OpView
from npu.graph.graph import Model
from npu.graph.placement import OpPlacement, Placement
from npu.hardware.variant import Variant


def check(model: Model, *, profile: str | Profile = "u55-u65", variant: Variant | None = None) -> Placement:
    """Where every operator of every subgraph runs, with all violations of those that the device does not take.

    `profile` is a name of `profile_names()` or a profile with options of its own. Raises UserError for an unknown name, and
    for nothing that a model holds.
    """
    rules = profile if isinstance(profile, Profile) else profile_named(profile)
    placements = tuple(
        OpPlacement(
            number, index, op.kind, op.name, () if index in graph.unneeded else rules.violations(OpView(graph, op, variant))
        )
        for number, graph in enumerate(model.graphs)
        for index, op in enumerate(graph.ops)
    )
    return Placement(rules.name, placements)
