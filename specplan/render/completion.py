"""Completion scripts for bash, zsh and fish.

Verbs and options stand in the script; devices and models are asked of the program when they are needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ASKED = ("devices", "models")


@dataclass(frozen=True)
class Option:
    """values: devices, models, engines, methods, stacks, files, or words as they are."""

    names: Sequence[str]
    values: Sequence[str]
    help: str
    is_flag: bool
    metavar: str = ""
    panel: str = ""


@dataclass(frozen=True)
class Verb:
    """path: ("plan",) or ("hardware", "show"); values: what its argument can be."""

    path: Sequence[str]
    help: str
    options: Sequence[Option]
    values: Sequence[str]
    argument: str = ""


def script(shell: str, verbs: Sequence[Verb], words: Mapping[str, Sequence[str]]) -> str:
    """The script of a shell.

    words   of the kinds that stand in the script
    """
    if shell == "fish":
        return _fish(verbs, words)
    body = _BASH.format(
        verbs=" ".join(dict.fromkeys(verb.path[0] for verb in verbs)),
        inner=_cases({noun: inner for noun, inner in _inner(verbs).items() if inner}),
        options=_cases({" ".join(verb.path): [n for o in verb.options for n in o.names] for verb in verbs}),
        values=_cases({name: list(o.values) for verb in verbs for o in verb.options for name in o.names if o.values}),
        flags="|".join(sorted({name for verb in verbs for o in verb.options if o.is_flag for name in o.names})),
        arguments=_cases({" ".join(verb.path): list(verb.values) for verb in verbs if verb.values}),
        words=_cases(dict(words)),
        asked="|".join(ASKED),
    )
    return body if shell == "bash" else _ZSH + body


def _inner(verbs: Sequence[Verb]) -> dict[str, list[str]]:
    """The verbs of each noun."""
    return {
        verb.path[0]: [other.path[1] for other in verbs if other.path[0] == verb.path[0] and other.path[1:]]
        for verb in verbs
    }


def _cases(answers: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(
        f"    {shlex.quote(key)}) echo {shlex.quote(' '.join(words))} ;;" for key, words in answers.items()
    )


_ZSH = """autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit -i
bashcompinit
"""

_BASH = r"""_specplan_inner() {{
  case "$1" in
{inner}
  esac
}}
_specplan_options() {{
  case "$1" in
{options}
  esac
}}
_specplan_values() {{
  case "$1" in
{values}
  esac
}}
_specplan_arguments() {{
  case "$1" in
{arguments}
  esac
}}
_specplan_words() {{
  case "$1" in
    {asked}) echo $(specplan completion words "$1" 2>/dev/null) ;;
{words}
    files) ;;
    *) echo "$1" ;;
  esac
}}
_specplan() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}"
  local kinds kind known="" head=""
  if [[ "$current" == "=" ]]; then current=""; fi
  if [[ "$before" == "=" ]]; then before="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=( $(compgen -W "{verbs} --help --version" -- "$current") )
    return
  fi
  if [[ -n "$(_specplan_inner "$verb")" ]]; then
    if (( COMP_CWORD == 2 )); then
      COMPREPLY=( $(compgen -W "$(_specplan_inner "$verb")" -- "$current") )
      return
    fi
    verb="$verb ${{COMP_WORDS[2]}}"
  fi
  case "$before" in
    {flags}) kinds="" ;;
    --*) kinds="$(_specplan_values "$before")"; [[ -n "$kinds" || "$current" == -* ]] || return 0 ;;
    *) kinds="" ;;
  esac
  if [[ -z "$kinds" && "$current" == -* ]]; then
    COMPREPLY=( $(compgen -W "$(_specplan_options "$verb") --help" -- "$current") )
    return
  fi
  [[ -n "$kinds" ]] || kinds="$(_specplan_arguments "$verb")"
  for kind in $(echo $kinds); do known="$known $(_specplan_words "$kind")"; done
  if [[ "$current" == *,* ]]; then head="${{current%,*}},"; current="${{current##*,}}"; fi
  COMPREPLY=( $(compgen -P "$head" -W "$known" -- "$current") )
  if [[ "$kinds" == *files* && -z "$head" ]]; then
    COMPREPLY+=( $(compgen -f -- "$current") )
    type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null
  fi
  return 0
}}
complete -F _specplan specplan
"""


def _fish(verbs: Sequence[Verb], words: Mapping[str, Sequence[str]]) -> str:
    nouns = dict.fromkeys(verb.path[0] for verb in verbs)
    lines = ["complete -c specplan -f"]
    for noun in nouns:
        about = next(verb.help.partition("\n")[0] for verb in verbs if verb.path[0] == noun)
        inner = _inner(verbs)[noun]
        told = about if not inner else ", ".join(inner)
        lines.append(f"complete -c specplan -n __fish_use_subcommand -a {noun} -d {shlex.quote(told)}")
        for name in inner:
            seen = f"'__fish_seen_subcommand_from {noun}; and not __fish_seen_subcommand_from {' '.join(inner)}'"
            lines.append(f"complete -c specplan -n {seen} -a {name}")
    for verb in verbs:
        seen = "'" + "; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.path) + "'"
        if verb.values:
            lines.append(f"complete -c specplan -n {seen} {_fish_values(verb.values, words)}")
        for option in verb.options:
            long = " ".join(f"-l {name[2:]}" for name in option.names)
            value = "" if option.is_flag else f" -r {_fish_values(option.values, words)}"
            lines.append(f"complete -c specplan -n {seen} {long}{value} -d {shlex.quote(option.help)}")
    return "\n".join(lines) + "\n"


def _fish_values(kinds: Sequence[str], words: Mapping[str, Sequence[str]]) -> str:
    files = "-F" if "files" in kinds else "-f"
    asked = [kind for kind in kinds if kind in ASKED]
    listed = [word for kind in kinds if kind not in (*ASKED, "files") for word in words.get(kind, [kind])]
    told = ([f"(specplan completion words {' '.join(asked)})"] if asked else []) + listed
    return f"{files} -a {shlex.quote(' '.join(told))}" if told else files
