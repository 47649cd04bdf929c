# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T2: short scenarios on real kernels, with their verdicts; and that a verdict fails without its mechanism. What
is measured lies in out/test/<scenario> afterwards, with the report and the machines' logs.
"""

from pathlib import Path

import pytest

from paracord_lab import report, runner, scenario
from paracord_lab.session import Options
from paracord_lab.verdicts import FAIL, PASS

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]

OUT = Path("out/test")
# Counted outcomes, and what is hundreds of times cheaper: how fast something is belongs to `make demo`,
# `make lab` and `make bench`. A median needs two rounds.
SHORT = (("kill-daemon", 1), ("freq-path", 2))
# Of the scenario contract, what four seconds of each mix decide.
PROMISES = ("quota_error", "quota_ejections_share", "idle_group_share", "fork_chain_heavy_share")
# The mechanism's verdict: it must fail, and not merely be undecided, when the mechanism is switched off.
WITHOUT = (
    ("rogue-hold", "budget", "rogue_hold_host_share"),
    ("freq-path", "page", "page_exits_per_change"),
)


def run(name, **options):
    one = scenario.load(name)
    chosen = Options(quick=True, **options)
    judged = runner.run(one, chosen, OUT)
    print(report.text(one, runner.output_directory(OUT, one, chosen), judged))
    return {verdict.name: verdict for verdict in judged.verdicts}


def failures(name, rounds):
    """Lines about verdicts that are no pass."""
    verdicts = run(name, rounds=rounds)
    assert verdicts
    return [report.verdict_line(v) for v in verdicts.values() if v.status != PASS]


@pytest.mark.long
@pytest.mark.parametrize(("name", "rounds"), SHORT)
def test_every_verdict_passes(name, rounds):
    failed = failures(name, rounds)
    assert not failed, "\n".join(failed)


@pytest.mark.long
@pytest.mark.needs("sched_ext")
def test_quotas_idle_groups_and_forks_are_as_the_kernel_promises():
    verdicts = run("contract", rounds=1)
    failed = [report.verdict_line(verdicts[name]) for name in PROMISES if verdicts[name].status != PASS]
    assert not failed, "\n".join(failed)


@pytest.mark.long
@pytest.mark.parametrize(("name", "mechanism", "verdict"), WITHOUT)
def test_verdict_fails_without_its_mechanism(name, mechanism, verdict):
    # With three a round that the machine disturbed does not leave it undecided.
    judged = run(name, without=mechanism, rounds=3)
    assert judged[verdict].status == FAIL, report.verdict_line(judged[verdict])
