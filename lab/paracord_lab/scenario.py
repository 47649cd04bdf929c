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

from .verdicts import Check, Round

Raw = dict[str, object]


@dataclass(frozen=True)
class Configuration:
    """
    One of the compared configurations: the same machines and loads, but another way of scheduling
    the vCPUs.

    plain: the minimal sched_ext scheduler in bpf/tests is loaded. ejections_counted: a measurement
    is valid although the kernel ejects paracord's scheduler during it. Otherwise this is an error,
    because the rest was measured under another scheduler.
    """

    name: str
    daemon: bool = False
    module: bool = False
    static_rt: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    plain: bool = False
    ejections_counted: bool = False

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

    board: hardware with CPU frequencies (boards.py), with its own architecture and CPUs. counted:
    an emulated host's clock counts instructions (machine.host()). spare: an emulated host has a CPU
    on which nothing runs, which guests need (machine.host()). without: mechanisms whose removal
    must make a verdict fail (`run --without M`). traced: configurations that are also recorded for
    Perfetto, for a short time after the measurements.
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
    without: Sequence[str] = ()
    traced: Sequence[str] = ()
    checks: Sequence[Check] = ()
    columns: Sequence[Column] = ()

    def missing(self, host) -> str:
        """
        Why the scenario cannot be measured on this host, so that it is skipped. Empty if it can.
        """
        if self.board and host.kind != "emulated":
            return f"needs the emulated board {self.board}"
        return "" if host.cpus >= self.cpus else f"needs {self.cpus} CPUs, but the host has {host.cpus}"

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
