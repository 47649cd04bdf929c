# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What the host's own work keeps of its CPUs, relative to its share beside an ordinary spinning vCPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import stats
from .errors import LabError
from .plots import Bars
from .scenario import VANILLA
from .verdicts import Check, Round

# 80 %: what budgets may take for a guest's real needs; a hijacked host keeps far less.
HOST_SHARE_MIN = 0.8
# The metric of vanilla that others are compared with: the guest only spins, its vCPU is a normal task.
REFERENCE = "host_beside_spinning_share"


def relative(configuration: str, metric: str) -> Callable[[Round], float]:
    """A share metric of a configuration relative to vanilla's share beside an ordinary spinning vCPU."""
    return lambda one: stats.ratio(one[configuration][metric], one[VANILLA.name][REFERENCE])


def check(name: str, metric: str, configuration: str = "boost-rt", static_rt_metric: str = "") -> Check:
    """Verdict that a configuration leaves the host its share; static-rt's value beside it."""
    static = {"static-rt": relative("static-rt", static_rt_metric or metric)}
    return Check(name, relative(configuration, metric), ">=", HOST_SHARE_MIN, beside=static)


def bars(metrics: dict[str, str]) -> Bars:
    return Bars("CPU time that the host's own work gets while the guest spins", metrics, "share")


@contextmanager
def running(machine, command: str, name: str) -> Iterator[None]:
    """A command in the background while the context is open; LabError when it ends before that."""
    job = machine.spawn(command, name)
    try:
        yield
        if not job.running:
            said = (job.err() or job.out()).strip()[-200:]
            raise LabError(f"{name} ended while it should run: {said or 'without a word'}")
    finally:
        job.kill("TERM")
        job.wait(timeout=30)
