"""Start-up: whole processes of specplan beside `python -c "import typer, pydantic, yaml"`, in turn, in one run.

    python benchmarks/startup.py --runs 15

Prints the median of each and the ratio. The goal is 1.3 or less for the commands that need no numpy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

BASE = [sys.executable, "-c", "import typer, pydantic, yaml"]
COMMANDS = (
    "--help",
    "tree --p 0.6 --budget 14",
    "roofline --gpu a100 --params 13e9",
    "plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6",
)


# Compiled bytecode is part of an installation; where the environment forbids writing it, keep it elsewhere.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="specplan-bytecode-")


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    specplan = [sys.executable, "-m", "specplan"]
    print(f"{'command':64} {'median ms':>9} {'base ms':>8} {'ratio':>6}")
    for command in COMMANDS:
        argv = [*specplan, *command.split()]
        seconds(argv), seconds(BASE)  # warm the caches
        pairs = [(seconds(argv), seconds(BASE)) for _ in range(runs)]
        mine, base = (statistics.median(column) for column in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{command:64} {mine * 1e3:9.0f} {base * 1e3:8.0f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
