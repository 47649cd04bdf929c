# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""QEMU's command lines: the emulated host (L1) and the guest in it (L2), per architecture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import LabError


@dataclass(frozen=True)
class Architecture:
    """What differs between architectures.

    emulated_cpu: the host's under TCG. guest_cmdline and host_cmdline end up on the kernels' command lines.
    tcg_spare_cpu: the first CPU of an emulated host must run no guest.
    """

    name: str
    emulator: str
    host_machine: str
    guest_machine: str
    console: str
    emulated_cpu: str
    host_cmdline: str = ""
    guest_cmdline: str = ""
    tcg_spare_cpu: bool = False


ARCHITECTURES = {
    "x86_64": Architecture(
        name="x86_64",
        emulator="qemu-system-x86_64",
        # hpet=off: Linux leaves that timer ticking after boot, and each tick wakes the emulator for nothing
        # (docs/lab.md); libvirt's guests have none either.
        host_machine="q35,hpet=off",
        guest_machine="q35,hpet=off",
        console="ttyS0",
        # A fifth level of page tables makes each translation in a nest a walk of 35 entries instead of 24.
        emulated_cpu="max,la57=off",
        # without tsc=reliable the emulated host may fall back to the ACPI timer, a port read per clock read
        host_cmdline="tsc=reliable",
        # lastbus=0: else the kernel probes 255 empty PCI buses, each an exit to QEMU: 1.4 s in all
        guest_cmdline="tsc=reliable no_timer_check pci=lastbus=0",
        # TCG's cpu_clear_ignne(): XRSTOR on any CPU stores to the first CPU's hflags2, not atomically, where
        # VMRUN and #VMEXIT keep the state of SVM. A store of theirs that gets lost kills host or guest.
        tcg_spare_cpu=True,
    ),
    "aarch64": Architecture(
        name="aarch64",
        emulator="qemu-system-aarch64",
        # gic-version=3: KVM offers no other one to a guest in an emulated host
        host_machine="virt,virtualization=on,gic-version=3",
        guest_machine="virt,gic-version=3",
        console="ttyAMA0",
        # Has virtualisation with a host kernel at EL2, and no pointer authentication, each of which the
        # emulator would compute.
        emulated_cpu="neoverse-n1",
    ),
}
# Above every normal thread of this machine, below its own real-time threads' usual 50.
TIMER_THREAD_PRIORITY = 10
# One emulated instruction takes two nanoseconds; a CPU that has nothing to do skips to its next timer.
COUNTED_CLOCK = ("-icount", "shift=1,sleep=off,align=off")
# Socket of the emulated host's monitor, in the directory of its logs.
HOST_MONITOR = "host.monitor"
# What the emulator says of its CPUs' resets, a triple fault among them: the kernel says nothing then.
HOST_RESETS = "host.resets.log"
# Warnings and worse on the serial line: each character is a trap. A panic always gets through.
# panic=-1 with -no-reboot ends the emulator at once, so a dead kernel is noticed at once.
KERNEL_QUIET = "quiet loglevel=4 panic=-1 oops=panic"


def serve_timers_first(pid: int) -> None:
    """Makes the emulator's main thread real-time, where that is allowed.

    It fires the emulated timers. As a normal thread it waits for the emulated CPUs' own threads, which
    take all real CPUs when the emulated host is busy: each timer interrupt would come up to a tick late.
    """
    try:
        os.sched_setscheduler(
            pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(TIMER_THREAD_PRIORITY)
        )
    except PermissionError:
        os.setpriority(os.PRIO_PROCESS, pid, -20)


def architecture(name: str) -> Architecture:
    if name not in ARCHITECTURES:
        raise LabError(f"architecture {name} is not supported; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def _bare(arch: Architecture) -> tuple[str, ...]:
    """
    An emulator without devices, configuration files or windows, that ends with its kernel, and says in its
    log what shut it down (serial_log.py; with -no-reboot it says nothing of a reset).
    """
    quiet = ("-nodefaults", "-no-user-config", "-display", "none")
    return (arch.emulator, *quiet, "-no-reboot", "-trace", "qemu_system_shutdown_request")


def processors(arch: Architecture, accelerator: str, cpus: int, spare: bool = True) -> tuple[int, str]:
    """
    How many CPUs the emulated host has for `cpus` that it uses, and what its kernel must be told of it. A
    host without guests needs no spare one.
    """
    if accelerator != "tcg" or not arch.tcg_spare_cpu or not spare:
        return cpus, ""
    # Not isolcpus=domain: sched_ext refuses to run beside it. lab/init/host-init keeps all processes off it.
    return cpus + 1, f"isolcpus=managed_irq,0 irqaffinity=1-{cpus} lab.cpus=1-{cpus}"


def for_release(release: str) -> str:
    """
    What a host's kernel of that release must be told. KVM of a PREEMPT_RT kernel wants a TSC that is said to
    be constant, which the emulator's is and does not say.
    """
    return "setcpuid=constant_tsc" if "-rt-" in release else ""


def host_command(
    arch: Architecture,
    accelerator: str,
    cpus: int,
    memory_mb: int,
    channel_fd: int,
    cmdline: str,
    shell: bool,
    extra: Sequence[str],
    counted: bool = False,
    spare: bool = True,
) -> list[str]:
    """The emulated host. Files are where machine.py binds them: below /mnt in the tools tree.

    accelerator: "tcg" or "kvm" (with nesting). counted: its clock counts instructions (TCG only), and its
    CPUs take turns in one thread. spare: it has the CPU that hosts with guests need (processors()).
    """
    threads = "single" if counted else "multi"
    accel, cpu = ("kvm", "host") if accelerator == "kvm" else (f"tcg,thread={threads}", arch.emulated_cpu)
    count, isolation = processors(arch, accelerator, cpus, spare)
    append = (
        f"console={arch.console} {KERNEL_QUIET} {arch.host_cmdline} {isolation} "
        f"{'lab.shell ' if shell else ''}{cmdline}"
    )
    argv = [
        *_bare(arch),
        *("-monitor", f"unix:/mnt/logs/{HOST_MONITOR},server=on,wait=off"),
        *("-d", "cpu_reset", "-D", f"/mnt/logs/{HOST_RESETS}"),
        *("-name", "paracord-lab-host", "-machine", arch.host_machine, "-accel", accel, "-cpu", cpu),
        *("-smp", str(count), "-m", str(memory_mb)),
        *("-kernel", "/mnt/boot/kernel", "-initrd", "/mnt/boot/host.cpio", "-append", append.strip()),
        *("-serial", "file:/mnt/logs/host.serial.log"),
        *(
            "-drive",
            "file=/mnt/disk,if=none,id=disk,format=raw,readonly=on",
            "-device",
            "virtio-blk-pci,drive=disk",
        ),
        *("-device", "virtio-serial-pci,id=serial"),
        *("-chardev", f"socket,id=lab,fd={channel_fd}", "-device", "virtserialport,chardev=lab,name=lab"),
    ]
    for tag, read_only in (("payload", ",readonly=on"), ("share", ""), ("logs", "")):
        argv += ["-fsdev", f"local,id={tag},path=/mnt/{tag},security_model=none{read_only},multidevs=remap"]
        argv += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    if shell:
        argv += ["-chardev", "stdio,id=shell,signal=off", "-device", "virtconsole,chardev=shell"]
    return [*argv, *(COUNTED_CLOCK if counted else ()), *extra]


def guest_command(
    arch: Architecture,
    name: str,
    vcpus: int,
    memory_mb: int,
    region_bytes: int,
    interrupts: bool,
    initramfs: str,
    cmdline: str,
    extra: Sequence[str],
) -> list[str]:
    """A guest as a user would start it: stock QEMU, KVM, an ivshmem device for the region (0 bytes: none)."""
    append = f"console={arch.console} {KERNEL_QUIET} {arch.guest_cmdline} {cmdline}"
    argv = [
        *_bare(arch),
        *("-monitor", f"unix:{monitor_socket(name)},server=on,wait=off"),
        *("-name", f"{name},debug-threads=on"),
        *("-machine", arch.guest_machine, "-accel", "kvm", "-cpu", "host"),
        *("-smp", str(vcpus), "-m", str(memory_mb)),
        *("-kernel", "/payload/vmlinux", "-initrd", initramfs, "-append", append.strip()),
        *("-serial", f"file:/logs/{name}.serial.log"),
        *("-device", "virtio-serial-pci,id=serial"),
        *("-chardev", f"socket,id=lab,path={channel_socket(name)},server=on,wait=off"),
        *("-device", "virtserialport,chardev=lab,name=lab"),
    ]
    if region_bytes and interrupts:
        argv += [
            *("-chardev", f"socket,id=paracord,path=/run/paracord/ivshmem/{name}"),
            *("-device", f"ivshmem-doorbell,chardev=paracord,vectors={vcpus}"),
        ]
    elif region_bytes:
        argv += [
            "-object",
            f"memory-backend-file,id=paracord,share=on,prealloc=on,size={region_bytes},"
            f"mem-path=/dev/shm/paracord/{name}",
            *("-device", "ivshmem-plain,memdev=paracord"),
        ]
    return [*argv, *extra]


def vmm_command(
    arch: Architecture,
    name: str,
    vcpus: int,
    memory_mb: int,
    region_bytes: int,
    interrupts: bool,  # its function has them anyway
    initramfs: str,
    cmdline: str,
    extra: Sequence[str],
) -> list[str]:
    """A guest under paracord's own VMM. Its agent finds the channel by lab.port (lab/init/guest-init)."""
    append = f"console=ttyS0 {KERNEL_QUIET} {arch.guest_cmdline} lab.port=/dev/ttyS1 {cmdline}"
    argv = [
        *("/payload/bin/paracord-vmm", "--name", name, "--memory-mib", str(memory_mb)),
        *("--kernel", "/payload/vmlinux", "--initramfs", initramfs, "--cmdline", append.strip()),
        *("--console", f"/logs/{name}.serial.log", "--channel", channel_socket(name)),
    ]
    if "--host-cpu-topology" not in extra:
        argv += ["--vcpus", str(vcpus)]
    if region_bytes:
        argv += ["--region", f"/dev/shm/paracord/{name}"]
    return [*argv, *extra]


def channel_socket(name: str) -> str:
    return f"/run/lab/{name}.sock"


def monitor_socket(name: str) -> str:
    return f"/run/lab/{name}.monitor"
