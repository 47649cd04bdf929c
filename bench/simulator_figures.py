# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The figures of bench/simulator.

The simulator has one thread and waits for nothing: on a machine that does nothing else its CPU time is the
time by the clock. Speed is judged by CPU time, because the time by the clock has other programs in it; the
latter stands beside it. Caches and a core's other thread are shared with other programs all the same: the
best of several runs counts, and their median and least stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MIXES = Path(__file__).resolve().parents[1] / "crates/sim/mixes"
SCHEDULERS = ("ext", "stock")
SPEED_RUNS = 5
# Targets of the simulator's design: a small machine's second takes less than a second, and a large machine
# fits into a developer's.
SPEED_PER_S = 2_000_000
LARGE_S = 60
LARGE_MIB = 2048
# Random mixes from seed 1 on, of each size as many as come in this time, so many in one command.
RANDOM_CPUS = (2, 8, 64, 256)
RANDOM_S = 60
RANDOM_MIXES = 50
# Faults of that many seeds are shown.
SHOWN = 5
# For one command, which takes seconds, or minutes if CPUs switch without end, which is a fault.
TIMEOUT_S = 600
# A run that is interrupted goes on to its next step, which may take as long: then it is killed.
TIMED_OUT = (124, 137)


@dataclass
class Ran:
    """A command's standard output, time by the clock, CPU time, and most memory."""

    rc: int
    out: str
    wall_s: float
    cpu_s: float
    peak_mib: float


def run(*argv: str) -> Ran:
    """Runs the simulator. An end that is none of its exit codes for runs ends this program too."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(["timeout", "--foreground", "-k10", str(TIMEOUT_S), *argv], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - begun
        out.seek(0)
        rc, text = os.waitstatus_to_exitcode(status), out.read()
    if rc not in (0, 1) and not (rc in TIMED_OUT and argv[1] == "random"):
        sys.exit(f"{' '.join(argv)}: exit code {rc}; the last that it said:\n{text[-500:]}")
    return Ran(rc, text, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_mix(binary: str, name: str, scheduler: str) -> tuple[Ran, int, int]:
    """A mix of the repository: what the run took, its events and its faults."""
    ran = run(binary, "run", str(MIXES / f"{name}.mix"), "--scheduler", scheduler, "--json", "-")
    results = json.loads(ran.out)
    events = next(one["median"] for one in results["results"] if one["metric"] == "events_count")
    return ran, int(events), int(results["verdicts"][0]["value"])


def speed(binary: str, scheduler: str) -> dict:
    runs = [run_mix(binary, "speed", scheduler) for _ in range(SPEED_RUNS)]
    per_s = [events / ran.cpu_s for ran, events, _ in runs]
    wall_per_s = [events / ran.wall_s for ran, events, _ in runs]
    return {
        "case": "speed",
        "scheduler": scheduler,
        "cpus": 8,
        "runs": SPEED_RUNS,
        "events": runs[0][1],
        "faults": runs[0][2],
        "events_per_cpu_s": round(max(per_s)),
        "median": round(statistics.median(per_s)),
        "least": round(min(per_s)),
        "events_per_wall_s": round(max(wall_per_s)),
        "target_at_least": SPEED_PER_S,
        "result": judged(max(per_s) >= SPEED_PER_S),
    }


def large(binary: str, scheduler: str) -> list[dict]:
    ran, events, faults = run_mix(binary, "large", scheduler)
    about = {"case": "large", "scheduler": scheduler, "cpus": 256, "events": events, "faults": faults}
    return [
        {
            **about,
            "wall_s": round(ran.wall_s, 2),
            "target_below": LARGE_S,
            "result": judged(ran.wall_s < LARGE_S),
        },
        {
            **about,
            "peak_mib": round(ran.peak_mib, 1),
            "target_below": LARGE_MIB,
            "result": judged(ran.peak_mib < LARGE_MIB),
        },
    ]


def random(binary: str, cpus: int) -> dict:
    failed: dict[str, str] = {}
    mixes, wall_s, peak_mib = 0, 0.0, 0.0
    while wall_s < RANDOM_S:
        seed = mixes + 1
        ran = run(binary, "random", "--seed", f"{seed}", "--cpus", f"{cpus}", "--count", f"{RANDOM_MIXES}")
        mixes += RANDOM_MIXES
        wall_s += ran.wall_s
        peak_mib = max(peak_mib, ran.peak_mib)
        failed |= faults_of(ran.out)
        if ran.rc in TIMED_OUT:
            ended = len(re.findall(r"^seed ", ran.out, re.MULTILINE))
            failed[str(seed + ended)] = (
                f"{RANDOM_MIXES} mixes did not end within {TIMEOUT_S} s, this one last"
            )
    return {
        "case": "random",
        "scheduler": "ext",
        "cpus": cpus,
        "mixes": mixes,
        "wall_s": round(wall_s, 1),
        "peak_mib": round(peak_mib, 1),
        "failed": len(failed),
        "first_failed": dict(list(failed.items())[:SHOWN]),
        "target_at_most": 0,
        "result": judged(not failed),
    }


def faults_of(out: str) -> dict[str, str]:
    """Seed -> the first of its faults, for each seed that has any."""
    found: dict[str, str] = {}
    seed = ""
    for line in out.splitlines():
        if begins := re.match(r"seed (\d+): ", line):
            seed = begins[1]
        elif line.startswith("  "):
            found.setdefault(seed, line.strip())
    return found


def judged(good: bool) -> str:
    return "pass" if good else "miss"


def main() -> int:
    parser = argparse.ArgumentParser(description="The simulator's figures beside their targets.")
    parser.add_argument("binary")
    parser.add_argument("--no-random", action="store_true", help="speed and memory only")
    args = parser.parse_args()
    # Its children inherit it.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    missed = False

    def say(figure: dict) -> None:
        nonlocal missed
        missed |= figure["result"] == "miss"
        print(json.dumps({"bench": "simulator", **figure}), flush=True)

    for scheduler in SCHEDULERS:
        say(speed(args.binary, scheduler))
    for scheduler in SCHEDULERS:
        for figure in large(args.binary, scheduler):
            say(figure)
    if not args.no_random:
        for cpus in RANDOM_CPUS:
            say(random(args.binary, cpus))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
