# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The promises of the kernel's own scheduler (docs/contract.md) on real kernels. The mixes and the
figures are those of `paracord-sim contract`, which docs/simulator.md describes. A host plays the
mixes.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import simulator
from .scenario import EXT, STOCK, Column, Scenario, column
from .verdicts import Check, Round

# Promises about VMs with quotas are tested with real VMs: lab/tests/test_quota.py.
CASES = (
    "quota_error",
    "quota_ejections",
    "idle_group_share",
    "fork_chain_share",
    "group_ratio_error",
    "fairness_vs_stock",
    "faults",
)
# The cases for which four seconds of each mix are enough. A quick run leaves the other cases out.
QUICK_CASES = ("quota_error", "quota_ejections", "idle_group_share", "fork_chain_share")
# Length of the measurement of each mix.
SECONDS = 8
# The variant of fork_chain_share in which the group of the loop has a higher weight.
HEAVY = "weights_1000_100"


def _arguments(cpus: int, seconds: int, cases: Sequence[str]) -> tuple[str, ...]:
    return ("contract", f"--cpus={cpus}", f"--seconds={seconds}", f"--only={','.join(cases)}")


def play(host, arguments: Sequence[str]) -> dict[str, dict]:
    """
    Plays mixes on a host, and returns the results of pc_play for each. `arguments` of paracord-sim
    select the mixes.
    """
    with tempfile.TemporaryDirectory() as directory:
        simulator.command(*arguments, "--write", directory)
        mixes = sorted(Path(directory).iterdir())
        return {mix.stem: simulator.play(host, mix) for mix in mixes}


def figures(played: Mapping[str, Mapping], cpus: int, arguments: Sequence[str]) -> dict[str, float]:
    """The figures of one scheduler's results, by the name of a metric."""
    with tempfile.TemporaryDirectory() as directory:
        for mix, said in played.items():
            for scheduler in ("ext", "stock"):
                (Path(directory) / f"{mix}.{scheduler}.json").write_text(json.dumps(said))
        judging = (*arguments, "--played", directory, "--json", "-")
        verdicts = json.loads(simulator.command(*judging, fails=True))["verdicts"]
    return {metric_of(verdict["name"], cpus): verdict["beside"]["ext"] for verdict in verdicts}


def metric_of(verdict: str, cpus: int) -> str:
    """
    The name of the metric of a verdict: `quota_error_2_cpus (5 %, flat)` becomes
    `quota_error_5_flat_ratio`.
    """
    words = re.sub(r"[^a-z0-9]+", "_", verdict.replace(f"_{cpus}_cpus", "").lower()).strip("_")
    return f"{words}_ratio"


def _of(one: Round, configuration: str, case: str) -> dict[str, float]:
    found = {name: value for name, value in one[configuration].items() if name.startswith(case)}
    if not found:
        raise KeyError(case)
    return found


def least(case: str, heavy: bool) -> Callable[[Round], float]:
    """The smallest figure of a case, among those with groups of different weights, or among the others."""
    return lambda one: min(value for name, value in _of(one, "ext", case).items() if (HEAVY in name) == heavy)


def most_beyond_stock(case: str) -> Callable[[Round], float]:
    """The largest difference between a figure and the same figure under the kernel's scheduler."""
    return lambda one: max(value - one["stock"][name] for name, value in _of(one, "ext", case).items())


def most(case: str) -> Callable[..., float]:
    """The largest figure of a case under a configuration."""
    return lambda one, configuration="ext": max(_of(one, configuration, case).values())


class ContractScenario(Scenario):
    """The contract on hosts with `cpus` CPUs."""

    counted = True
    spare = False
    rounds = 1
    configurations = (STOCK, EXT)
    checks = (
        Check("quota_error", most_beyond_stock("quota_error"), "<=", 0.05, every=True),
        Check("quota_ejections_share", most("quota_ejections_share"), "<=", 0.01, unit="share", every=True),
        Check("idle_group_share", most("idle_group_share"), "<=", 0.01, unit="share", every=True),
        Check("fork_chain_share", least("fork_chain_share", False), ">=", 0.45, unit="share", every=True),
        Check(
            "fork_chain_heavy_share", least("fork_chain_share", True), ">=", 0.85, unit="share", every=True
        ),
        Check("group_ratio_error", most_beyond_stock("group_ratio_error"), "<=", 0.05, every=True),
        Check("fairness_vs_stock", most_beyond_stock("fairness_vs_stock"), "<=", 0.03, every=True),
    )
    columns = (
        column("idle group", "idle_group_share_ratio"),
        *(column(f"fork chain {time}", f"fork_chain_share_{time}_ratio") for time in ("300us", "1ms", "4ms")),
        column("group ratio, error", "group_ratio_error_ratio"),
        *(
            Column(title, most(case))
            for title, case in (("quota, worst", "quota_error"), ("fairness, worst", "fairness_vs_stock"))
        ),
    )

    def setup(self, session):
        pass

    def measure(self, session, configuration):
        cases = QUICK_CASES if session.options.quick else CASES
        arguments = _arguments(self.cpus, int(session.seconds(SECONDS)), cases)
        played = play(session.host, arguments)
        return {"played": played, "figures": figures(played, self.cpus, arguments)}

    def metrics(self, configuration, raw):
        return raw["figures"]
