# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The objects that a scenario works with: a booted host, guests, loads, and the active configuration."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from . import cyclictest, loads, sched_ext
from .daemon import EMULATED_HOST, MECHANISMS, Daemon
from .errors import LabError
from .scenario import Configuration, Raw
from .sched_ext import await_scheduler

# The priority of vCPU threads in static-rt. It is the same as paracord's default for boosted
# threads.
STATIC_RT_PRIORITY = 8
# The time that the guest and the daemon need to settle after their start, before a measurement
# begins.
SETTLE_S = 0.5
# The time that an emulated guest needs to load a program.
LEAD_S = 0.5


def time_limit(seconds: float) -> float:
    """
    The time limit in s for a command that measures for `seconds`. On a busy emulated machine,
    everything takes longer.
    """
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
    """Two equal guests. `chosen` is the one for the active configuration."""

    unmodified: object
    modified: object
    chosen: object = None


@dataclass
class Session:
    host: object
    options: Options
    guests: list = field(default_factory=list)
    # The guests whose vCPUs become real-time under a configuration with static_rt.
    static_rt_guests: list = field(default_factory=list)
    daemon: Daemon | None = None
    _pairs: list["Pair"] = field(default_factory=list)
    _cleanup: ExitStack = field(default_factory=ExitStack)

    def open(self) -> "Session":
        self._cleanup.enter_context(loads.without_autogroups(self.host))
        return self

    def guest(self, name: str, module: bool = False, static_rt: bool = True, **options):
        """
        Boots a guest for all configurations. With `module`, it always has paracord's module.
        static_rt: whether a configuration that makes vCPUs real-time applies to this guest.

        The module is never unloaded between configurations. Switching tracepoints on and off
        rewrites kernel text, and an emulator does not always survive this.
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
        Two equal guests, one with the module and one without. Each configuration uses one of them.
        extra_args: arguments of the VMM for the guest with the given name.
        """

        def guest(kind: str, module: bool = False):
            full = f"{name}-{kind}"
            more = {"extra_args": extra_args(full)} if extra_args else {}
            return self.guest(full, module=module, **options, **more)

        pair = Pair(guest("plain"), guest("module", module=True))
        self._pairs.append(pair)
        return pair

    def load(self, loops: int | None = None) -> loads.HostLoad:
        """Busy loops on the host, which are not running yet."""
        load = loads.HostLoad(self.host, loops)
        self._cleanup.callback(load.stop)
        return load.start()

    def seconds(self, full: float) -> float:
        """The length of a measurement. A quick run halves it."""
        return full / 2 if self.options.quick else full

    def vcpu_tids(self) -> list[int]:
        return [tid for guest in self.guests for tid in guest.vcpu_tids]

    def settings(self, configuration: Configuration) -> Mapping[str, object]:
        """The settings of the configuration, with the mechanism of `--without` switched off."""
        host = EMULATED_HOST if self.host.kind == "emulated" else {}
        return {**host, **configuration.settings, **MECHANISMS.get(self.options.without, {})}

    @contextmanager
    def applied(self, configuration: Configuration) -> Iterator[None]:
        """Applies a configuration. Everything is undone afterwards."""
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
            # If a mechanism is switched off, the kernel may eject the scheduler for the reason that
            # the mechanism prevents.
            if configuration.is_ext and not configuration.ejections_counted and not self.options.without:
                self._need_scheduler()

    def _need_scheduler(self) -> None:
        """Raises LabError if paracord's scheduler is no longer loaded."""
        if sched_ext.state(self.host) != "enabled":
            raise LabError(f"the scheduler ended while it was measured: {self.daemon.last_words()}")

    def _policy(self, arguments: str) -> None:
        for guest in self.static_rt_guests:
            for tid in guest.vcpu_tids:
                # If a guest has died, this is reported by the code that communicates with it, not
                # here.
                self.host.run(f"chrt {arguments} {tid} || ! test -d /proc/{tid}")

    def _stop_daemon(self) -> None:
        daemon, self.daemon = self.daemon, None
        daemon.stop()

    def cyclictest(self, machine, name: str, interval_us: int, seconds: float, **options) -> Raw:
        """Runs cyclictest on a host or guest, and returns its JSON object."""
        result = machine.run(
            cyclictest.command(name, interval_us, seconds, **options), timeout=time_limit(seconds)
        )
        return cyclictest.parse(result.out)

    def latencies(self, guest, interval_us: int, seconds: float) -> Raw:
        """
        Runs cyclictest in the guest and, during its measurement, on the host. The time in which the
        guest loads the program is not measured. Without a guest (host-native), the guest's
        cyclictest runs on the host, too.
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
        """The share (0..1) of the host's CPU time that the loads get during `seconds`."""
        before = load.read()
        self.host.run(f"sleep {seconds}", timeout=time_limit(seconds), urgent=True)
        return loads.share(before, load.read(), self.host.cpus)

    def close(self) -> None:
        self._cleanup.close()
