# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""LAB_HOST=native: this machine is the host. What it needs, and the agent that runs commands on it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from . import kvm
from .errors import LabError
from .needs import Facts

PROGRAMS = {"socat": "socat", "cyclictest": "rt-tests", "stress-ng": "stress-ng"}
EMULATORS = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}
MOUNT_POINTS = ("/share", "/payload", "/logs")


class Unavailable(LabError):
    """This machine cannot be the host. kernel: its release, kind: "native"."""

    kernel = platform.release()
    kind = "native"


def is_host() -> bool:
    """Whether this machine is the host, instead of an emulated one."""
    return os.environ.get("LAB_HOST") == "native"


def facts() -> Facts | None:
    """Of this machine if it is the host; None if the host is emulated."""
    return Facts() if is_host() else None


def check() -> None:
    """
    Raises Unavailable that names everything without which no scenario runs on this machine, in one line.
    What only some configurations need is not looked for here (needs.py).
    """
    missing = []
    broken = kvm.works()
    if broken:
        missing.append(broken)
    missing += _programs_missing()
    if missing:
        raise Unavailable(f"LAB_HOST=native is not possible here: {'; '.join(missing)}")


def _programs_missing() -> list[str]:
    """One line with the command that installs what is missing, if anything is."""
    architecture = platform.machine()
    packages = {f"qemu-system-{architecture}": EMULATORS.get(architecture, "qemu-system"), **PROGRAMS}
    absent = {program: package for program, package in packages.items() if not shutil.which(program)}
    if not absent:
        return []
    return [f"{', '.join(absent)} not installed (apt install {' '.join(absent.values())})"]


def agent_command(agent: Path, channel_fd: int, payload: Path, share: Path, logs: Path) -> list[str]:
    """Starts the agent where /share, /payload and /logs are bound for it alone."""
    for point in MOUNT_POINTS:
        Path(point).mkdir(exist_ok=True)
    script = (
        'mount --bind "$1" /payload; mount --bind "$2" /share; mount --bind "$3" /logs; '
        "mkdir -p /run/lab; cd /; "
        'PATH=/payload/bin:$PATH exec "$0" "fd:$4"'
    )
    return [
        "unshare",
        "--mount",
        "sh",
        "-ec",
        script,
        str(agent),
        str(payload),
        str(share),
        str(logs),
        str(channel_fd),
    ]


def clean_up() -> None:
    """Removes the mount points if they are empty, as the lab makes them."""
    for point in MOUNT_POINTS:
        try:
            Path(point).rmdir()
        except OSError:
            continue
