# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Why a machine died, from its kernel's serial log and its emulator's messages."""

from __future__ import annotations

import re
from pathlib import Path

# The most informative kinds come first. A BUG tells the cause, and the panic that follows tells
# only that it was fatal.
TROUBLE = (
    (
        "kernel bug",
        re.compile(r"((?<!watchdog: )BUG: .*|kernel BUG at .*|Oops: .*|general protection fault.*)"),
    ),
    ("kernel panic", re.compile(r"(Kernel panic - not syncing: .*)")),
    ("stall", re.compile(r"(watchdog: BUG: soft lockup.*|rcu: INFO: rcu\w* (?:self-)?detected .*stall.*)")),
    ("out of memory", re.compile(r"(Out of memory: .*)")),
    ("lab", re.compile(r"^(lab: .*)")),
)
TIMESTAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[[^]]*\])? ")
# Only errors. A scheduler may also be unregistered, or disabled by the administrator
# (scx_exit_reason() in the kernel).
EJECTED = re.compile(
    r'sched_ext: BPF scheduler "paracord" disabled \((runtime error|scx_bpf_error|runnable task stall)\)'
    r"(?:.*\n.*sched_ext: paracord: (.*))?"
)
# Kinds of trouble after which a kernel no longer works as before.
DEADLY = ("kernel bug", "kernel panic")
LOG_TAIL_BYTES = 1 << 20
# QEMU's ShutdownCause (qapi/run-state.json), as in the trace that emulator.py enables.
ENDED = re.compile(r"qemu_system_shutdown_request reason=(\d+)")
CAUSES = {
    "1": "the emulator met an error",
    "4": "the emulator got a signal",
    "6": "the machine powered itself off",
    "7": "the machine reset itself",
    "8": "the kernel told of a panic",
}


def trouble(text: str) -> str | None:
    """The first line of the worst trouble in a log, without its time stamp. None if there is no trouble."""
    lines = [TIMESTAMP.sub("", line.rstrip("\r")).strip() for line in text.splitlines()]
    for name, pattern in TROUBLE:
        for line in lines:
            found = pattern.search(line)
            if found:
                return f"{name}: {found.group(1)[:200]}"
    return None


def reason(serial: Path, *emulator: Path) -> str | None:
    """
    The reason why a machine died: trouble in the serial log, or the last message in the emulator's
    logs, or what made the emulator end, or None. Missing files are not an error.
    """
    found = trouble(read_tail(serial))
    if found:
        return found
    logs = [read_tail(path) for path in emulator]
    lines = [line.strip() for line in logs[0].splitlines()] if logs else []
    lines = [line for line in lines if line and "warning:" not in line and not ENDED.search(line)]
    if lines:
        return f"emulator: {lines[-1][:200]}"
    causes = ENDED.findall("\n".join(logs))
    return f"emulator: {CAUSES.get(causes[-1], f'ended for reason {causes[-1]}')}" if causes else None


def died(serial: Path) -> str | None:
    """The trouble that killed a kernel or one of its tasks; otherwise None."""
    found = trouble(read_tail(serial))
    return found if found and found.startswith(DEADLY) else None


def ejection(serial: Path) -> str | None:
    """Why the kernel ejected paracord's scheduler, if it has done so."""
    found = EJECTED.search(read_tail(serial).replace("\r", ""))
    return ": ".join(part.strip() for part in found.groups() if part) if found else None


def read_tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
