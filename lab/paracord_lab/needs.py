# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What a configuration, a scenario or a test needs of a host, and whether this machine has it.

Who needs something declares it as data (`needs`, or the marker of that name in tests). An emulated host has
everything by construction. Under LAB_HOST=native, what this machine lacks is left out, with the reason.
"""

from __future__ import annotations

import gzip
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

SCHED_EXT_STATE = "sys/kernel/sched_ext/state"
# root's PATH has them all. That of a user who asks for the list of scenarios need not.
PROGRAMS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")


@dataclass(frozen=True)
class Facts:
    """What a machine tells about itself. root: of its /sys, /proc, /boot and programs."""

    root: Path = Path("/")
    release: str = field(default_factory=platform.release)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def text(self, path: str) -> str:
        """Empty if there is no such file, or if this user may not read it."""
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return ""

    def has_program(self, name: str) -> bool:
        return any(self.exists(f"{directory}/{name}") for directory in PROGRAMS)

    def built_with(self, option: str) -> bool:
        """Whether the kernel's configuration says so; False also if no configuration can be read."""
        return f"{option}=y" in self._config

    @cached_property
    def _config(self) -> frozenset[str]:
        try:
            said = gzip.decompress((self.root / "proc/config.gz").read_bytes()).decode()
        except OSError:
            said = self.text(f"boot/config-{self.release}")
        return frozenset(said.splitlines())


@dataclass(frozen=True)
class Need:
    """Something that a host may lack. lack: why a host does not offer it; empty if it does."""

    name: str
    lack: Callable[[Facts], str]


def _lack_of_sched_ext(facts: Facts) -> str:
    """As `paracord doctor` finds it (crates/host/src/doctor/kernel.rs)."""
    option = "CONFIG_SCHED_CLASS_EXT"
    if not facts.exists(SCHED_EXT_STATE):
        if facts.built_with(option):
            return f"/{SCHED_EXT_STATE} is not there, although the kernel is built with {option}"
        return f"the kernel has no sched_ext ({option}, Linux 6.12 or later)"
    if "PREEMPT_RT" in facts.text("proc/sys/kernel/version"):
        return "a PREEMPT_RT kernel refuses BPF timers, which paracord's scheduler needs"
    cpus = _isolated(facts.text("proc/cmdline"))
    return f"the kernel refuses sched_ext beside isolcpus= (CPUs {cpus})" if cpus else ""


def _isolated(cmdline: str) -> str:
    """CPUs that `isolcpus=` with the flag `domain` names; other flags alone do not matter."""
    lists = [word.removeprefix("isolcpus=") for word in cmdline.split() if word.startswith("isolcpus=")]
    words = lists[-1].split(",") if lists else []
    flags = [word for word in words if word[:1].isalpha()]
    cpus = [word for word in words if word[:1].isdigit()]
    return ",".join(cpus) if not flags or "domain" in flags else ""


def _lack_of_uclamp(facts: Facts) -> str:
    option = "CONFIG_UCLAMP_TASK"
    # The kernel has these sysctls if it is built with the option. A configuration cannot always be read.
    if facts.exists("proc/sys/kernel/sched_util_clamp_max") or facts.built_with(option):
        return ""
    return f"the kernel has no utilisation clamps ({option})"


def _lack_of_btf(facts: Facts) -> str:
    if facts.exists("sys/kernel/btf/vmlinux"):
        return ""
    return "the kernel has no BTF, which the daemon's BPF programs need (CONFIG_DEBUG_INFO_BTF)"


def _lack_of_perf_events(facts: Facts) -> str:
    if facts.exists("proc/sys/kernel/perf_event_paranoid"):
        return ""
    return "the kernel has no perf events (CONFIG_PERF_EVENTS)"


def _lack_of_bpftool(facts: Facts) -> str:
    return "" if facts.has_program("bpftool") else "bpftool is not installed (apt install bpftool)"


SCHED_EXT = Need("sched_ext", _lack_of_sched_ext)
UCLAMP = Need("uclamp", _lack_of_uclamp)
BTF = Need("btf", _lack_of_btf)
PERF_EVENTS = Need("perf_events", _lack_of_perf_events)
# Other programs are needed by all scenarios (native.py).
BPFTOOL = Need("bpftool", _lack_of_bpftool)
# A board, a kernel or a kernel command line of its own.
EMULATED = Need("emulated", lambda _facts: "needs an emulated host (unset LAB_HOST)")
ALL = {need.name: need for need in (SCHED_EXT, UCLAMP, BTF, PERF_EVENTS, BPFTOOL, EMULATED)}


def lacking(needs: Iterable[Need], facts: Facts | None) -> str:
    """Why a host does not offer all of them, in one line; empty if it does. facts: None if it is emulated."""
    if facts is None:
        return ""
    return "; ".join(dict.fromkeys(lack for need in needs if (lack := need.lack(facts))))
