"""specplan completion"""

import re
from typing import Annotated, Any

import typer

from ..base.errors import InputError, did_you_mean
from .app import VERBS, Command, Verbs, new_app

app = new_app()

SHELLS = ("bash", "zsh", "fish")
# What an option's value can be, beside files and the words that its metavar lists.
KINDS = {
    "--gpu": "devices",
    "--model": "models",
    "--draft": "models",
    "--engine": "engines",
    "--stack": "stacks",
    "--to": "stacks",
    "--method": "methods",
}
OF_NOUN = {"hardware": "devices", "models": "models", "stacks": "stacks"}


@app.command(cls=Command)
def completion(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="The shell to complete in.")],
) -> None:
    """A script that completes verbs, options, devices, models, engines and stacks.

    \b
    eval "$(specplan completion bash)"      in ~/.bashrc
    eval "$(specplan completion zsh)"       in ~/.zshrc
    specplan completion fish | source       in ~/.config/fish/config.fish
    """
    from ..hardware.engines import engine_names
    from ..methods.catalogue import METHODS
    from ..render.completion import script
    from ..stacks.registry import stacks

    if shell not in SHELLS:
        raise InputError(
            f"shell {shell[:40]!r} is not known", hint=did_you_mean(shell, SHELLS, otherwise="one of bash, zsh, fish")
        )
    words = {"engines": engine_names(), "methods": list(METHODS), "stacks": list(stacks())}
    typer.echo(script(shell, commands(), words), nl=False)


def commands() -> Any:
    """Every command with its options and what their values can be: for completion, and for docs/commands.md."""
    from ..render.completion import Option, Verb

    def option(param: Any) -> Option:
        names = tuple(name for name in param.opts if name.startswith("--"))
        values = "" if getattr(param, "is_flag", False) else KINDS.get(names[0], "")
        files = "files" if re.search("FILE|PATH", param.metavar or "") else ""
        listed = (param.metavar or "").split("|")
        words = " ".join(listed) if len(listed) > 1 and all(re.fullmatch("[a-z_]+", word) for word in listed) else ""
        return Option(
            names,
            f"{values} {files} {words}".split(),
            (param.help or "").strip(),
            bool(param.is_flag),
            metavar=param.metavar or "",
            panel=getattr(param, "rich_help_panel", None) or "Other",
        )

    def verb(path: tuple[str, ...], command: Any) -> Verb:
        params = command.params
        arguments = [param for param in params if not param.opts[0].startswith("-")]
        return Verb(
            path,
            (command.help or VERBS.get(path[0], "")).strip(),
            [option(param) for param in params if param.opts[0].startswith("-")],
            _values(path[0], arguments[0].metavar) if arguments else [],
            arguments[0].metavar if arguments else "",
        )

    found = []
    group = Verbs()
    for name in VERBS:
        command = group.get_command(None, name)
        below = getattr(command, "commands", {})
        found += [verb((name, inner), one) for inner, one in below.items()] or [verb((name,), command)]
    return found


def _values(noun: str, metavar: str | None) -> list[str]:
    """What a command's argument can be."""
    text = metavar or ""
    named = [OF_NOUN[noun]] if noun in OF_NOUN and "NAME" in text else []
    files = ["files"] if re.search("FILE|PATH|PLAN", text) else []
    return named + files or [word for word in text.split("|") if word.islower()]
