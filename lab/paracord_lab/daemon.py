# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The paracord daemon in L1: its configuration for a scenario, its start, its state, its end."""

import json
import re
import shlex
import time
import tomllib
from collections.abc import Iterable, Mapping

from .errors import ChannelClosed, LabError
from .rust import REPOSITORY

BINARY = "/payload/bin/paracord"
CONFIG = "/tmp/paracord-lab.toml"
# An empty configuration file, so that all settings have their defaults.
DEFAULTS = "/tmp/paracord-defaults.toml"
# Loading the scheduler takes 16 s on an idle emulated host. On a busy host, on a slow machine, it
# takes two minutes.
START_TIMEOUT_S = 240
# If a guest without budgets starves the daemon, the daemon answers late, and the client prints
# this.
LATE = "no answer within"
ANSWER_TIMEOUT_S = 30
# What stands for the name of a region file.
REGION_IN_MEMORY = "(guest memory)"

ABI = (REPOSITORY / "abi/paracord_abi.h").read_text()
REASONS = tuple(reason.lower() for reason in re.findall(r"#define PARACORD_REASON_(\w+)", ABI))
UNLIMITED_GRANT_US = 10_000_000
UNLIMITED_VM_PCT = 409_600

# An emulated vCPU needs 10 to 20 times as long for a wakeup as a real one. A timer of 1 ms alone
# keeps it running for about half of the time. Therefore these settings make the grant of a wakeup
# longer, and the budgets of wakeups, of real-time tasks and of the VMM's other threads larger. A
# guest that behaves well then stays within its budgets, as on real CPUs. The limits against a guest
# that spins are unchanged (the budgets of IRQ and CRITICAL, and the penalty). A native host uses
# the defaults.
EMULATED_HOST: dict[str, object] = {
    "boost.vcpu_budget_pct": 90,
    # This is less than the vCPU's budget leaves, so that a guest reaches its own limit, and the
    # penalty, before the host's limit.
    "boost.cpu_kept_pct": 5,
    "boost.io_budget_pct": 90,
    "boost.wake.grant_us": 15_000,
    "boost.wake.budget_pct": 90,
    "boost.rt.budget_pct": 90,
    # An actuation takes half a millisecond of emulated time, which is 100 times as long as on a
    # real CPU.
    "boost.actuation_min_us": 15_000,
}

# The settings that limit a guest over time. The other settings are about one wakeup or one
# actuation, and each of these takes longer on an emulator.
BUDGETS = tuple(key for key in EMULATED_HOST if key.endswith("_pct"))

# For guests that count. System calls take a hundred times longer on an emulated host.
COUNTERS_UNLIMITED: dict[str, object] = {"counters.budget_ms": 50000, "counters.openings": 100000}

# The settings that switch off a mechanism (`--without`). Keys as in docs/config.md.
MECHANISMS: dict[str, dict[str, object]] = {
    "boost": {"mode": "observe"},
    **{reason: {f"boost.{reason}.enabled": False} for reason in REASONS},
    "budget": {
        "boost.vcpu_budget_pct": 100,
        "boost.vm_budget_pct": UNLIMITED_VM_PCT,
        "boost.io_budget_pct": UNLIMITED_VM_PCT,
        "boost.cpu_kept_pct": 5,
        **{f"boost.{reason}.grant_us": UNLIMITED_GRANT_US for reason in REASONS},
        **{f"boost.{reason}.budget_pct": 100 for reason in REASONS},
    },
    "io": {"boost.io": False},
    "penalty": {"boost.penalty_max_periods": 1},
    "rate-limit": {"boost.actuation_min_us": 0},
    "charge": {"perf.charge_capped": False},
    **{name: {f"perf.{name}": False} for name in ("requests", "carry", "hold", "placement")},
    # The scenario itself switches this off, not the configuration.
    "supervisor": {},
    "pmu-quota": {},
    "module": {},
    "device": {},
    "kick": {},
    "page": {},
}


class DaemonError(LabError):
    """The daemon did not do what a scenario needs. The text is one line with the reason."""


def toml(settings: Mapping[str, object]) -> str:
    """Makes TOML text from dotted keys: {"boost.rt.enabled": False} becomes a key in section [boost.rt]."""
    sections: dict[str, list[str]] = {}
    for dotted, value in settings.items():
        section, _, key = dotted.rpartition(".")
        text = json.dumps(value)
        sections.setdefault(section, []).append(f"{key} = {text}")
    lines = []
    for section in sorted(sections):
        if section:
            lines.append(f"[{section}]")
        lines += [*sections[section], ""]
    return "\n".join(lines)


class Daemon:
    """
    `paracord run` in L1 while the context is open. The actuator is rt unless `settings` name
    another one, because comparisons must not depend on what the host's kernel offers.
    """

    def __init__(self, host, settings: Mapping[str, object] | None = None, arguments: str = ""):
        self.host = host
        self.settings = {"actuator": "rt", **(settings or {})}
        self.arguments = arguments
        self.job = None

    def start(self, vcpu_tids: Iterable[int] = ()) -> "Daemon":
        """Starts the daemon, and returns when it knows every thread in `vcpu_tids`."""
        self._write_config()
        self.job = self.host.spawn(
            f"exec {BINARY} run --config {CONFIG} {self.arguments}".strip(), "paracord"
        )
        self.await_vcpus(vcpu_tids)
        return self

    def reload(self, changed: Mapping[str, object]) -> None:
        """Gives the running daemon other settings. Settings that are not in `changed` stay the same."""
        self.settings |= changed
        self._write_config()
        self.host.run(f"{BINARY} reload")

    def _write_config(self) -> None:
        self.host.run(f"printf %s {shlex.quote(toml(self.settings))} > {CONFIG}")

    def await_vcpus(self, vcpu_tids: Iterable[int], timeout: float = START_TIMEOUT_S) -> None:
        """
        Returns when `status` shows every thread in `vcpu_tids`. Raises DaemonError if this does not
        happen in time.
        """
        wanted = set(vcpu_tids)
        deadline = time.monotonic() + timeout
        known: set[int] = set()
        while time.monotonic() < deadline:
            status = self.status(check=False)
            if status is not None:
                known = set(tids(status))
                if wanted <= known:
                    return
            elif self.ended():
                break
            time.sleep(0.2)
        self._need_running(wanted - known)
        missing = ", ".join(map(str, sorted(wanted - known))) or "the control socket"
        raise DaemonError(f"the daemon does not show {missing}; its last messages: {self.last_words()}")

    def _need_running(self, tids: Iterable[int]) -> None:
        """
        Raises ChannelClosed if a thread is gone or no longer runs, because its guest has then died,
        not the daemon.
        """
        for tid in tids:
            read = f"cat /proc/{tid}/schedstat; sleep 2; cat /proc/{tid}/schedstat"
            lines = self.host.run(read, check=False).out.splitlines()
            if len(lines) != 2 or lines[0] == lines[1]:
                raise ChannelClosed(f"vCPU thread {tid} is gone or hangs: its guest died")

    def ended(self) -> bool:
        return not self.job.running

    def last_words(self) -> str:
        lines = [line for line in (self.job.out() + self.job.err()).splitlines() if line.strip()]
        return " | ".join(lines[-3:]) or "none"

    def await_region_in_memory(self, vm: str, seconds: float = 60) -> float:
        """Waits until the daemon uses the region in the own memory of a VM. Returns the time (monotonic)."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.region(vm).get("name") == REGION_IN_MEMORY:
                return time.monotonic()
            time.sleep(0.1)
        raise LabError(f"the daemon has found no region in the memory of VM {vm} in {seconds:g} s")

    def region(self, vm: str) -> dict:
        """What the daemon shows of the region of a VM. Empty if it has none, or if there is no such VM."""
        return next((one["region"] or {} for one in self.status()["vms"] if one["name"] == vm), {})

    def status(self, check: bool = True) -> dict | None:
        """The output of `paracord status --json`. None if the daemon does not answer and `check` is off."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            result = self.host.run(f"{BINARY} status --json", check=False, urgent=True)
            if LATE not in result.err or time.monotonic() > deadline:
                break
        if result.rc == 0:
            try:
                return json.loads(result.out)
            except json.JSONDecodeError as error:
                raise DaemonError(f"paracord status --json is not JSON: {error}") from error
        if check:
            raise DaemonError(f"paracord status failed: {(result.err or result.out).strip()[-200:]}")
        return None

    def default(self, dotted: str) -> object:
        """The daemon's default of a setting ("boost.actuation_min_us")."""
        return self.defaults([dotted])[dotted]

    def defaults(self, dotted: Iterable[str]) -> dict[str, object]:
        """The defaults of several settings, with one command."""
        show = f": > {DEFAULTS} && {BINARY} config show --config {DEFAULTS}"
        shown = self.host.run(show).out
        return {one: default(shown, one) for one in dotted}

    def stop(self) -> None:
        """Ends the daemon as an operator would (SIGTERM), and waits until it is gone."""
        if self.job is None:
            return
        self.job.kill("TERM")
        self.job.wait(timeout=20)
        self.job = None

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_exception) -> None:
        self.stop()


def default(shown: str, dotted: str) -> object:
    """A setting in the output of `paracord config show`, which prints defaults as comments."""
    value: object = tomllib.loads(re.sub(r"(?m)^# (?=\w+ = )", "", shown))
    for key in dotted.split("."):
        value = value[key]
    return value


def vcpus(status: Mapping) -> list[dict]:
    """All vCPUs in a status, each as an object with at least `tid`."""
    return [vcpu for vm in status.get("vms", []) for vcpu in vm.get("vcpus", [])]


def tids(status: Mapping) -> list[int]:
    return [int(vcpu["tid"]) for vcpu in vcpus(status)]


def boosts_for(status: Mapping, reason: str) -> int:
    """The number of boosts of all vCPUs for one of REASONS."""
    return sum(int(vcpu["counters"]["boosts"][REASONS.index(reason)]) for vcpu in vcpus(status))


def counter(status: Mapping, name: str) -> int:
    """
    The sum of a counter over all vCPUs. If the counter is a list (by reason), its elements are
    added, too.
    """
    total = 0
    for vcpu in vcpus(status):
        value = vcpu["counters"][name]
        total += sum(value) if isinstance(value, list) else int(value)
    return total
