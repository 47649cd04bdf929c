# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The sched_ext scheduler that is loaded on the host: paracord's, or a minimal one."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .daemon import EMULATED_HOST, Daemon
from .errors import LabError

STATE = "/sys/kernel/sched_ext/state"
# The settings of a daemon on an emulated host.
EXT = {**EMULATED_HOST, "actuator": "ext"}
PLAIN = "plain.bpf.o"
PINNED = "/sys/fs/bpf/plain"
SAY = f"if test -e {STATE}; then cat {STATE}; else echo disabled; fi"


def state(host) -> str:
    """
    The state that the kernel reports: enabled, disabled (also for a kernel without sched_ext), or a
    state in between.
    """
    return host.run(SAY).out.strip()


def await_scheduler(host, wanted: bool) -> None:
    """
    Returns when a scheduler is loaded, or when none is loaded any more. LabError if this does not
    happen in time.
    """
    word = "enabled" if wanted else "disabled"
    said = host.run(
        f"for i in $(seq 200); do [ $({SAY}) = {word} ] && break; sleep 0.2; done; {SAY}",
        timeout=90,
    ).out.strip()
    if said != word:
        raise LabError(f"{STATE} is {said}, not {word}")


@contextmanager
def scheduling(
    host,
    vcpu_tids: Iterable[int] = (),
    arguments: str = "",
    settings: Mapping[str, object] | None = None,
) -> Iterator[Daemon]:
    """Runs the daemon with its scheduler loaded."""
    with Daemon(host, {**EXT, **(settings or {})}, arguments).start(vcpu_tids) as running_daemon:
        await_scheduler(host, True)
        yield running_daemon


@contextmanager
def plain(host) -> Iterator[None]:
    """Loads bpf/tests/plain.bpf.c while the context is open."""
    host.run(f"mkdir -p {PINNED} && bpftool struct_ops register /payload/bin/{PLAIN} {PINNED}")
    try:
        yield
    finally:
        host.run(f"rm -r {PINNED}")
