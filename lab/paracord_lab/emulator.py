# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
QEMU's command lines for the emulated host (L1) and for the guest in it (L2), per architecture.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import LabError


@dataclass(frozen=True)
class Architecture:
    """The differences between architectures.

    emulated_cpu: CPU model of the host under TCG. guest_cmdline and host_cmdline are appended to
    the kernels' command lines. tcg_spare_cpu: the first CPU of an emulated host must run no guest.
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
        # hpet=off: Linux leaves this timer running after boot, and each of its ticks wakes the
        # emulator for nothing (docs/lab.md). libvirt's guests do not have this timer either.
        host_machine="q35,hpet=off",
        guest_machine="q35,hpet=off",
        console="ttyS0",
        # With a fifth level of page tables, each translation under nesting would be a walk of 35
        # entries instead of 24.
        emulated_cpu="max,la57=off",
        # without tsc=reliable, the emulated host may use the ACPI timer, with a port read per clock
        # read
        host_cmdline="tsc=reliable",
        # without lastbus=0, the kernel probes 255 empty PCI buses, each with an exit to QEMU, which
        # takes 1.4 s
        guest_cmdline="tsc=reliable no_timer_check pci=lastbus=0",
        # TCG's cpu_clear_ignne(): XRSTOR on any CPU stores to the first CPU's hflags2, and not
        # atomically. VMRUN and #VMEXIT keep the state of SVM there. If one of their stores is lost,
        # the host or a guest dies.
        tcg_spare_cpu=True,
    ),
    "aarch64": Architecture(
        name="aarch64",
        emulator="qemu-system-aarch64",
        # gic-version=3: in an emulated host, KVM offers guests no other version
        host_machine="virt,virtualization=on,gic-version=3",
        guest_machine="virt,gic-version=3",
        console="ttyAMA0",
        # This model supports virtualisation with a host kernel at EL2. It has no pointer
        # authentication, which would be slow in the emulator.
        emulated_cpu="neoverse-n1",
    ),
}
# Above every normal thread of this machine, and below 50, the usual priority of its own real-time
# threads.
TIMER_THREAD_PRIORITY = 10
# One emulated instruction takes two nanoseconds. An idle CPU skips to its next timer.
COUNTED_CLOCK = ("-icount", "shift=1,sleep=off,align=off")
# The socket of the emulated host's monitor, in the directory of its logs.
HOST_MONITOR = "host.monitor"
# The emulator's messages about resets of its CPUs. A triple fault resets a CPU, and the kernel
# prints nothing then.
HOST_RESETS = "host.resets.log"
# Only warnings and worse are printed on the serial line, because each character is a trap. A panic
# is always printed. panic=-1 with -no-reboot ends the emulator at once, so a dead kernel is noticed
# at once.
KERNEL_QUIET = "quiet loglevel=4 panic=-1 oops=panic"


def serve_timers_first(pid: int) -> None:
    """Makes the emulator's main thread real-time, if this is allowed.

    The main thread fires the emulated timers. A normal thread would have to wait for the threads of
    the emulated CPUs, which take all real CPUs when the emulated host is busy. Each timer interrupt
    would then be up to a tick late.
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
    An emulator without devices, configuration files or windows. It ends when its kernel ends, and
    writes into its log what shut it down (serial_log.py). With -no-reboot it does not log a reset.
    """
    quiet = ("-nodefaults", "-no-user-config", "-display", "none")
    return (arch.emulator, *quiet, "-no-reboot", "-trace", "qemu_system_shutdown_request")


def processors(arch: Architecture, accelerator: str, cpus: int, spare: bool = True) -> tuple[int, str]:
    """
    Returns how many CPUs an emulated host needs if it uses `cpus` of them, and the kernel
    parameters for this. A host without guests needs no spare CPU.
    """
    if accelerator != "tcg" or not arch.tcg_spare_cpu or not spare:
        return cpus, ""
    # isolcpus=domain is not used, because sched_ext refuses to run with it. lab/init/host-init
    # keeps all processes off this CPU.
    return cpus + 1, f"isolcpus=managed_irq,0 irqaffinity=1-{cpus} lab.cpus=1-{cpus}"


def for_release(release: str) -> str:
    """
    Kernel parameters for a host's kernel of this release. KVM of a PREEMPT_RT kernel requires a TSC
    that is declared as constant. The emulator's TSC is constant, but the emulator does not declare
    it.
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
    """
    The command line of the emulated host. Files have the paths that machine.py binds them to, below
    /mnt in the tools tree.

    accelerator: "tcg" or "kvm" (with nesting). counted: the host's clock counts instructions (TCG
    only), and its CPUs take turns in one thread. spare: the host has the additional CPU that hosts
    with guests need (processors()).
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
    """
    The command line of a guest as a user would start it: stock QEMU, KVM, an ivshmem device for the
    region (0 bytes: none).
    """
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
            *("-device", "ivshmem-plain,memdev=paracord,master=on"),
        ]
    return [*argv, *extra]


def vmm_command(
    arch: Architecture,
    name: str,
    vcpus: int,
    memory_mb: int,
    region_bytes: int,
    interrupts: bool,  # not used: the region's function always has them
    initramfs: str,
    cmdline: str,
    extra: Sequence[str],
) -> list[str]:
    """
    The command line of a guest under paracord's own VMM. Its agent finds the channel through
    lab.port (lab/init/guest-init).
    """
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
