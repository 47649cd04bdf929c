# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What a scenario works with while it runs: a booted host, guests, loads, and the configuration in force."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from . import cyclictest, loads, sched_ext
from .daemon import EMULATED_HOST, MECHANISMS, Daemon
from .errors import LabError
from .scenario import Configuration, Raw
from .sched_ext import await_scheduler

# Priority of vCPU threads under static-rt: the same as paracord's default for boosted ones.
STATIC_RT_PRIORITY = 8
# Time for the guest's and the daemon's own start to settle before something is measured.
SETTLE_S = 0.5
# Time for an emulated guest to load a program.
LEAD_S = 0.5


def time_limit(seconds: float) -> float:
    """Of a command that measures for `seconds`, in s: on a busy emulated machine all takes longer."""
    return 60 + 4 * seconds


@dataclass(frozen=True)
class Options:
    """How a run differs from the scenario's own values."""

    rounds: int | None = None
    quick: bool = False
    without: str = ""
    arch: str = ""


@dataclass
class Pair:
    """Two equal guests; `chosen` is the one that the configuration in force asks for."""

    unmodified: object
    modified: object
    chosen: object = None


@dataclass
class Session:
    host: object
    options: Options
    guests: list = field(default_factory=list)
    # Guests whose vCPUs a configuration with static_rt makes real-time.
    static_rt_guests: list = field(default_factory=list)
    daemon: Daemon | None = None
    _pairs: list["Pair"] = field(default_factory=list)
    _cleanup: ExitStack = field(default_factory=ExitStack)

    def open(self) -> "Session":
        """
        Switches autogroups off until close(): a group per session would give the one vCPU thread as much CPU
        time as all of the host's work together, so nothing would compete. (Under systemd, control groups
        replace them.)
        """
        before = loads.switch_autogroups(self.host, "0")
        if before:
            self._cleanup.callback(loads.switch_autogroups, self.host, before)
        return self

    def guest(self, name: str, module: bool = False, static_rt: bool = True, **options):
        """
        Boots a guest that every configuration applies to; with `module` it has paracord's module for good.
        static_rt: whether a configuration that makes vCPUs real-time does so to this guest's.

        The module is never unloaded between configurations: switching tracepoints rewrites kernel text, which
        an emulator does not always survive.
        """
        if self.options.without == "device":
            options["region"] = False
        guest = self.host.guest(name, **options)
        if module and self.options.without != "module":
            guest.load_module()
        self.guests.append(guest)
        if static_rt:
            self.static_rt_guests.append(guest)
        return guest

    def pair(self, name: str, extra_args: Callable[[str], Sequence[str]] | None = None, **options) -> "Pair":
        """
        Two equal guests, one of them with the module; each configuration uses the one that it asks for.
        extra_args: for the VMM, of the guest of that name.
        """

        def guest(kind: str, module: bool = False):
            full = f"{name}-{kind}"
            more = {"extra_args": extra_args(full)} if extra_args else {}
            return self.guest(full, module=module, **options, **more)

        pair = Pair(guest("plain"), guest("module", module=True))
        self._pairs.append(pair)
        return pair

    def load(self, loops: int | None = None) -> loads.HostLoad:
        """Busy loops on the host, not running yet."""
        load = loads.HostLoad(self.host, loops)
        self._cleanup.callback(load.stop)
        return load.start()

    def seconds(self, full: float) -> float:
        """Length of a measurement: half of it in a quick run."""
        return full / 2 if self.options.quick else full

    def vcpu_tids(self) -> list[int]:
        return [tid for guest in self.guests for tid in guest.vcpu_tids]

    def settings(self, configuration: Configuration) -> Mapping[str, object]:
        """The configuration's settings with the mechanism of `--without` switched off."""
        host = EMULATED_HOST if self.host.kind == "emulated" else {}
        return {**host, **configuration.settings, **MECHANISMS.get(self.options.without, {})}

    @contextmanager
    def applied(self, configuration: Configuration) -> Iterator[None]:
        """Puts a configuration in force; afterwards everything is as before."""
        with ExitStack() as undo:
            for pair in self._pairs:
                pair.chosen = pair.modified if configuration.module else pair.unmodified
            if configuration.static_rt:
                self._policy(f"-r -p {STATIC_RT_PRIORITY}")
                undo.callback(self._policy, "-o -p 0")
            if configuration.daemon:
                self.daemon = Daemon(self.host, self.settings(configuration))
                undo.callback(self._stop_daemon)
                self.daemon.start(self.vcpu_tids())
            if configuration.plain:
                undo.enter_context(sched_ext.plain(self.host))
            await_scheduler(self.host, configuration.is_ext or configuration.plain)
            self.host.run(f"sleep {SETTLE_S}")
            yield
            # With a mechanism off, an ejection may be what it prevents.
            if configuration.is_ext and not configuration.ejections_counted and not self.options.without:
                self._need_scheduler()

    def _need_scheduler(self) -> None:
        """LabError when paracord's scheduler is not in force any more."""
        if sched_ext.state(self.host) != "enabled":
            raise LabError(f"the scheduler ended while it was measured: {self.daemon.last_words()}")

    def _policy(self, arguments: str) -> None:
        for guest in self.static_rt_guests:
            for tid in guest.vcpu_tids:
                # A guest that died is reported by whoever talks to it, not here.
                self.host.run(f"chrt {arguments} {tid} || ! test -d /proc/{tid}")

    def _stop_daemon(self) -> None:
        daemon, self.daemon = self.daemon, None
        daemon.stop()

    def cyclictest(self, machine, name: str, interval_us: int, seconds: float, **options) -> Raw:
        """Runs cyclictest on a host or guest and returns its JSON object."""
        result = machine.run(
            cyclictest.command(name, interval_us, seconds, **options), timeout=time_limit(seconds)
        )
        return cyclictest.parse(result.out)

    def latencies(self, guest, interval_us: int, seconds: float) -> Raw:
        """
        cyclictest in the guest and, while it measures, on the host: what a guest does to load the program is
        not measured. Without a guest (host-native) the guest's own cyclictest runs on the host as well.
        """
        job = (guest or self.host).spawn(
            cyclictest.command("guest", interval_us, seconds), "cyclictest-guest"
        )
        self.host.run(f"sleep {LEAD_S}")
        alongside = self.cyclictest(
            self.host,
            "host",
            cyclictest.HOST_INTERVAL_US,
            max(seconds - 2 * LEAD_S, LEAD_S),
            priority=cyclictest.HOST_PRIORITY,
        )
        return {"guest": cyclictest.parse(job.result(time_limit(seconds), check=True).out), "host": alongside}

    def host_share(self, load: loads.HostLoad, seconds: float) -> float:
        """Share (0..1) of the host's CPU time that the loads get over `seconds`."""
        before = load.read()
        self.host.run(f"sleep {seconds}", timeout=time_limit(seconds), urgent=True)
        return loads.share(before, load.read(), self.host.cpus)

    def close(self) -> None:
        self._cleanup.close()
