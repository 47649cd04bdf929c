# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: paracord on Debian's stable kernel: 6.12, built without sched_ext."""

from pathlib import Path

import pytest

from paracord_lab import cyclictest, daemon, loads, machine, tree
from paracord_lab.daemon import BINARY, EMULATED_HOST, Daemon

pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("emulated")]


@pytest.fixture(scope="module")
def host():
    with machine.host(cpus=2, logs=Path("out/test-stable/logs"), kernel=tree.ensure("stable")) as booted:
        yield booted


def boosts_with_rt(host, guest, actuator):
    """Asked for any actuator the daemon boosts with rt; what it says."""
    settings = {**EMULATED_HOST, "actuator": actuator}
    with Daemon(host, settings).start(guest.vcpu_tids) as running_daemon, loads.busy(host):
        guest.run(cyclictest.command("boosted", 4000, 2), timeout=60)
        status = running_daemon.status()
        said = running_daemon.job.err()
    assert status["actuator"]["kind"] == "rt" and status["actuator"]["errors"] == 0
    (vcpu,) = daemon.vcpus(status)
    assert sum(vcpu["wakeup_latency_boosted"]["buckets"]) > 100, vcpu
    return said


@pytest.mark.parametrize(
    "actuator",
    [pytest.param("rt", marks=pytest.mark.long), pytest.param("ext", marks=pytest.mark.long), "auto"],
)
def test_boosts_with_actuator_rt(host, guest, actuator):
    assert host.kernel.startswith("6.12.")
    said = boosts_with_rt(host, guest, actuator)
    assert ("WARN" in said and "no actuator ext here, going on with rt" in said) == (actuator == "ext"), said


def test_doctor_says_what_the_kernel_lacks(host):
    said = host.run(f"{BINARY} doctor", check=False).out
    assert "sched_ext            not in this kernel" in said and "this host can boost vCPUs" in said
