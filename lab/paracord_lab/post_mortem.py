# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Collects information about machines that do not answer, and writes it into the directory of the run."""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import emulator
from .errors import LabError

if TYPE_CHECKING:
    from .guest import Guest
    from .machine import Host

FILE = "post-mortem.txt"
TIMEOUT_S = 20
# Registers are read twice. A guest that spins has moved in between, and one that hangs has not.
MONITOR = ("info status", "info registers", "x/12i $pc", "info lapic", "info registers")
HOST_MONITOR_LINES = ("info status", *("info registers -a",) * 4, "info lapic 0", "info lapic 1", "nmi")
# The monitor repeats each line of input, character by character.
PROMPT = "(qemu)"
KVM_COUNTERS = 'cd /sys/kernel/debug/kvm && for f in *; do [ -f "$f" ] && echo "$f $(cat "$f")"; done'


def write(host: Host, why: str) -> Path:
    """
    Asks the host and the emulators of its guests, and writes their answers. If one does not answer,
    this is noted.
    """
    path = host.logs.parent / FILE  # the directory of the logs is reused by the next machines
    with path.open("a") as file:
        file.write(f"{why}\n")
        for command in _commands(host):
            try:
                answer = host.run(command, TIMEOUT_S, check=False)
                said = answer.out + answer.err
            except LabError as error:
                file.write(f"\n$ {command}\n{error}\n{_of_silent_host(host)}")
                return path
            file.write(f"\n$ {command}\n{said}")
    return path


def _of_silent_host(host: Host) -> str:
    """
    What the emulator knows about a host that answers no command: the registers of its CPUs, several
    times.
    """
    said = b""
    directory = os.open(host.logs, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(1)
            # The socket is opened through the descriptor of its directory, because the path of a
            # socket may have only 108 bytes.
            monitor.connect(f"/proc/self/fd/{directory}/{emulator.HOST_MONITOR}")
            for line in HOST_MONITOR_LINES:
                monitor.sendall(f"{line}\n".encode())
                time.sleep(0.5)
                said += monitor.recv(1 << 20)
    except OSError as error:
        said += f"monitor: {error}\n".encode()
    finally:
        os.close(directory)
    lines = said.decode(errors="replace").replace("\r", "").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(PROMPT))


def _commands(host: Host) -> Iterator[str]:
    yield "cat /proc/uptime /proc/loadavg"
    yield "ps -eLo pid,tid,cls,rtprio,stat,psr,wchan:24,time,comm --sort=-time | head -40"
    yield "/payload/bin/paracord status"
    for guest in host.guests:
        yield from _of_guest(guest)
    yield f"{KVM_COUNTERS}; sleep 1; {KVM_COUNTERS}"
    yield "dmesg | tail -40"


def _of_guest(guest: Guest) -> Iterator[str]:
    for tid in guest.vcpu_tids:
        files = f"/proc/{tid}/schedstat"
        yield f"chrt -p {tid}; cat {files} /proc/{tid}/stack; sleep 1; cat {files}"
    asked = "; ".join(f"echo {shlex.quote(line)}; sleep 0.5" for line in MONITOR)
    socket = emulator.monitor_socket(guest.name)
    yield f"({asked}) | socat -t 2 STDIO UNIX-CONNECT:{socket} | tr -d '\\r' | grep -v '^{PROMPT}'"
