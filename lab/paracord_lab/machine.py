# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The host under test: an emulated host (L1), or this machine itself with LAB_HOST=native.

    with machine.host(cpus=2, logs=Path("out/demo/logs")) as host:
        guest = host.guest("vm1", vcpus=1)
        print(guest.run("uname -r").out)

Start hosts from the main thread: the kernel ends an emulator when the thread that started it ends.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from . import boards, emulator, images, kvm, native, payload, privilege, serial_log, tree, tree_specs
from .channel import PATIENCE, Channel, Job, Result
from .errors import ChannelClosed, CommandTimeout, LabError
from .guest import Guest
from .native import Unavailable

__all__ = ["Guest", "Host", "Unavailable", "host", "setup"]

BOOT_TIMEOUT_S = 120.0
READ_BYTES = 1 << 16
GUEST_MEMORY_MB = 256
# The files of an initramfs may use half of the memory that the kernel leaves. This includes files
# that are written later.
PERF_GUEST_MEMORY_MB = 512
DEFAULT_LOGS = Path("out/lab/logs")


class Host:
    """A host that runs commands and guests. `host()` makes it.

    kernel: release. cpus: number of CPUs that the host schedules on. kind: "emulated" or "native".
    share: directory on this machine that the host sees as /share. payload: directory that the host
    sees as /payload, read-only. logs: serial logs of all kernels. accelerator: "tcg", "kvm" or
    "none" (native).
    """

    def __init__(
        self,
        kind: str,
        arch: str,
        accelerator: str,
        payload: Path,
        share: Path,
        logs: Path,
        process: subprocess.Popen[bytes],
        end: socket.socket,
    ) -> None:
        self.kind = kind
        self.arch = arch
        self.accelerator = accelerator
        self.payload = payload
        self.share = share
        self.logs = logs
        self.guests: list[Guest] = []
        self.kernel = ""
        self.cpus = 0
        self.boot_seconds = 0.0
        self._start = time.monotonic()
        self._process = process
        self._socket = end
        self._send_lock = threading.Lock()
        self.channel = Channel("host", self._send, PATIENCE)
        self._reader = threading.Thread(target=self._read, name="host channel", daemon=True)
        self._reader.start()

    def wait_for_boot(self) -> None:
        """Returns when the host answers. If it does not, raises LabError with the reason."""
        try:
            self.channel.hello(BOOT_TIMEOUT_S)
        except CommandTimeout as error:
            raise ChannelClosed(
                f"the host did not boot: {self._reason() or error} (logs: {self.logs})"
            ) from None
        except ChannelClosed as error:
            raise ChannelClosed(f"the host did not boot: {error}") from None
        self.boot_seconds = time.monotonic() - self._start
        release, count = self.run("uname -r; nproc").out.split()
        self.kernel, self.cpus = release, int(count)

    def run(self, command: str, timeout: float = 60, check: bool = True, urgent: bool = False) -> Result:
        """
        Runs a shell command in the host. Raises CommandError (if check), CommandTimeout or
        ChannelClosed.

        urgent: at real-time priority. For commands that measure or end loads, because ordinary work
        may starve under such loads.
        """
        return self.channel.run(command, timeout, check, urgent)

    def spawn(self, command: str, name: str | None = None) -> Job:
        """
        Runs a shell command in the background of the host. If it starts with `exec`, Job.pid is the
        program's process ID.
        """
        return self.channel.spawn(command, name)

    def put(self, path: Path, name: str | None = None) -> str:
        """Copies a file or directory into the share, and returns its path in the host."""
        target = self.share / (name or path.name)
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        return f"/share/{name or path.name}"

    def guest(
        self,
        name: str,
        vcpus: int = 1,
        region: bool | str = True,
        interrupts: bool = False,
        memory_mb: int | None = None,
        extra_args: Sequence[str] = (),
        cmdline: str = "",
        wrapper: str = "",
        vmm: str = "qemu",
        perf: bool = False,
    ) -> Guest:
        """Boots a guest, and returns when its channel answers.

        region: the guest has a region; a text gives the options with which it is made. interrupts:
        paracord's daemon sends them through QEMU. extra_args: for the VMM. cmdline: for the guest's
        kernel. wrapper: command that starts the VMM (`chrt -r 1`, …). vmm: "qemu" or "paracord"
        (docs/vmm.md). memory_mb: 256 by default, 512 with perf. perf: the guest has Debian's perf.
        """
        if perf:
            payload.add_perf(self.payload, self.arch)
        initramfs = "/payload/guest-perf.cpio" if perf else "/payload/guest.cpio"
        memory_mb = memory_mb or (PERF_GUEST_MEMORY_MB if perf else GUEST_MEMORY_MB)
        guest = Guest(
            self, name, vcpus, region, interrupts, memory_mb, extra_args, cmdline, wrapper, vmm, initramfs
        )
        self.guests.append(guest)
        return guest

    def read_clock_ns(self) -> int:
        """The host's CLOCK_MONOTONIC, the clock of its BPF programs and traces."""
        return int(self.run("sed -n 's/^now at \\([0-9]*\\) nsecs/\\1/p' /proc/timer_list").out.split()[0])

    def wait_for_end(self) -> None:
        """Returns when the host has powered off, because the user of the shell entered `exit`."""
        self._process.wait()

    def shutdown(self) -> None:
        """
        Ends the host and everything in it. No data is lost: the disk is read-only, and the share is
        written through.
        """
        if self.kind == "native":
            for guest in self.guests:
                with suppress(LabError):
                    guest.stop()
        self.channel.close("shut down")
        if self.kind == "emulated":
            self._process.kill()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # natively, the agent kills the processes that it started
        self._process.wait()
        self._reader.join(5)
        self._socket.close()

    def _send(self, data: bytes) -> None:
        with self._send_lock:
            self._socket.sendall(data)

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                break
            self.channel.feed(data)
        if not self.channel.closed:
            try:
                code = self._process.wait(5)  # the emulator writes its last messages when it ends
            except subprocess.TimeoutExpired:
                code = None
            self.channel.close(f"{self._reason() or f'ended with code {code}'} (logs: {self.logs})")

    def _reason(self) -> str | None:
        messages = (self.logs / name for name in ("host.qemu.log", emulator.HOST_RESETS))
        return serial_log.reason(self.logs / "host.serial.log", *messages)


def setup(arch: str = "x86_64") -> None:
    """Makes everything that hosts and guests need. This is quick if everything exists already."""
    privilege.need_root()
    payload.build(images.ensure(arch))


def _named_kernel(kind: str, board: str) -> Path | None:
    """
    The directory in LAB_KERNEL, if it is set. Boards have their own modules, which exist only for
    the usual kernel.
    """
    name = os.environ.get("LAB_KERNEL")
    if not name:
        return None
    if kind == "native" or board:
        raise LabError("LAB_KERNEL is for emulated hosts without a board: unset it")
    if not tree.kernel_versions(Path(name)):
        raise LabError(f"LAB_KERNEL={name}: there is no kernel in usr/lib/modules of it (see docs/lab.md)")
    return Path(name)


@contextmanager
def host(
    arch: str = "x86_64",
    cpus: int = 2,
    memory_mb: int = 3000,
    logs: Path = DEFAULT_LOGS,
    cmdline: str = "",
    extra_args: Sequence[str] = (),
    shell: bool = False,
    board: str = "",
    kernel: Path | None = None,
    counted: bool = False,
    spare: bool = True,
) -> Iterator[Host]:
    """
    Boots a host (or takes this machine if LAB_HOST=native). At the end, stops the host with
    everything in it.

    logs: directory of the serial logs. /share is the directory `share` beside it. Files of an
    earlier run are removed from both. cmdline: for the host's kernel. extra_args: for its emulator.
    shell: bash on this terminal. board: hardware with frequencies (boards.py), with its own
    architecture and CPUs. kernel: the kernel that an emulated host boots instead of the usual one
    (images.with_kernel()). Without it, the directory in LAB_KERNEL is used. The host's guests have
    the usual kernel. counted: the clock of an emulated host counts instructions. This is for work
    on the host itself: guests do not run then, except on arm64, where they run slowly. spare: an
    emulated x86 host has a CPU on which nothing runs. Guests need it, but it affects load
    balancing.
    """
    kind = os.environ.get("LAB_HOST", "emulated")
    if kind not in ("emulated", "native"):
        raise LabError(f"LAB_HOST={kind}: choose emulated or native")
    kernel = kernel or _named_kernel(kind, board)
    privilege.need_root()
    hardware = boards.load(board) if board and kind == "emulated" else None
    if hardware:
        arch, cpus = hardware.arch, hardware.cpus
    if kind == "native":
        arch = platform.machine()
        native.check()
    files = images.ensure(arch)
    built = payload.build(files)
    if kernel:
        files = images.with_kernel(files, kernel)
    described = hardware.describe(memory_mb) if hardware else boards.NOTHING
    logs = logs.resolve()
    share = logs.parent / "share"
    for directory in (share, logs):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    ours, theirs = socket.socketpair()
    can_nest = not tree_specs.is_foreign(arch) and not hardware and not counted and kvm.can_nest()
    accelerator = "none" if kind == "native" else "kvm" if can_nest else "tcg"
    with ours:
        with theirs:
            if kind == "native":
                argv = native.agent_command(
                    files.kernel.parent / "lab-agent", theirs.fileno(), built, share, logs
                )
            else:
                binds = {
                    "/mnt/boot": files.kernel.parent,
                    "/mnt/disk": files.host_disk,
                    "/mnt/payload": built,
                    "/mnt/share": share,
                    "/mnt/logs": logs,
                    **described.binds,
                }
                command = emulator.host_command(
                    emulator.architecture(arch),
                    accelerator,
                    cpus,
                    memory_mb,
                    theirs.fileno(),
                    f"{described.cmdline} {emulator.for_release(files.release)} {cmdline}",
                    shell,
                    [*described.arguments, *extra_args],
                    counted,
                    spare,
                )
                argv = tree.enter(tree.ensure("tools", arch), command, binds)
            with (logs / "host.qemu.log").open("wb") as messages:
                process = subprocess.Popen(
                    argv,
                    pass_fds=[theirs.fileno()],
                    stdin=None if shell else subprocess.DEVNULL,
                    stdout=None if shell else messages,
                    stderr=messages,
                    start_new_session=not shell,
                )
        machine = Host(kind, arch, accelerator, built, share, logs, process, ours)
        try:
            machine.wait_for_boot()
            if accelerator == "tcg":
                emulator.serve_timers_first(process.pid)
            if hardware:
                hardware.start(machine)
            yield machine
        finally:
            machine.shutdown()
            if kind == "native":
                native.clean_up()
