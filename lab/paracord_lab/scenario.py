# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Defines what a scenario is. Each file in lab/scenarios/ defines one class derived from Scenario.

Collecting (`setup`, `measure`) runs on machines and returns raw outputs, which are stored
unchanged. Judging (`metrics`, `checks`) is pure, so a report can be made again from the raw outputs
alone.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .needs import BPFTOOL, BTF, SCHED_EXT, Need
from .verdicts import Check, Round

Raw = dict[str, object]


@dataclass(frozen=True)
class Configuration:
    """
    One of the compared configurations: the same machines and loads, but another way of scheduling
    the vCPUs.

    plain: the least scheduler of sched_ext, of bpf/tests, is in force.
    ejections_counted: a measurement in which the kernel ejects paracord's scheduler counts; otherwise it is
    an error, since the rest of it was measured under another one.
    also_needs: what the host must have (needs.py), beside what follows from the other fields.
    """

    name: str
    daemon: bool = False
    module: bool = False
    static_rt: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    plain: bool = False
    ejections_counted: bool = False
    also_needs: Sequence[Need] = ()

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the host must have."""
        implied = (
            (self.daemon or self.plain, BTF),
            (self.is_ext or self.plain, SCHED_EXT),
            (self.plain, BPFTOOL),
        )
        return (*(need for applies, need in implied if applies), *self.also_needs)

    @property
    def is_ext(self) -> bool:
        """Whether paracord's scheduler is loaded."""
        return self.daemon and self.settings.get("actuator") == "ext"


VANILLA = Configuration("vanilla")
BOOST_UNMODIFIED = Configuration("boost-rt-unmodified", daemon=True)
BOOST = Configuration("boost-rt", daemon=True, module=True)
BOOST_EXT = Configuration("boost-ext", daemon=True, module=True, settings={"actuator": "ext"})
# For scenarios about the scheduler itself: the kernel's scheduler, and paracord's.
STOCK = Configuration("stock")
EXT = Configuration("ext", daemon=True, settings={"actuator": "ext"})
# The cost of sched_ext itself.
PLAIN = Configuration("plain", plain=True)
# What people use today: every vCPU thread is always SCHED_RR (libvirt's <vcpusched>).
STATIC_RT = Configuration("static-rt", static_rt=True)
# The best possible case: the guest's task runs as a plain task of the host.
HOST_NATIVE = Configuration("host-native")


@dataclass(frozen=True)
class Column:
    """
    A column of the table: its title with the unit, and the value of a configuration in a round.
    """

    title: str
    value: Callable[[Round, str], float]


def column(title: str, metric: str) -> Column:
    """A column that shows a metric without changing it."""
    return Column(title, lambda one, configuration: one[configuration][metric])


class Scenario:
    """
    One experiment. Its class attributes describe it; see lab/scenarios/ for examples.

    board: hardware with CPU frequencies (boards.py), with its own architecture and CPUs.
    counted: an emulated host's clock counts instructions (machine.host()).
    spare: an emulated host has a CPU that nothing runs on, for its guests' sake (machine.host()).
    needs: what a host must have for any of its configurations (needs.py).
    without: mechanisms whose removal must make a verdict fail (`run --without M`).
    traced: configurations of which a short piece is recorded for Perfetto after the measurements.
    """

    name: str = ""
    summary: str = ""
    arch: str = "x86_64"
    cpus: int = 2
    board: str = ""
    counted: bool = False
    spare: bool = True
    rounds: int = 3
    configurations: Sequence[Configuration] = ()
    needs: Sequence[Need] = ()
    without: Sequence[str] = ()
    traced: Sequence[str] = ()
    checks: Sequence[Check] = ()
    columns: Sequence[Column] = ()

    def missing(self, host) -> str:
        """Why this cannot be measured on that host: then it is skipped. Empty if it can."""
        return "" if host.cpus >= self.cpus else f"needs {self.cpus} CPUs, the host has {host.cpus}"

    def setup(self, session) -> None:
        """Boots guests and starts loads. Called once."""
        raise NotImplementedError

    def measure(self, session, configuration: Configuration) -> Raw:
        """Measures one configuration once, on machines that `session` has already configured."""
        raise NotImplementedError

    def trace(self, session, configuration: Configuration) -> None:
        """The work that runs during the recording of a trace."""
        raise NotImplementedError

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        """Computes metrics from the result of `measure`. The names of metrics end in the unit. Pure."""
        raise NotImplementedError

    def plots(self) -> Sequence:
        """The plots of the report (plots.Distribution, plots.Bars)."""
        return ()

    def configuration(self, name: str) -> Configuration:
        return next(c for c in self.configurations if c.name == name)


def names() -> list[str]:
    """The names of all scenarios. The file busy_host.py is `busy-host`."""
    package = importlib.import_module("scenarios")
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(package.__path__))


def load(name: str) -> Scenario:
    """Returns the scenario. KeyError with the known names if there is none with this name."""
    if name not in names():
        raise KeyError(f"no scenario {name!r}; there are: {', '.join(names())}")
    return importlib.import_module("scenarios." + name.replace("-", "_")).SCENARIO
