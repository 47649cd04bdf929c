# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Scenarios that measure the wakeup latency in a guest, on an idle and on a busy host, and the host's
own latency at the same time.

Metrics: guest_<interval>_<idle|busy>_{avg,p99,max}_us, and the same with host_ for the host's
cyclictest.
"""

from collections.abc import Callable, Mapping, Sequence

from . import cyclictest, stats
from .host_share import running
from .plots import Bars, Distribution, Plot
from .scenario import HOST_NATIVE, VANILLA, Column, Configuration, Raw, Scenario, column
from .verdicts import Check, Round

IDLE, BUSY = "idle", "busy"

# Limits of the excess. Published boosts reach less than a tenth of vanilla's; the rest is for the
# noise of an emulator. The host does not know the task class of an unmodified guest, so this limit
# is higher.
EXCESS_MAX = 0.15
EXCESS_UNMODIFIED_MAX = 0.40
# As good as the best method that people use today.
VS_STATIC_RT_MAX = 1.25
# A boost in the kernel must not be worse than a boost by system call.
EXT_VS_RT_MAX = 1.1
# The host's own latency must not be higher than beside a guest that is always real-time. It is not
# compared with vanilla, where the guest starves and the host waits for nothing. It is not compared
# with the same work as a plain task of the host either, because that takes a twentieth of the time
# that an emulated guest takes.
HOST_MAX = 1.3


def avg(one: Round, configuration: str, interval_us: int, load: str, side: str = "guest") -> float:
    return one[configuration][f"{side}_{interval_us}_{load}_avg_us"]


def excess(configuration: str, interval_us: int) -> Callable[[Round], float]:
    """The excess latency of a configuration relative to vanilla's."""
    return lambda one: stats.excess_ratio(
        avg(one, configuration, interval_us, BUSY),
        avg(one, configuration, interval_us, IDLE),
        avg(one, VANILLA.name, interval_us, BUSY),
        avg(one, VANILLA.name, interval_us, IDLE),
    )


def busy_ratio(configuration: str, reference: str, interval_us: int, side: str) -> Callable[[Round], float]:
    """The avg on the busy host relative to another configuration's."""
    return lambda one: stats.ratio(
        avg(one, configuration, interval_us, BUSY, side), avg(one, reference, interval_us, BUSY, side)
    )


def checks(interval_us: int, suffix: str = "", hosts_beside: Sequence[str] = (VANILLA.name,)) -> list[Check]:
    """
    The verdicts on latency at one interval. `suffix` distinguishes intervals. hosts_beside: further
    configurations with which the host's own latency is compared, without a verdict.
    """

    def hosts(reference: str) -> Callable[[Round], float]:
        return busy_ratio("boost-rt", reference, interval_us, "host")

    return [
        Check(f"boost_rt_excess_vs_vanilla{suffix}", excess("boost-rt", interval_us), "<=", EXCESS_MAX,
              beside={"static-rt": excess("static-rt", interval_us)}),
        Check(f"boost_rt_unmodified_guest_excess_vs_vanilla{suffix}",
              excess("boost-rt-unmodified", interval_us), "<=", EXCESS_UNMODIFIED_MAX),
        Check(f"boost_rt_avg_vs_static_rt{suffix}",
              busy_ratio("boost-rt", "static-rt", interval_us, "guest"), "<=", VS_STATIC_RT_MAX),
        Check(f"host_avg_vs_static_rt{suffix}", hosts("static-rt"), "<=", HOST_MAX,
              beside={name: hosts(name) for name in hosts_beside}),
    ]  # fmt: skip


def ext_excess(interval_us: int, suffix: str = "") -> Check:
    """Boosts in the kernel also remove the excess latency."""
    return Check(f"boost_ext_excess_vs_vanilla{suffix}", excess("boost-ext", interval_us), "<=", EXCESS_MAX)


def ext_checks(interval_us: int, suffix: str = "") -> list[Check]:
    """
    The same for boosts in the kernel: they must be as good as boosts by system call, or better.
    """
    return [
        ext_excess(interval_us, suffix),
        Check(f"boost_ext_avg_vs_boost_rt{suffix}",
              busy_ratio("boost-ext", "boost-rt", interval_us, "guest"), "<=", EXT_VS_RT_MAX),
    ]  # fmt: skip


def columns(interval_us: int, title: str = "") -> list[Column]:
    """Guest avg/p99/max, host avg/max, excess ratio; all on the busy host, µs."""
    guest, host = f"guest_{interval_us}_{BUSY}", f"host_{interval_us}_{BUSY}"
    return [
        column(f"{title}guest avg µs", f"{guest}_avg_us"),
        column("p99 µs", f"{guest}_p99_us"),
        column("max µs", f"{guest}_max_us"),
        column("idle host: avg µs", f"guest_{interval_us}_{IDLE}_avg_us"),
        column("host avg µs", f"{host}_avg_us"),
        column("host max µs", f"{host}_max_us"),
        Column("excess vs vanilla", lambda one, configuration: excess(configuration, interval_us)(one)),
    ]


class WakeupScenario(Scenario):
    """One guest with one vCPU, and twice as many busy loops on the host as the host has CPUs."""

    intervals_us: Sequence[int] = (1000,)
    # The interval of the real-time task beside which the host's share is measured. An emulated
    # wakeup takes about half a millisecond. With this interval, the task needs as much of its vCPU
    # as a timer of 1 ms on a real one.
    background_us: int = 10_000
    # The lengths in seconds of the measurements on the idle and on the busy host. Some
    # configurations have others.
    lengths_s: tuple[float, float] = (2.5, 5.0)
    own_lengths_s: Mapping[str, tuple[float, float]] = {}

    def setup(self, session) -> None:
        self.pair = session.pair("lab", vcpus=1)
        self.load = session.load()

    @property
    def guest(self):
        """The guest for the active configuration."""
        return self.pair.chosen

    def measure(self, session, configuration: Configuration) -> Raw:
        raw: Raw = {}
        guest = None if configuration == HOST_NATIVE else self.guest
        idle_s, busy_s = map(session.seconds, self.own_lengths_s.get(configuration.name, self.lengths_s))
        for interval_us in self.intervals_us:
            raw[f"{interval_us}_{IDLE}"] = session.latencies(guest, interval_us, idle_s)
        self.load.busy()
        try:
            for interval_us in self.intervals_us:
                raw[f"{interval_us}_{BUSY}"] = session.latencies(guest, interval_us, busy_s)
        finally:
            self.load.idle()
        return raw

    def realtime_task(self):
        """Runs a periodic real-time task in the guest, without measuring it, while the context is open."""
        command = f"cyclictest -q -m --default-system -i {self.background_us} --policy=rr -p 50"
        return running(self.guest, command, "cyclictest-background")

    def trace(self, session, configuration: Configuration) -> None:
        self.load.busy()
        try:
            session.cyclictest(self.guest, "trace", self.intervals_us[-1], seconds=1.0)
        finally:
            self.load.idle()

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        measured: dict[str, float] = {}
        for interval_us in self.intervals_us:
            for load in (IDLE, BUSY):
                run = raw[f"{interval_us}_{load}"]
                for side in ("guest", "host"):
                    measured |= cyclictest.metrics(f"{side}_{interval_us}_{load}", run[side])
        return measured

    def plots(self) -> Sequence[Plot]:
        drawn: list[Plot] = []
        for interval_us in self.intervals_us:
            drawn += [
                Distribution(
                    f"Wakeup latency in the guest, busy host, interval {interval_us} µs",
                    lambda raw, key=f"{interval_us}_{BUSY}": raw.get(key, {}).get("guest"),
                ),
                Bars(
                    f"Wakeup latency in the guest, busy host, {interval_us} µs (median of rounds, spread)",
                    {f"guest_{interval_us}_{BUSY}_{s}_us": s for s in ("avg", "p99", "max")},
                    "us",
                    logarithmic=True,
                ),
                Bars(
                    f"The host's own wakeup latency beside it, interval {interval_us} µs",
                    {f"host_{interval_us}_{BUSY}_{s}_us": s for s in ("avg", "p99", "max")},
                    "us",
                    logarithmic=True,
                ),
            ]
        return drawn
