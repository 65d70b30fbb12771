"""Renders a profile as the operator document that people read. Every line comes from the rules that the checker applies."""

from __future__ import annotations

from collections.abc import Iterator

from constraints.profiles import profile_named
from constraints.rule import Profile, Rule, RuleSet


def supported_ops_document(profile: str | Profile) -> str:
    """Markdown: version line, summary table, generic rules, a section per operator with rules of its own."""
    rules = profile if isinstance(profile, Profile) else profile_named(profile)
    return "\n".join(_lines(rules)) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    yield f"# Supported operators: profile `{profile.name}`"
    yield ""
    yield profile.summary
    yield ""
    yield f"Version `{profile.version}` of the profile; generated from the rules that the checker applies by"
    yield f"`npu supported-ops --profile {profile.name}`."
    for rule_set in profile.rule_sets:
        yield from _section(profile, rule_set)
    if profile.notes:
        yield from ("", "## Notes", "")
        yield from (f"- {note}" for note in profile.notes)


def _section(profile: Profile, rule_set: RuleSet) -> Iterator[str]:
    title = "" if len(profile.rule_sets) == 1 else f" ({rule_set.name})"
    prefix = "" if len(profile.rule_sets) == 1 else f"{rule_set.name}-"
    yield from ("", f"## Operators{title}", "")
    yield f"The {profile.device} takes these {len(rule_set.operators)} operators if all of their rules hold. An operator that"
    yield "breaks a rule, and every operator that is not in the table, stays as it is in the file and runs on the CPU."
    yield from ("", "| Operator | Rules |", "| --- | --- |")
    for kind in sorted(rule_set.operators):
        links = [f"[generic](#{prefix}generic-rules)"] if rule_set.generic else []
        if rule_set.specific(kind):
            links.append(f"[specific](#{prefix}{kind.lower()}-rules)")
        yield f"| {kind} | {', '.join(links) or 'none'} |"
    if rule_set.generic:
        yield from ("", f"### {prefix}generic rules", "", "These hold for every operator of the table.", "")
        yield from _items(rule_set.generic)
    for kind in sorted(rule_set.operators):
        specific = rule_set.specific(kind)
        if specific:
            yield from ("", f"### {prefix}{kind} rules", "")
            yield from _items(specific)


def _items(rules: tuple[Rule, ...]) -> Iterator[str]:
    for rule in rules:
        sentence = rule.sentence()
        yield f"- `{rule.id}`: {sentence[0].upper()}{sentence[1:]}"
        yield from (f"  - {detail}" for detail in rule.details)
