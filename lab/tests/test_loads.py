# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import pytest

from paracord_lab import loads
from paracord_lab.loads import Reading


def test_reading():
    lines = ["1500000000 20 3", "500000000 1 1", "100.25 180.00"]
    assert loads.parse_reading(lines, 2) == Reading(2.0, 100.25)


def test_a_load_that_ended_is_an_error():
    with pytest.raises(loads.LoadError, match="expected 2 loads"):
        loads.parse_reading(["1500000000 20 3", "100.25 180.00"], 2)


def test_share_is_of_all_cpus():
    assert loads.share(Reading(10, 100), Reading(16, 104), cpus=2) == pytest.approx(0.75)


def test_no_time_is_an_error():
    with pytest.raises(loads.LoadError):
        loads.share(Reading(10, 100), Reading(10, 100), cpus=2)


@pytest.mark.lab
def test_a_shared_host_has_no_autogroups(host):
    assert host.run(f"cat {loads.AUTOGROUP}").out.strip() == "0"


CHRT = """pid 312's current scheduling policy: SCHED_RR
pid 312's current scheduling priority: 8
pid 313's current scheduling policy: SCHED_OTHER|SCHED_RESET_ON_FORK
pid 313's current scheduling priority: 0
"""


def test_policies_from_chrt():
    assert loads.parse_policies(CHRT) == {312: "SCHED_RR 8", 313: "SCHED_OTHER 0"}
