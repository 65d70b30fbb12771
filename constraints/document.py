"""Renders a profile as the operator document that people read. Every line comes from the rules that the checker applies."""

from __future__ import annotations

from collections.abc import Iterator

from constraints.profiles import profile_named
from constraints.rule import Form, Profile, Rule


def supported_ops_document(profile: str | Profile) -> str:
    """Markdown: version line, summary table, generic rules, a section per operator with rules of its own."""
    rules = profile if isinstance(profile, Profile) else profile_named(profile)
    return "\n".join(_lines(rules)) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    yield f"# Supported operators: profile `{profile.name}`"
    yield ""
    yield f"Profile version: `{profile.version}`"
    yield ""
    yield profile.summary
    yield ""
    yield "This page is generated from the rules that the checker applies:"
    yield f"`npu supported-ops --profile {profile.name}`."
    for form in profile.forms:
        yield from _form(profile, form)
    if profile.notes:
        yield from ("", "## Notes", "")
        yield from (f"- {note}" for note in profile.notes)


def _form(profile: Profile, form: Form) -> Iterator[str]:
    title = "" if len(profile.forms) == 1 else f" ({form.name})"
    prefix = "" if len(profile.forms) == 1 else f"{form.name}-"
    yield from ("", f"## Operators{title}", "")
    yield f"The {profile.device} takes these {len(form.operators)} operators if all of their rules hold. An operator that"
    yield "breaks a rule, and every operator that is not in the table, stays as it is in the file and runs on the CPU."
    yield from ("", "| Operator | Rules |", "| --- | --- |")
    for kind in sorted(form.operators):
        links = [f"[generic](#{prefix}generic-rules)"] if form.generic else []
        if form.specific(kind):
            links.append(f"[specific](#{prefix}{kind.lower()}-rules)")
        yield f"| {kind} | {', '.join(links) or 'none'} |"
    if form.generic:
        yield from ("", f"### {prefix}generic rules", "", "These hold for every operator of the table.", "")
        yield from _items(form.generic)
    for kind in sorted(form.operators):
        specific = form.specific(kind)
        if specific:
            yield from ("", f"### {prefix}{kind} rules", "")
            yield from _items(specific)


def _items(rules: tuple[Rule, ...]) -> Iterator[str]:
    for rule in rules:
        sentence = rule.sentence()
        yield f"- `{rule.id}`: {sentence[0].upper()}{sentence[1:]}"
        yield from (f"  - {detail}" for detail in rule.details)
