"""Cascades: a chain of steps computed in stripes of rows, so that the maps between them are never whole in memory.

Rows that two stripes of a consumer read are kept in a rolling buffer, or made twice where the memory holds no more: then the
maps of a long chain need not be in memory all at the same time. Only what must be cut to meet a memory budget is cut; chains
with branches that meet again, as those of a residual block do, are tried where nothing else meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from npu.compiler.cut_rows import CascadeSearch, CutPlan
from npu.compiler.lifetime import PlanNode
from npu.compiler.price import Draft, price, price_of_least
from npu.graph.graph import Graph
from npu.progress import Progress, counted
from npu.records import dataclass

_STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_STRIPES_FOR_A_CACHE = (*_STRIPES, 48, 64, 96, 136)
"""More commands, but what lies in a cache costs no traffic of the memory behind it: where cycles count more than flash."""
_MOST_CASCADES = 24
_GOALS = (1.0, 0.8, 0.6)
"""Shares of the budget that are aimed at in turn."""
_ROOMY_GOALS = (*_GOALS, 0.45)
"""The same where what is left may be room for copies of constants."""
_GOALS_WITH_LEADS = (1.0, 0.95, 0.9, 0.8, 0.6)
"""The same where results begin in front of what they are made from: a smaller goal may end in fewer cycles."""

_ALLOWED_PEAKS = (1.0, 1.05, 1.16, 1.3)
"""Peaks relative to the smallest one that are looked at where memory counts more than cycles."""
_PLANS_BETWEEN = 2
"""Plans with branches that are looked at between the smallest one and the best one without."""
_NOTEWORTHY = 0.955
"""Of the peak without branches, what such a plan must have at most: packing maps and copies may take more than that."""
_NEAR_SHARES = (1.0, 0.9)
"""Of the peak of the best plan, what others with branches are cut for: what is cut for less may end with more of both."""


def fit_cache(
    graph: Graph,
    nodes: Sequence[PlanNode],
    budget: int,
    *,
    saves_flash: bool = False,
    progress: Progress | None = None,
) -> list[PlanNode]:
    """The nodes with cascades so that maps which nobody outside a partition sees take at most `budget` bytes, or about that.

    For a cache: what does not fit it can stay in the arena behind it, which costs less than rows that are made twice. There may
    be many stripes unless it `saves_flash`.
    """
    search = CascadeSearch(graph, nodes, _STRIPES if saves_flash else _STRIPES_FOR_A_CACHE, hides_tensors=True)
    return search.nodes(_closest(search, budget, progress))


def plans_within(
    graph: Graph, nodes: Sequence[PlanNode], budget: int, progress: Progress | None = None
) -> Iterator[list[PlanNode]]:
    """The nodes with cascades so that the feature maps' peak is at most `budget` bytes, or a share of it, in several ways.

    The first is found soonest; the last have results that begin in front of what they are made from. If there is none, several
    that come near it, the nearest first.
    """
    nearest = list[tuple[CascadeSearch, CutPlan]]()
    for has_leads in (False, True):
        search = CascadeSearch(graph, nodes, _STRIPES, has_branches=True, has_leads=has_leads)
        plans = []
        for share in _GOALS_WITH_LEADS if has_leads else _ROOMY_GOALS:
            plans.append(_cut_down(search, int(budget * share), progress))
            if plans[-1].peak <= budget:
                yield search.nodes(plans[-1])
        nearest.append((search, min(plans, key=_peak)))
    if all(plan.peak > budget for _, plan in nearest):
        # Chains of stripes, which these searches leave alone, may go on where branches do not, and steps that come ahead.
        for comes_ahead in (True, False):
            search = CascadeSearch(graph, nodes, _STRIPES, comes_ahead=comes_ahead)
            nearest.append((search, _closest(search, budget, progress)))
        for search, plan in sorted(nearest, key=lambda one: one[1].peak):
            yield search.nodes(plan)


def _weights(plan: CutPlan) -> int:
    """How many weights the steps of a plan read."""
    return int(plan.steps["weights"].sum())


def _peak(plan: CutPlan) -> int:
    return plan.peak


def fit_least(
    graph: Graph,
    nodes: Sequence[PlanNode],
    visible: int,
    draft: Callable[[Sequence[PlanNode]], Draft],
    bytes_per_cycle: float,
    progress: Progress | None = None,
) -> Sequence[PlanNode]:
    """The nodes with cascades for SIZE: plans whose peak is about the smallest, or whole maps, as is worth most.

    No peak is below the `visible` bytes of tensors that others see. Chains without branches come first: there SRAM counts as
    much as cycles. Where chains have branches, and results begin in front of what they are made from, smaller plans may be
    found. Constants are read at `bytes_per_cycle`.
    """
    lines = CascadeSearch(graph, nodes, _STRIPES)
    drafts = _Drafts(draft, bytes_per_cycle, lines)
    branches = CascadeSearch(graph, nodes, _STRIPES, has_branches=True, has_leads=True)
    plain = drafts.cheapest(drafts.whole, lines, _about_smallest(lines, visible, progress), price_of_least)
    best = drafts.cheapest(plain, branches, _smaller(branches, plain.plan.peak, visible, progress), price)
    near = [_cut_down(branches, int(best.plan.peak * share), progress) for share in _NEAR_SHARES]
    return drafts.cheapest(best, branches, [plan for plan in near if plan.peak <= best.plan.peak], price).nodes


def _about_smallest(search: CascadeSearch, budget: int, progress: Progress | None) -> Iterable[CutPlan]:
    """The plan whose peak is nearest to the budget, and those whose peaks are not much larger.

    A plan that was cut down for the peak of the first takes its place: it has fewer cuts.
    """
    smallest = _closest(search, budget, progress)
    larger = [(most := int(smallest.peak * one), _closest(search, max(most, budget), progress)) for one in _ALLOWED_PEAKS]
    within = [plan for most, plan in larger if plan.peak <= most]
    return dict.fromkeys(within if any(plan.peak <= smallest.peak for plan in within) else [smallest, *within])


def _smaller(search: CascadeSearch, peak: int, budget: int, progress: Progress | None) -> Iterable[CutPlan]:
    """The plan that is cut down for the budget, and others between its peak and a larger one."""
    smallest, most = _cut_down(search, budget, progress), int(peak * _NOTEWORTHY)
    if not 0 < smallest.peak <= most:
        return ()
    plans, reached = [smallest], peak
    for part in range(_PLANS_BETWEEN):
        budget = int(most * (smallest.peak / most) ** (part / _PLANS_BETWEEN))
        if budget < reached:  # else the plan before has met it
            plans.append(_cut_down(search, budget, progress))
            reached = plans[-1].peak
    return [plan for plan in dict.fromkeys(plans) if plan.peak <= most]


@dataclass(frozen=True, slots=True, eq=False)
class _Drafted:
    """A plan, its nodes, and what they take."""

    plan: CutPlan
    nodes: Sequence[PlanNode]
    draft: Draft


class _Drafts:
    """Drafts of plans, each made once: searches of different kinds come to the same ones."""

    def __init__(self, draft: Callable[[Sequence[PlanNode]], Draft], bytes_per_cycle: float, search: CascadeSearch) -> None:
        self._draft = draft
        self._known: dict[bytes, _Drafted] = {}
        self.whole = self._of(search, search.start)
        self._weight_cycles = self.whole.draft.flash_bytes / max(_weights(search.start), 1) / bytes_per_cycle

    def _of(self, search: CascadeSearch, plan: CutPlan) -> _Drafted:
        """What a plan of a search takes; the rows of every step tell it from others."""
        key = plan.steps["ofm"]["rows"].tobytes()
        known = self._known.get(key)
        if known is None:
            nodes = search.nodes(plan)
            known = self._known[key] = _Drafted(plan, nodes, self._draft(nodes))
        return known

    def cheapest(
        self, best: _Drafted, search: CascadeSearch, plans: Iterable[CutPlan], price_of: Callable[[Draft], float]
    ) -> _Drafted:
        """The plan with the least price; the most promising are drafted first, until no other can be cheaper."""
        for plan in sorted(plans, key=lambda plan: price_of(self._least(plan))):
            if price_of(self._least(plan)) >= price_of(best.draft):
                break
            best = min(best, self._of(search, plan), key=lambda one: price_of(one.draft))
        return best

    def _least(self, plan: CutPlan) -> Draft:
        """Stripes take no fewer cycles than whole maps, nor than it takes to read all their weights."""
        whole = self.whole.draft
        return Draft(max(whole.cycles, _weights(plan) * self._weight_cycles), plan.peak, whole.flash_bytes)


def _closest(search: CascadeSearch, budget: int, progress: Progress | None) -> CutPlan:
    """The plan with cascades whose peak is nearest to the budget.

    Cascades are chosen one after the other; where that ends above the budget, cutting for a smaller one may end below it.
    """
    tried: list[CutPlan] = []
    for share in _GOALS:
        tried.append(_cut_down(search, int(budget * share), progress))
        if tried[-1].peak <= budget:
            return tried[-1]
    return min(tried, key=lambda plan: plan.peak)


def _cut_down(search: CascadeSearch, budget: int, progress: Progress | None) -> CutPlan:
    """The plan with cascades until the peak is at most `budget` or no cascade lowers it any more."""
    plan = search.start
    for _ in counted(range(_MOST_CASCADES), "cascades to try", progress):
        better = None if plan.peak <= budget else search.next(plan, budget)
        if better is None:
            break
        plan = better
    return plan
