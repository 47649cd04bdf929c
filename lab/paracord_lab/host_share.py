# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""How much of its CPUs the host's own work keeps, relative to its share beside an ordinary spinning vCPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import stats
from .errors import LabError
from .plots import Bars
from .scenario import VANILLA
from .verdicts import Check, Round

# The budgets may give a guest the other 20 % for its real needs. A host that a guest has taken over
# keeps far less than 80 %.
HOST_SHARE_MIN = 0.8
# The metric of vanilla with which others are compared. The guest only spins, and its vCPU is a
# normal task.
REFERENCE = "host_beside_spinning_share"


def relative(configuration: str, metric: str) -> Callable[[Round], float]:
    """
    A share metric of a configuration, relative to the share in vanilla beside an ordinary spinning
    vCPU.
    """
    return lambda one: stats.ratio(one[configuration][metric], one[VANILLA.name][REFERENCE])


def check(name: str, metric: str, configuration: str = "boost-rt", static_rt_metric: str = "") -> Check:
    """
    The verdict that a configuration leaves the host its share. The value of static-rt is printed
    beside it.
    """
    static = {"static-rt": relative("static-rt", static_rt_metric or metric)}
    return Check(name, relative(configuration, metric), ">=", HOST_SHARE_MIN, beside=static)


def bars(metrics: dict[str, str]) -> Bars:
    return Bars("CPU time that the host's own work gets while the guest spins", metrics, "share")


@contextmanager
def running(machine, command: str, name: str) -> Iterator[None]:
    """Runs a command in the background while the context is open. LabError if the command ends earlier."""
    job = machine.spawn(command, name)
    try:
        yield
        if not job.running:
            said = (job.err() or job.out()).strip()[-200:]
            raise LabError(f"{name} ended while it should run: {said or 'without a message'}")
    finally:
        job.kill("TERM")
        job.wait(timeout=30)
