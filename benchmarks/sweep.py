"""Points a second of `specplan sweep`: one process beside a pool of them, whole commands with the file written.

    python benchmarks/sweep.py --jobs 2

A point is a pass time and the best shape from a frontier that is kept for each acceptance; methods whose draft times
depend on the widths of a tree are planned one by one. The processor time of the one process says what a core does that
is shared with nobody; two of them do twice that.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRIDS = {
    "from frontiers": (
        "--gpu a100,h100,h200,b200,l4,rtx-4090 --model llama-3-8b,llama-2-13b,qwen3-8b --method chain,medusa,ngram "
        "--draft llama-3.2-1b --batch 1..64 --context 0,2k,8k --p 0.3..0.9:0.05",
        6 * 3 * 3 * 64 * 3 * 13,
    ),
    "one by one": (
        "--gpu a100 --model llama-3-8b --method eagle3,sequoia --draft llama-3.2-1b --batch 1..16 --p 0.4..0.8",
        2 * 16 * 5,
    ),
}


def run(grid: str, jobs: int, file: Path) -> tuple[float, float]:
    """Wall seconds of a whole command, and processor seconds of its main process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "specplan", "sweep", *grid.split(), "--jobs", str(jobs), "--out", str(file), "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{'points':14} {'number':>7} {'jobs':>4} {'wall s':>7} {'a second':>9} {'a second of a core':>18}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (grid, points) in GRIDS.items():
            files = []
            for jobs in (1, given.jobs):
                file = Path(folder) / f"{jobs}.csv"
                runs = [run(grid, jobs, file) for _ in range(given.runs)]
                wall, spent = min(run[0] for run in runs), min(run[1] for run in runs)
                core = f"{points / spent:18.0f}" if jobs == 1 else ""
                print(f"{name:14} {points:7} {jobs:4} {wall:7.2f} {points / wall:9.0f} {core}")
                files.append(file.read_bytes())
            print(f"{name:14} same bytes: {files[0] == files[1]}")


if __name__ == "__main__":
    main()
