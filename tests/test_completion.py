"""Completion: the scripts of the shells are driven as the shells drive them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from specplan.cli.app import VERBS, Verbs
from specplan.hardware.profile import hardware_names
from specplan.models.spec import model_names


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with `specplan` as a program, and the scripts of all shells."""
    folder = tmp_path_factory.mktemp("completion")
    program = folder / "specplan"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m specplan "$@"\n')
    program.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        ran = subprocess.run([program, "completion", shell], capture_output=True, text=True, check=True)
        (folder / f"script.{shell}").write_text(ran.stdout)
    return folder


def run(home, shell, text):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    environment = {**os.environ, "PATH": f"{home}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
    command = [shell, "-c", f"source {shlex.quote(str(home / f'script.{shell}'))}; {text}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def in_bash(home, line):
    """The words that bash offers at the end of a line; as readline does, `=` stands alone."""
    words = line.replace("=", " = ").split(" ")
    array = " ".join(map(shlex.quote, words))
    text = f'COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _specplan; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return run(home, "bash", text).split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("specplan pla", ["plan"]),
        ("specplan models ", ["list", "show"]),
        ("specplan hardware show h200-", ["h200-nvl", "h200-sxm"]),
        ("specplan plan --gpu h200-s", ["h200-sxm"]),
        ("specplan plan --gpu=h200-s", ["h200-sxm"]),
        ("specplan sweep --gpu a100,h200-s", ["a100,h200-sxm"]),
        ("specplan plan --draft llama-68", ["llama-68m"]),
        ("specplan plan --method ea", ["eagle", "eagle3"]),
        ("specplan plan --engine vl", ["vllm"]),
        ("specplan plan --time ", ["ideal", "calibrated"]),
        ("specplan export --to sgl", ["sglang"]),
        ("specplan stacks sgl", ["sglang"]),
        ("specplan plan --json --accept-r", ["--accept-rate"]),
        ("specplan plan --overhead ", []),
        ("specplan completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_offers_what_fits(home, line, offered):
    assert in_bash(home, line) == offered


def test_bash_offers_every_verb_and_every_option(home):
    assert in_bash(home, "specplan ") == [*VERBS, "--help", "--version"]
    for verb in ("plan", "sweep", "acceptance"):
        params = Verbs().get_command(None, verb).params
        options = {name for param in params for name in param.opts if name.startswith("--")}
        assert set(in_bash(home, f"specplan {verb} --")) == options | {"--help"}


def test_bash_offers_files_beside_names(home):
    (home / "my-gpu.yaml").write_text("")
    assert in_bash(home, f"specplan plan --gpu {home}/my-") == [f"{home}/my-gpu.yaml"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("specplan pla", "plan"),
        ("specplan plan --gpu h200-s", "h200-sxm"),
        ("specplan hardware show h200-s", "h200-sxm"),
        ("specplan plan --time id", "ideal"),
        ("specplan export --to sgl", "sglang"),
        ("specplan plan --accept-r", "--accept-rate"),
    ],
)
def test_fish_offers_what_fits(home, line, offered):
    found = run(home, "fish", f"complete -C {shlex.quote(line)}")
    assert [word.split("\t")[0] for word in found.splitlines()] == [offered]


def test_zsh_reads_its_script(home):
    assert "_specplan" in run(home, "zsh", "print -l ${(k)functions}")


def test_names_come_without_what_the_program_itself_needs():
    text = (
        "import sys; sys.argv = ['specplan', 'completion', 'words', 'devices', 'models']\n"
        "from specplan.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert not {'typer', 'pydantic', 'numpy', 'yaml'} & set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert {*hardware_names(), *model_names(), "a100"} <= set(ran.stdout.split())


def test_another_shell_is_refused(refused):
    assert "bash" in refused("completion tcsh")
