# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A VM without a device migrates, and stalls in postcopy: it runs on the target, but waits for pages that do not
come. Another VM of the target host must be boosted, and must get its host lines, as before.
"""

from paracord_lab import cyclictest, host_share
from paracord_lab.plots import Bars
from paracord_lab.scenario import BOOST, BOOST_EXT, VANILLA, Configuration, Raw, Scenario, column
from paracord_lab.stats import ratio
from paracord_lab.verdicts import Check, of

NAMES = ("stalls-here", "stalls-there")
OTHER = "other"
INTERVAL_US = 2000
BEFORE_S, STALLED_S = 60.0, 60.0
STALLED_VS_BEFORE_MAX = 1.2
# The other VM announces once a second, and the host answers in its line.
WRITES_PER_S_MIN = 0.8
WRITES = "line_writes_per_s_count"
# A vCPU that waits for a page does not run.
STALLED_RUN_MAX = 0.05
STALLED_RUN, KNOWN = "stalled_run_share", "stalled_is_known_count"


def _p99(configuration: str):
    return lambda one: ratio(one[configuration]["stalled_p99_us"], one[configuration]["before_p99_us"])


class Postcopy(Scenario):
    name = "postcopy"
    summary = "a VM stalls in postcopy for a minute: another VM's boosts and host lines do not wait"
    configurations = (VANILLA, BOOST, BOOST_EXT)
    checks = (
        *(
            Check(
                f"p99_beside_stalled{suffix}",
                _p99(configuration.name),
                "<=",
                STALLED_VS_BEFORE_MAX,
                beside={"vanilla": _p99(VANILLA.name)},
            )
            for suffix, configuration in (("", BOOST), ("_ext", BOOST_EXT))
        ),
        *(
            Check(f"{name}{suffix}", of(metric, configuration.name), relation, limit, unit, every=True)
            for suffix, configuration in (("", BOOST), ("_ext", BOOST_EXT))
            for name, metric, relation, limit, unit in (
                ("line_writes_beside_stalled", WRITES, ">=", WRITES_PER_S_MIN, "count"),
                # Without these, the other verdicts would show nothing.
                ("stalled_vcpu_run_share", STALLED_RUN, "<=", STALLED_RUN_MAX, "share"),
                ("stalled_vm_is_known", KNOWN, ">=", 1, "count"),
            )
        ),
    )
    columns = (
        column("p99 µs before", "before_p99_us"),
        column("p99 µs beside a stalled VM", "stalled_p99_us"),
        column("avg µs before", "before_avg_us"),
        column("avg µs beside a stalled VM", "stalled_avg_us"),
        column("writes of its host line per s", WRITES),
        column("share of a CPU that the stalled vCPU runs", STALLED_RUN),
    )

    def setup(self, session) -> None:
        self.moving = session.guest(NAMES[0], module=True, vcpus=1, region=False)
        self.other = session.guest(OTHER, module=True, vcpus=1, region=False)
        self.load = session.load()

    def measure(self, session, configuration: Configuration) -> Raw:
        name = next(name for name in NAMES if name != self.moving.name)
        self.load.busy()
        try:
            if session.daemon:
                # An idle guest announces nothing.
                with host_share.running(self.other, "pc_hog --busy_ms 2 --sleep_ms 20", "worker"):
                    session.daemon.await_region_in_memory(OTHER)
            raw = {"before": self._measure(session, "before", session.seconds(BEFORE_S))}
            with (
                host_share.running(self.moving, "pc_hog", "hog"),
                self.moving.stalled_in_postcopy(name) as pid,
            ):
                ran_ns = _ran_ns(session.host, pid)
                raw["stalled"] = self._measure(session, "stalled", session.seconds(STALLED_S))
                ran_s = (_ran_ns(session.host, pid) - ran_ns) / 1e9
                raw["run_share"] = ran_s / session.seconds(STALLED_S)
                if session.daemon:
                    raw["known"] = sum(vm["pid"] == pid for vm in session.daemon.status()["vms"])
        finally:
            self.load.idle()
        return raw

    def _measure(self, session, name: str, seconds: float) -> Raw:
        before = self._writes(session)
        latency = session.cyclictest(self.other, name, INTERVAL_US, seconds)
        return {"latency": latency, "writes_per_s": (self._writes(session) - before) / seconds}

    @staticmethod
    def _writes(session) -> int:
        """Writes of host lines into the memory of the other VM so far."""
        if not session.daemon:
            return 0
        return session.daemon.region(OTHER)["host_lines"]["writes"]

    def metrics(self, configuration: str, raw: Raw) -> dict[str, float]:
        before, stalled = raw["before"], raw["stalled"]
        return {
            **cyclictest.metrics("before", before["latency"]),
            **cyclictest.metrics("stalled", stalled["latency"]),
            WRITES: stalled["writes_per_s"],
            STALLED_RUN: raw["run_share"],
            KNOWN: raw.get("known", 0),
        }

    def plots(self):
        return [
            Bars(
                "Another VM's wakeup latency (p99; median of rounds, spread)",
                {f"{what}_p99_us": what for what in ("before", "stalled")},
                "us",
                logarithmic=True,
            )
        ]


def _ran_ns(host, pid: int) -> int:
    """How long the vCPU of a VMM has run."""
    vcpu = f"$(grep -lx 'CPU 0/KVM' /proc/{pid}/task/*/comm | xargs dirname)"
    return int(host.run(f"cut -d' ' -f1 {vcpu}/schedstat").out)


SCENARIO = Postcopy()
