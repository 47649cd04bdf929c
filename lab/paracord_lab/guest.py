# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest (L2) in a host: boots it, runs commands in it, ends it."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from . import emulator, serial_log
from .channel import PATIENCE, Channel, Job, Result
from .errors import ChannelClosed, CommandTimeout, LabError

if TYPE_CHECKING:
    from .daemon import Daemon
    from .machine import Host

BOOT_TIMEOUT_S = 60.0
POWER_OFF_TIMEOUT_S = 10.0
MIGRATION_TIMEOUT_S = 120.0
# After a migration, an announcement a second, a look of the daemon at it, and what an emulated host needs.
HEAL_MAX_S = 4
COMPLAINTS = ("BUG:", "WARNING:", "Oops")
PARACORD = "/payload/bin/paracord"
MODULE = "/paracord/paracord_guest.ko"


class Migration(NamedTuple):
    """A migration that has ended."""

    downtime_s: float
    # From its end, by QEMU's clock, until the daemon used the VM's region again. None without a daemon.
    heal_s: float | None


class Guest:
    """A virtual machine under test. `Host.guest()` makes it.

    name: also the name of its region and its logs. pid: process ID of the VMM in the host.
    vcpu_tids: thread IDs in the host, by vCPU.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        vcpus: int,
        region: bool | str,
        interrupts: bool,
        memory_mb: int,
        extra_args: Sequence[str],
        cmdline: str,
        wrapper: str,
        vmm: str,
        initramfs: str,
    ) -> None:
        self.name = name
        self.vcpus = vcpus
        self._host = host
        self._region = region
        self._serial = host.logs / f"{name}.serial.log"
        self._messages = host.logs / f"{name}.{vmm}.log"
        start = time.monotonic()
        region_bytes = self._create_region() if region else 0
        make_command = {"qemu": emulator.guest_command, "paracord": emulator.vmm_command}[vmm]

        def command(name: str, extra: Sequence[str]) -> str:
            """The command line of a VMM for this VM."""
            argv = make_command(
                emulator.architecture(host.arch),
                name,
                vcpus,
                memory_mb,
                region_bytes,
                interrupts,
                initramfs,
                cmdline,
                [*extra_args, *extra],
            )
            line = f"exec {wrapper} {shlex.join(argv)} >/logs/{name}.{vmm}.log 2>&1"
            return line.replace("exec  ", "exec ")

        self._command = command
        self.channel = Channel(f"guest {name}", self._send, PATIENCE)
        self._emulator, self._relay = self._start_vmm(name)
        try:
            self.channel.hello(BOOT_TIMEOUT_S)
            self.pid = self._emulator.pid
            self.vcpu_tids = self._find_vcpus()
        except BaseException as error:
            if not host.channel.closed:
                self._emulator.kill("KILL")
                self._relay.kill("KILL")
                self.stop()
            if isinstance(error, (CommandTimeout, ChannelClosed)) and not host.channel.closed:
                why = serial_log.reason(self._serial, self._messages) or str(error)
                raise ChannelClosed(f"guest {name} did not boot: {why} (logs: {host.logs})") from None
            raise
        self.boot_seconds = time.monotonic() - start

    def _start_vmm(self, name: str, *extra: str) -> tuple[Job, Job]:
        """Starts a VMM, and the relay between its socket and the channel."""
        socket = emulator.channel_socket(name)
        # The log belongs to root, whatever user the wrapper gives the VMM.
        self._host.run(f"mkdir -p /run/lab && rm -f {socket} && : >/logs/{name}.serial.log")
        self._socket = socket
        vmm = self._host.spawn(self._command(name, extra), f"guest {name}")
        relay = self._host.channel.spawn(
            f"exec socat -b 65536 STDIO UNIX-CONNECT:{socket},retry=600,interval=0.1",
            f"channel of guest {name}",
            on_output=self.channel.feed,
            on_exit=lambda _: self._relay_ended(socket),
        )
        return vmm, relay

    def _relay_ended(self, socket: str) -> None:
        # After a migration, the relay of the VMM before ends with it.
        if socket == self._socket:
            self.channel.close(self._why_gone())

    def migrate(self, name: str, daemon: Daemon | None = None) -> Migration:
        """
        Migrates the VM to another QEMU in the same host, whose name is `name`. For the guest and for
        paracord, this is another host: other processes, threads and memory. With `daemon`, waits until
        that uses the VM's region again. The VM must have no region file.
        """
        way = f"/run/lab/{name}.migration"
        self._host.run(f"rm -f {way}")
        with self._target(name, f"unix:{way}") as target:
            self._await_socket(way)
            start = time.monotonic()
            times = self._send_to(f"unix:{way}")
            found = daemon and daemon.await_region_in_memory(name)
        self._quit()
        self._go_on_as(name, *target)
        heal_s = found and max(0.0, found - start - times["total time"])
        return Migration(times["downtime"], heal_s)

    @contextmanager
    def _target(self, name: str, incoming: str) -> Iterator[tuple[Job, Job]]:
        """A VMM that the VM migrates to: its job and its relay. It is killed if the body fails."""
        before = self._socket
        vmm, relay = self._start_vmm(name, "-incoming", incoming)
        try:
            yield vmm, relay
        except BaseException:
            self._socket = before
            vmm.kill("KILL")
            raise

    def _await_socket(self, path: str) -> None:
        self._host.run(f"for _ in $(seq 300); do test -S {path} && exit 0; sleep 0.1; done; exit 1")

    def save_and_restore(self, name: str) -> None:
        """Saves the VM to a file, ends its QEMU, and restores the VM in another one, whose name is `name`."""
        file = f"/run/lab/{name}.saved"
        self._send_to(f"file:{file}")
        # The relay ends with the VMM.
        self._socket = ""
        self._quit()
        self._go_on_as(name, *self._start_vmm(name, "-incoming", f"file:{file}"))
        self._host.run(f"rm {file}")

    def _send_to(self, uri: str) -> dict[str, float]:
        """Migrates the VM to a URI of QEMU. Returns the times that QEMU has measured, in seconds."""
        self.monitor(f"migrate -d {uri}", 0.1)
        found = re.findall(r"(total time|downtime): (\d+) ms", self._await_migration("completed"))
        return {what: int(ms) / 1000 for what, ms in found}

    def _await_migration(self, status: str) -> str:
        """Waits until the VM's migration has this status. Returns what QEMU shows of the migration."""
        start = time.monotonic()
        while f"Migration status: {status}" not in (shown := self.monitor("info migrate", 0.2)):
            if "failed" in shown or time.monotonic() - start > MIGRATION_TIMEOUT_S:
                raise LabError(f"guest {self.name}: its migration is not {status}: {shown}")
        return shown

    @contextmanager
    def stalled_in_postcopy(self, name: str) -> Iterator[int]:
        """
        Migrates the VM to another QEMU, whose name is `name`. While the context is open, the VM runs there
        already, but gets none of the pages that it does not have yet. The value is the process ID of that
        QEMU. The VM must have no region file.
        """
        way = f"/run/lab/{name}.pages"
        self._host.run(f"rm -f {way}.from {way}.to")
        with self._target(name, "defer") as target:
            self._await_socket(emulator.monitor_socket(name))
            self._monitor_of(name, "migrate_set_capability postcopy-ram on", 0.2)
            self._monitor_of(name, f"migrate_incoming unix:{way}.to", 0.2)
            self._await_socket(f"{way}.to")
            pages = self._host.spawn(
                f"exec socat UNIX-LISTEN:{way}.from UNIX-CONNECT:{way}.to", f"pages of {name}"
            )
            try:
                self._await_socket(f"{way}.from")
                self._enter_postcopy(f"unix:{way}.from")
                pages.kill("STOP")
                yield target[0].pid
                self._await_migration("postcopy-active")
                pages.kill("CONT")
                self.monitor("migrate_set_parameter max-postcopy-bandwidth 0", 0.2)
                self._await_migration("completed")
            except BaseException:
                # Neither QEMU can go on alone: the VM is in both.
                self._emulator.kill("KILL")
                raise
            finally:
                pages.kill("KILL")
        self._quit()
        self._go_on_as(name, *target)

    def _enter_postcopy(self, uri: str) -> None:
        """Migrates the VM to a URI, so slowly that most of its pages are missing when it runs there."""
        self.monitor("migrate_set_capability postcopy-ram on", 0.2)
        for bandwidth in ("max-bandwidth", "max-postcopy-bandwidth"):
            self.monitor(f"migrate_set_parameter {bandwidth} 1M", 0.2)
        self.monitor(f"migrate -d {uri}", 0.2)
        self.monitor("migrate_start_postcopy", 0.2)
        self._await_migration("postcopy-active")

    def _quit(self) -> None:
        self.monitor("quit")
        self._emulator.wait(POWER_OFF_TIMEOUT_S)

    def _go_on_as(self, name: str, vmm: Job, relay: Job) -> None:
        """Takes over the VM that another VMM runs now."""
        self._emulator, self._relay = vmm, relay
        self.name, self.pid = name, vmm.pid
        self._serial = self._host.logs / f"{name}.serial.log"
        self._messages = self._host.logs / f"{name}.qemu.log"
        self.channel.need_sign_of_life()
        self.vcpu_tids = self._find_vcpus()

    def monitor(self, line: str, seconds: float = 1) -> str:
        """Sends a line to QEMU's monitor, and returns what it prints within `seconds`."""
        return self._monitor_of(self.name, line, seconds)

    def _monitor_of(self, name: str, line: str, seconds: float) -> str:
        socket = emulator.monitor_socket(name)
        keyed = f"(echo {shlex.quote(line)}; sleep {seconds})"
        return self._host.run(f"{keyed} | socat STDIO UNIX-CONNECT:{socket} | tr -d '\\r'", check=False).out

    def run(self, command: str, timeout: float = 60, check: bool = True) -> Result:
        """Runs a shell command in the guest."""
        return self.channel.run(command, timeout, check)

    def spawn(self, command: str, name: str | None = None) -> Job:
        """Runs a shell command in the background of the guest."""
        return self.channel.spawn(command, name)

    def load_module(self, **params: object) -> None:
        """Loads paracord_guest with module parameters."""
        words = [f"{key}={value}" for key, value in params.items()]
        self.run(shlex.join(["insmod", MODULE, *words]))

    def load_kernel_module(self, name: str) -> None:
        """Loads one of the kernel's modules (images.LATER_GUEST_MODULES), and the modules that it needs."""
        order = f"/modules/{name}.order"
        self.run(f"test -e {order} && for m in $(cat {order}); do insmod /modules/$m || exit 1; done")

    def complaints(self) -> list[str]:
        """Lines in the log of the guest's kernel that tell of a fault in it."""
        return [line for line in self.run("dmesg").out.splitlines() if any(w in line for w in COMPLAINTS)]

    def unload_module(self) -> None:
        self.run("rmmod paracord_guest")

    def wait(self, timeout: float = POWER_OFF_TIMEOUT_S) -> int:
        """Waits until the VMM has ended, and returns its exit code."""
        return self._emulator.wait(timeout)

    def kill(self, sig: str = "KILL") -> None:
        """
        Sends a signal to the VMM. If the signal ends the VMM, waits until the VMM is gone. The
        region stays.
        """
        self._host.run(f"kill -{sig} {self.pid}", check=False)
        if sig in ("KILL", "TERM", "QUIT", "INT"):
            self._emulator.wait(POWER_OFF_TIMEOUT_S)

    def stop(self) -> None:
        """Powers the guest off and removes its region. Does nothing if the guest is gone."""
        if self._host.channel.closed:
            return
        with suppress(CommandTimeout, ChannelClosed):  # wait() kills the VMM if it does not end in time
            if self._emulator.running:
                if not self.channel.closed:
                    self.channel.spawn("poweroff -f", "power off")
                self._emulator.wait(POWER_OFF_TIMEOUT_S)
        if self._region and not self._host.channel.closed:
            self._region = False
            self._host.run(f"{PARACORD} region remove {shlex.quote(self.name)}")

    @property
    def running(self) -> bool:
        return self._emulator.running

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _where: object) -> None:
        """
        Raises ChannelClosed if the body failed because the guest's kernel died. Emulated guests die
        now and then.
        """
        self.stop()
        if not isinstance(error, Exception) or isinstance(error, ChannelClosed):
            return
        died = serial_log.died(self._serial)
        if died:
            raise ChannelClosed(f"guest {self.name}: {died} (logs: {self._host.logs})") from error

    def _send(self, data: bytes) -> None:
        self._relay.write(data)

    def _why_gone(self) -> str:
        why = serial_log.reason(self._serial, self._messages)
        return f"{why} (logs: {self._host.logs})" if why else "powered off"

    def _create_region(self) -> int:
        """
        Makes the region, and returns the size of its file. paracord makes the file, because it
        knows the layout.
        """
        name = shlex.quote(self.name)
        options = self._region if isinstance(self._region, str) else ""
        self._host.run(f"{PARACORD} region create {name} --vcpus {self.vcpus} {options}")
        return int(self._host.run(f"stat -c %s /dev/shm/paracord/{name}").out)

    def _find_vcpus(self) -> list[int]:
        """The thread IDs of vCPU threads, which both VMMs call `CPU n/KVM` (QEMU: with debug-threads=on)."""
        listed = self._host.run(
            f'for t in /proc/{self.pid}/task/*; do echo "${{t##*/}} $(cat $t/comm)"; done'
        ).out
        tids: dict[int, int] = {}
        for line in listed.splitlines():
            tid, _, comm = line.partition(" ")
            if comm.startswith("CPU ") and comm.endswith("/KVM"):
                tids[int(comm[4:-4])] = int(tid)
        if len(tids) != self.vcpus:
            raise LabError(f"guest {self.name}: {len(tids)} vCPU threads found, expected {self.vcpus}")
        return [tids[index] for index in sorted(tids)]
