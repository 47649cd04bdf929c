# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
A guest's real-time task makes a request every few milliseconds and waits for the answer. Three
kinds of requests are measured: (1) The task reads blocks of a disk, one or sixteen at once. QEMU's
main loop or an I/O thread, and their workers, serve these reads. (2) The task sends a message to a
real-time peer on the host, through vhost's worker. (3) The task waits until a sound card has played
a period, which a timer of QEMU's main loop signals. All of these threads, except for the peer, are
ordinary threads of the host.
"""

import json

from paracord_lab import host_share, stats
from paracord_lab.daemon import BUDGETS
from paracord_lab.errors import LabError
from paracord_lab.io_guest import disks, make_disks
from paracord_lab.plots import Bars
from paracord_lab.scenario import (
    BOOST,
    BOOST_EXT,
    BOOST_UNMODIFIED,
    STATIC_RT,
    VANILLA,
    Configuration,
    Scenario,
    column,
)
from paracord_lab.session import STATIC_RT_PRIORITY, time_limit
from paracord_lab.verdicts import Check, versus

# Long enough that a thread that always exceeds its budgets is throttled for most of the time.
IDLE_S, BUSY_S, SHARE_S = 2.0, 4.0, 8.0
PERIOD_US, PRIORITY, PORT = 3000, 50, 7777
EXCESS_MAX = 0.15
# The host's share while the guest reads without a pause.
SHARE = "host_beside_reads_share"
STALLS = "stalls_count"
# QEMU's card sometimes stops to play, under vanilla, too. The guest's kernel then gives up after ten
# seconds. The card plays again when its driver has reset it. What it played before is measured.
STALL = "Input/output error"
RESET = "cd /sys/bus/virtio/drivers/virtio_snd && for d in virtio*; do echo $d > unbind; echo $d > bind; done"
STALLS_MAX = 24
# An emulated vCPU handles an interrupt in about a millisecond, and this guest gets one or more every three
# milliseconds. With the usual limits of these two reasons, its boosts end in the middle of its work. Then it
# has no time to sleep any more, so no wakeup boosts it again: some rounds are like vanilla's.
EMULATED_INTERRUPTS = {
    f"boost.{reason}.{key}": value
    for reason in ("irq", "critical")
    for key, value in (("grant_us", 7_500), ("budget_pct", 90))
}
# All threads of QEMU are always real-time. People use this today if the disk is important.
ALL_RT = Configuration("all-threads-rt", static_rt=True)
GUESTS = ("io-plain", "io-module")
# What the guest waits for, the program that it runs for this, and the period in µs.
PATHS = {
    "main_loop": ("pc_disk /dev/vda", PERIOD_US),
    "iothread": ("pc_disk /dev/vdb", PERIOD_US),
    # In an emulated guest, sixteen requests take about 20 ms.
    "iothread_16_deep": ("pc_disk /dev/vdb --deep 16", 60_000),
    "vhost": ("pc_net ask $(cat /tmp/peer) " + str(PORT), PERIOD_US),
    # The shortest period that Linux' driver allows.
    "audio": ("pc_sound", 10_000),
}


def _tap(guest: str) -> str:
    return f"tap-{guest}"


def _host_address(guest: str) -> str:
    return f"10.77.{GUESTS.index(guest)}.1"


def qemu_arguments(guest: str) -> tuple[str, ...]:
    return (
        *disks(),
        *("-netdev", f"tap,id=net,ifname={_tap(guest)},script=no,downscript=no,vhost=on"),
        *("-device", "virtio-net-pci,netdev=net"),
        # A sound card without output. Its thread and its timer are like those of any other card.
        *("-audiodev", "none,id=sound,timer-period=5000", "-device", "virtio-sound-pci,audiodev=sound"),
    )


def excess(configuration: str, path: str):
    def of(one, name):
        return one[name][f"{path}_busy_avg_us"], one[name][f"{path}_idle_avg_us"]

    return lambda one: stats.excess_ratio(*of(one, configuration), *of(one, VANILLA.name))


def _checks():
    beside = ("static-rt", ALL_RT.name)
    for path in PATHS:
        for configuration in (BOOST, BOOST_EXT, BOOST_UNMODIFIED):
            name = configuration.name.replace("-", "_")
            yield Check(
                f"io_excess_{path}_{name}",
                excess(configuration.name, path),
                "<=",
                EXCESS_MAX,
                beside={other: excess(other, path) for other in beside},
            )
    for configuration in (BOOST, BOOST_EXT, BOOST_UNMODIFIED):
        name = configuration.name.replace("-", "_")

        def more_stalls(one, name=configuration.name):
            return one[name][STALLS] - one[VANILLA.name][STALLS]

        yield Check(f"io_stalls_{name}", more_stalls, "<=", 0, "count")
    for configuration in (BOOST, BOOST_EXT):
        name = configuration.name.replace("-", "_")
        yield Check(
            f"io_host_share_{name}",
            versus(SHARE, configuration.name, VANILLA.name),
            ">=",
            host_share.HOST_SHARE_MIN,
            beside={other: versus(SHARE, other, VANILLA.name) for other in beside},
        )


class Io(Scenario):
    name = "io"
    summary = "a guest's disk reads, network requests and sound on a busy host: main loop, I/O thread, vhost"
    rounds = 5
    configurations = (VANILLA, BOOST_UNMODIFIED, BOOST, BOOST_EXT, STATIC_RT, ALL_RT)
    without = ("io",)
    traced = ("vanilla", "boost-rt", "boost-ext")
    checks = tuple(_checks())
    columns = (
        *(
            column(f"{path.replace('_', ' ')}, {load} host: {figure} µs", f"{path}_{load}_{figure}_us")
            for path in PATHS
            for load, figure in (("idle", "avg"), ("busy", "avg"), ("busy", "p99"))
        ),
        column("streams that the card did not play", STALLS),
        column("host's share beside reads without a pause", SHARE),
    )

    def setup(self, session):
        host = session.host
        host.run("modprobe -a tun vhost_net")
        make_disks(host)
        for guest in GUESTS:
            tap, address = _tap(guest), _host_address(guest)
            host.run(f"ip tuntap add dev {tap} mode tap && ip addr add {address}/24 dev {tap}")
            host.run(f"ip link set {tap} up")
        # The peer does not have to wait for the host's work.
        self.peer = host.spawn(f"exec pc_net serve {PORT} --priority {PRIORITY}", "peer")
        self.pair = session.pair("io", extra_args=qemu_arguments, vcpus=1)
        for guest in (self.pair.unmodified, self.pair.modified):
            peer = _host_address(guest.name)
            guest.load_kernel_module("virtio_snd")
            guest.run(
                f"ip link set eth0 up && ip addr add {peer[:-1]}2/24 dev eth0 && echo {peer} > /tmp/peer"
            )
        self.load = session.load()

    def measure(self, session, configuration):
        guest = self.pair.chosen
        if configuration == ALL_RT:
            session.host.run(f"chrt -a -r -p {STATIC_RT_PRIORITY} {guest.pid}")
        try:
            return self._measure(session, guest)
        finally:
            if configuration == ALL_RT:
                session.host.run(f"chrt -a -o -p 0 {guest.pid}")

    def _measure(self, session, guest):
        daemon = session.daemon
        if daemon and session.host.kind == "emulated":
            daemon.reload(EMULATED_INTERRUPTS)
        raw = {"idle": self._asks(session, guest, IDLE_S)}
        self.load.busy()
        try:
            raw["busy"] = self._asks(session, guest, BUSY_S)
            raw["share"] = self._share(session, guest)
        finally:
            self.load.idle()
        return raw

    def _share(self, session, guest):
        """
        Measures with the budgets that operators have. The larger budgets for an emulator would
        limit nothing here.
        """
        daemon = session.daemon
        usual = dict(daemon.settings) if daemon else {}
        if daemon:
            budgets = (key for key in usual if key in BUDGETS or key in EMULATED_INTERRUPTS)
            daemon.reload(daemon.defaults(budgets))
        try:
            with host_share.running(guest, self._command("main_loop", 3600, period_us=0), "reads"):
                return session.host_share(self.load, session.seconds(SHARE_S))
        finally:
            if daemon:
                daemon.reload(usual)

    @staticmethod
    def _command(path: str, seconds: float, period_us: int | None = None) -> str:
        command, usual_us = PATHS[path]
        times = (
            f"--period_us {usual_us if period_us is None else period_us} --seconds {max(1, round(seconds))}"
        )
        return f"{command} {times} --priority {PRIORITY}"

    def _asks(self, session, guest, full_s: float):
        seconds = session.seconds(full_s)
        return {path: self._ask(guest, path, seconds) for path in PATHS}

    def _ask(self, guest, path: str, seconds: float):
        command, limit = self._command(path, seconds), time_limit(seconds)
        stalls = 0
        while True:
            result = guest.run(command, timeout=limit, check=False)
            stalled = path == "audio" and STALL in result.err
            if stalled:
                stalls += 1
                guest.run(RESET)
            if not result.rc:
                break
            if not stalled or stalls == STALLS_MAX:
                raise LabError(f"guest {guest.name}: {result.err.strip()}")
        return json.loads(result.out) | {"stalls": stalls}

    def trace(self, session, configuration):
        self.load.busy()
        try:
            self.pair.chosen.run(self._command("iothread", 1))
        finally:
            self.load.idle()

    def metrics(self, configuration, raw):
        measured = {
            SHARE: raw["share"],
            STALLS: sum(raw[load]["audio"]["stalls"] for load in ("idle", "busy")),
        }
        for load in ("idle", "busy"):
            for path, asked in raw[load].items():
                measured |= {
                    f"{path}_{load}_{name}_us": asked[f"{name}_us"] for name in ("avg", "p99", "max")
                }
        return measured

    def plots(self):
        return [
            Bars(
                f"{'Lateness of a period' if path == 'audio' else 'Request to answer'}, busy host, "
                f"{path.replace('_', ' ')} (median of rounds, spread)",
                {f"{path}_busy_{figure}_us": figure for figure in ("avg", "p99", "max")},
                "us",
                logarithmic=True,
            )
            for path in PATHS
        ]


SCENARIO = Io()
