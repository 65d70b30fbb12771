"""`npu completion`: what lets a shell complete commands, options and their values, made from the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from npu.records import dataclass

SHELLS = ("bash", "zsh", "fish")
_NAMES = {"target": "variants", "b_target": "variants", "memory_mode": "memory_mode", "b_memory_mode": "memory_mode"}
_NAMES |= {"system": "system", "b_system": "system"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its names, whether it takes a value, the values to choose from (none: a file), and its help."""

    names: tuple[str, ...]
    takes_value: bool
    is_repeatable: bool
    values: tuple[str, ...]
    help: str


OptionsByCommand = Mapping[str, tuple[str, tuple[Option, ...]]]
"""The summary and the options of each command."""


def completion(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell."""
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return writers[shell](commands_of(parser))


def commands_of(parser: argparse.ArgumentParser) -> OptionsByCommand:
    """What the parser knows."""
    action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (summaries.get(name, ""), tuple(_options(sub))) for name, sub in action.choices.items()}


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            values = tuple(map(str, action.choices)) if action.choices else tuple(_names(action.dest, action.option_strings))
            text = (action.help or "").replace("%(default)s", str(action.default))
            is_repeatable = isinstance(action, argparse._AppendAction)
            yield Option(tuple(action.option_strings), action.nargs != 0, is_repeatable, values, text)


def _names(dest: str, names: Sequence[str]) -> list[str]:
    """The shipped descriptions that an option names."""
    from npu.hardware.catalogue import list_boards, list_section, list_variants

    if any(name.endswith("board") for name in names):
        return list(list_boards())
    kind = _NAMES.get(dest)
    return [] if kind is None else list(list_variants() if kind == "variants" else list_section(kind))


def _bash(commands: OptionsByCommand) -> str:
    """Words for the command, then options of the command; values after an option that has some, files otherwise."""
    cases, values = [], []
    for name, (_, options) in commands.items():
        cases.append(f'    {name}) words="{" ".join(one for option in options for one in option.names)}" ;;')
        for option in options:
            if option.values:
                values += [f'    "{name} {one}") words="{" ".join(option.values)}"; is_value=1 ;;' for one in option.names]
            elif option.takes_value:
                values += [f'    "{name} {one}") is_value=1 ;;' for one in option.names]
    lines = "\n".join(cases)
    after = "\n".join(values)
    return f"""# npu completion bash > ~/.local/share/bash-completion/completions/npu
_npu() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words="" is_value=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}} $before" in
{after}
  esac
  if [ -z "$is_value" ]; then case "${{COMP_WORDS[1]}}" in
{lines}
  esac; fi
  if [ -n "$words" ] && {{ [ -n "$is_value" ] || [[ "$current" == -* ]]; }}; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _npu npu
"""


def _zsh(commands: OptionsByCommand) -> str:
    """A list of specifications for `_arguments` for each command."""
    summaries = "\n".join(f"    {_quoted(f'{name}:{summary}')}" for name, (summary, _) in commands.items())
    cases = []
    for name, (_, options) in commands.items():
        specifications = [_zsh_option(one, option) for option in options for one in option.names]
        cases.append(f"    {name}) _arguments {' '.join(specifications)} '*:file:_files' ;;")
    lines = "\n".join(cases)
    return f"""#compdef npu
# npu completion zsh > a file _npu in a folder of $fpath
_npu() {{
  local -a commands=(
{summaries}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command=${{words[2]}}
  shift words; (( CURRENT-- ))
  case $command in
{lines}
  esac
}}
_npu "$@"
"""


def _zsh_option(name: str, option: Option) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    values = f"({' '.join(option.values)})" if option.values else "_files"
    value = f":value:{values}" if option.takes_value else ""
    return _quoted(("*" if option.is_repeatable else "") + f"{name}[{text}]{value}")


def _fish(commands: OptionsByCommand) -> str:
    """A line for each command and each option."""
    names = " ".join(commands)
    lines = ["# npu completion fish > ~/.config/fish/completions/npu.fish"]
    for name, (summary, options) in commands.items():
        lines.append(f"complete -c npu -n 'not __fish_seen_subcommand_from {names}' -f -a {name} -d {_quoted(summary)}")
        for option in options:
            flags = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in option.names)
            values = f" -x -a {_quoted(' '.join(option.values))}" if option.values else " -r" if option.takes_value else ""
            lines.append(f"complete -c npu -n '__fish_seen_subcommand_from {name}' {flags}{values} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A word for all three shells, which end a quotation to put a quote."""
    return "'" + text.replace("'", "'\\''") + "'"
