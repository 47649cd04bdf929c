# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Plays the same mixes (crates/sim/mixes/lab, docs/simulator.md) in the simulator and on a host, and
compares the shares of their tasks. Each mix has a real-time task that sometimes runs for a short
time. Without any disturbance, loops would share a machine in a way that does not occur on real
machines.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from . import rust
from .errors import LabError

MIXES = rust.REPOSITORY / "crates/sim/mixes/lab"
SLACK_S = 120
SEEDS = range(1, 8)
# The number of CPUs of all mixes that are compared.
CPUS = 2

# By task or VM: the share of all of its tasks together ("all"), and of the task with the smallest
# ("least") and largest share ("most").
Kinds = dict[str, dict[str, float]]
# By scheduler.
Shares = dict[str, Kinds]
# The first words of the simulator's metrics, and their names here.
WORDS = {"cpu": "all", "least": "least", "most": "most"}


def of_lab(name: str) -> Path:
    """The mix with this name, for the comparison of simulator and lab."""
    return MIXES / f"{name}.mix"


@cache
def _binary() -> Path:
    (binary,) = rust.binaries(platform.machine(), ("paracord-sim",))
    return binary


def command(*arguments: str | Path, fails: bool = False) -> str:
    """
    Runs the simulator, and returns its standard output. fails: the faults that it finds (exit code
    1) are results.
    """
    done = subprocess.run([_binary(), *arguments], capture_output=True, text=True)
    if done.returncode not in (0, int(fails)):
        raise LabError(done.stderr.strip())
    return done.stdout


def simulate(mix: Path) -> Shares:
    """
    The shares under "stock" and "ext": medians over SEEDS, like the lab's medians over rounds.
    """
    found = defaultdict(list)
    for seed in SEEDS:
        results = json.loads(command("compare", mix, "--json", "-", f"--seed={seed}", fails=True))
        for one in results["results"]:
            found[one["config"], one["metric"]].append(one["median"])
    shares: Shares = {"stock": {}, "ext": {}}
    for (scheduler, metric), values in found.items():
        word, _, rest = metric.partition("_")
        if word in WORDS and rest.endswith("_share"):
            kind = shares[scheduler].setdefault(rest.removesuffix("_share"), {})
            kind[WORDS[word]] = statistics.median(values)
    return shares


def play(host, mix: Path, vms: Mapping[str, Sequence[int]] | None = None) -> dict:
    """
    Plays a mix on the host, and returns the result of pc_play. vms: the vCPU threads of the VMs in
    the mix, whose guests already do what the mix says.
    """
    plan = command("plan", mix)
    path = host.share / f"{mix.stem}.plan"
    path.write_text(plan)
    run_ns = next(int(line.split()[1]) for line in plan.splitlines() if line.startswith("run "))
    named = "".join(f" --vm {name}={','.join(map(str, tids))}" for name, tids in (vms or {}).items())
    out = host.run(f"pc_play{named} < /share/{path.name}", timeout=SLACK_S + 20 * run_ns / 1e9).out
    return json.loads(out)


def played_kinds(said: Mapping) -> Kinds:
    """
    The CPU shares of each task and VM of a mix: "all" for its tasks together. If none of its tasks
    has ended, also "least" and "most" for single tasks.
    """
    shares: Kinds = {}
    for kind in said["kinds"]:
        ns = {"all": kind["ran_ns"]}
        if kind["there"] and not kind["ended"]:
            ns |= {"least": kind["least_ns"], "most": kind["most_ns"]}
        shares[kind["name"]] = {what: value / said["measured_ns"] for what, value in ns.items()}
    return shares


def of_what_noise_left(kinds: Kinds) -> Kinds:
    """
    The shares of the time that the mix's real-time task `noise` left. On an emulated host, this
    task takes more time than it needs, because the emulated CPUs stand still in turn.
    """
    left = (CPUS - kinds.get("noise", {"all": 0.0})["all"]) / CPUS
    return {
        name: {what: share / left for what, share in shares.items()}
        for name, shares in kinds.items()
        if name != "noise"
    }


def distance(played: Kinds, simulated: Kinds) -> float:
    """
    The largest difference between the shares of a task (0..1 of a CPU). For tasks that fork and
    end, their sum is compared. For other tasks, the smallest and the largest share are compared.
    """
    return max(
        abs(shares[what] - simulated[name].get(what, 0.0))
        for name, shares in played.items()
        for what in (("least", "most") if "least" in shares else ("all",))
    )


def metrics(configuration: str, raw: Mapping[str, Mapping]) -> dict[str, float]:
    """
    Metrics from raw["played"] and raw["simulated"], both by mix: MIX_distance_share, and the shares
    themselves, MIX_NAME_WHAT_lab_share and MIX_NAME_WHAT_sim_share.
    """
    found: dict[str, float] = {}
    for mix, said in raw["played"].items():
        played = of_what_noise_left(played_kinds(said))
        simulated = of_what_noise_left(raw["simulated"][mix][configuration])
        found[f"{mix}_distance_share"] = distance(played, simulated)
        for name, shares in played.items():
            for what, share in shares.items():
                found[f"{mix}_{name}_{what}_lab_share"] = share
                found[f"{mix}_{name}_{what}_sim_share"] = simulated[name].get(what, 0.0)
    return found
