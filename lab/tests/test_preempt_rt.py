# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: paracord on Debian's PREEMPT_RT kernel, by `make test-rt`, which names the kernel. It refuses BPF timers,
so that the actuator is rt there, whatever is asked for.
"""

from pathlib import Path

import pytest
from test_short_scenarios import failures, run
from test_stable_kernel import boosts_with_rt

from paracord_lab import machine
from paracord_lab.daemon import BINARY

pytestmark = [pytest.mark.lab, pytest.mark.preempt_rt, pytest.mark.needs("emulated")]
# Of the deadlines that vanilla misses.
MISSED_MAX = 0.25
REFUSAL = "a PREEMPT_RT kernel refuses BPF timers"


@pytest.fixture(scope="module")
def host():
    with machine.host(cpus=2, logs=Path("out/test-preempt-rt/logs")) as booted:
        assert "PREEMPT_RT" in booted.run("uname -v").out, "this is no PREEMPT_RT kernel: make test-rt"
        yield booted


@pytest.mark.parametrize("actuator", ["rt", "ext", "auto"])
def test_boosts_with_actuator_rt(host, guest, actuator):
    said = boosts_with_rt(host, guest, actuator)
    assert (REFUSAL in said) == (actuator != "rt"), said


def test_doctor_says_what_the_kernel_refuses(host):
    said = host.run(f"{BINARY} doctor", check=False).out
    assert REFUSAL in said and "this host can boost vCPUs" in said, said


def test_what_a_killed_daemon_leaves_is_restored():
    assert not failures("kill-daemon", 1)


def test_most_deadlines_that_vanilla_misses_are_met():
    """
    Not as many as on other kernels, nor are with vCPUs that are real-time all the time: such a kernel's
    threads for interrupts and timers take an emulator long.
    """
    for verdict in run("glitch", rounds=3).values():
        assert verdict.value <= MISSED_MAX, verdict
