# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Mixes of the simulator (crates/sim/mixes/lab, docs/simulator.md), simulated here and played on a host, and how
far apart the shares of their tasks are. Each has a real-time task that runs for a moment now and then: what
loops make of a machine without any disturbance is no machine's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import rust, rust_tree
from .errors import LabError

MIXES = rust.REPOSITORY / "crates/sim/mixes/lab"
SLACK_S = 120

Kinds = dict[str, dict[str, float]]


def of_lab(name: str) -> Path:
    """The mix of that name that simulator and lab are compared by."""
    return MIXES / f"{name}.mix"


def _simulator(*arguments: str | Path, fails: bool = False) -> str:
    """Its standard output. fails: faults that it finds (exit code 1) are results."""
    rust.cargo("build", "--release", "--locked", "--package=paracord-sim")
    binary = rust_tree.target_directory() / "release/paracord-sim"
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, int(fails)):
        raise LabError(done.stderr.strip())
    return done.stdout


def simulate(mix: Path) -> dict:
    """results.json of both schedulers, "stock" and "ext"."""
    return json.loads(_simulator("compare", mix, "--json", "-", fails=True))


def play(host, mix: Path, vms: Mapping[str, Sequence[int]] | None = None) -> dict:
    """
    What pc_play says of a mix on the host. vms: the vCPU threads of the VMs that the mix names, which do
    already what it says.
    """
    plan = _simulator("plan", mix)
    path = host.share / f"{mix.stem}.plan"
    path.write_text(plan)
    run_ns = next(int(line.split()[1]) for line in plan.splitlines() if line.startswith("run "))
    named = "".join(f" --vm {name}={','.join(map(str, tids))}" for name, tids in (vms or {}).items())
    out = host.run(f"pc_play{named} < /share/{path.name}", timeout=SLACK_S + 20 * run_ns / 1e9).out
    return json.loads(out)


def played_kinds(said: Mapping) -> Kinds:
    """
    Shares of a CPU of each task and VM of a mix: "all" of its tasks together; where none of them ended,
    "least" and "most" of one of them.
    """
    shares: Kinds = {}
    for kind in said["kinds"]:
        ns = {"all": kind["ran_ns"]}
        if kind["there"] and not kind["ended"]:
            ns |= {"least": kind["least_ns"], "most": kind["most_ns"]}
        shares[kind["name"]] = {what: value / said["measured_ns"] for what, value in ns.items()}
    return shares


def simulated_kinds(results: Mapping, scheduler: str, like: Kinds) -> Kinds:
    """The same of a simulation, for those shares that `like` has."""
    found = {one["metric"]: one["median"] for one in results["results"] if one["config"] == scheduler}
    words = {"all": "cpu", "least": "least", "most": "most"}
    return {
        name: {what: found.get(f"{words[what]}_{name}_share", 0.0) for what in shares}
        for name, shares in like.items()
    }


def distance(one: Kinds, other: Kinds) -> float:
    """
    Largest distance of a task's shares (0..1 of a CPU). Of tasks that fork and end it is that of their sum,
    of others that of the one with the least and of the one with the most.
    """
    return max(
        abs(shares[what] - other[name][what])
        for name, shares in one.items()
        for what in (("least", "most") if "least" in shares else ("all",))
    )


def metrics(configuration: str, raw: Mapping[str, Mapping]) -> dict[str, float]:
    """
    Of raw["played"] and raw["simulated"], both by mix: MIX_distance_share, and the shares themselves,
    MIX_NAME_WHAT_lab_share and MIX_NAME_WHAT_sim_share.
    """
    found: dict[str, float] = {}
    for mix, said in raw["played"].items():
        played = played_kinds(said)
        simulated = simulated_kinds(raw["simulated"][mix], configuration, played)
        found[f"{mix}_distance_share"] = distance(played, simulated)
        for where, kinds in (("lab", played), ("sim", simulated)):
            for name, shares in kinds.items():
                found |= {f"{mix}_{name}_{what}_{where}_share": share for what, share in shares.items()}
    return found
