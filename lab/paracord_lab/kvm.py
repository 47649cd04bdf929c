# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Finds out whether KVM really works on this machine, by running a guest.

The existence of /dev/kvm proves nothing. Some containers have the file without the permission to
use it. Some clouds offer a KVM that is not based on hardware and does not support nesting.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from functools import cache as memoize
from pathlib import Path

# include/uapi/linux/kvm.h, x86
KVM_CREATE_VM = 0xAE01
KVM_GET_VCPU_MMAP_SIZE = 0xAE04
KVM_CREATE_VCPU = 0xAE41
KVM_SET_USER_MEMORY_REGION = 0x4020AE46
KVM_RUN = 0xAE80
KVM_SET_REGS = 0x4090AE82
KVM_GET_SREGS = 0x8138AE83
KVM_SET_SREGS = 0x4138AE84
KVM_EXIT_HLT = 5
SREGS_BYTES = 0x138
HLT = b"\xf4"
RFLAGS_RESERVED = 2


@memoize
def works() -> str | None:
    """None if a guest ran. Otherwise one line that says why it did not."""
    if not Path("/dev/kvm").exists():
        return "there is no /dev/kvm (load kvm-intel or kvm-amd; in a VM: switch nesting on)"
    if platform.machine() != "x86_64":
        return None if os.access("/dev/kvm", os.R_OK | os.W_OK) else "no permission on /dev/kvm"
    files: list[int] = []
    try:
        return _run_one_instruction(files)
    except OSError as error:
        return f"/dev/kvm does not run guests: {error.strerror}"
    finally:
        for file in reversed(files):
            os.close(file)


@memoize
def can_nest() -> bool:
    """Whether a host that is emulated with KVM would have KVM itself."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    for flag, module in ((" vmx", "kvm_intel"), (" svm", "kvm_amd")):
        nested = Path(f"/sys/module/{module}/parameters/nested")
        if flag in cpuinfo and nested.exists() and nested.read_text().strip() in ("Y", "1"):
            return works() is None
    return False


def _run_one_instruction(files: list[int]) -> str | None:
    """Runs a real-mode guest with one page, whose only instruction is HLT."""
    kvm = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    files.append(kvm)
    vm = fcntl.ioctl(kvm, KVM_CREATE_VM, 0)
    files.append(vm)
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[:1] = HLT
        anchor = ctypes.c_char.from_buffer(page)
        address = ctypes.addressof(anchor)
        # slot, flags, guest_phys_addr, memory_size, userspace_addr
        fcntl.ioctl(vm, KVM_SET_USER_MEMORY_REGION, struct.pack("<IIQQQ", 0, 0, 0, mmap.PAGESIZE, address))
        vcpu = fcntl.ioctl(vm, KVM_CREATE_VCPU, 0)
        files.append(vcpu)
        sregs = bytearray(SREGS_BYTES)
        fcntl.ioctl(vcpu, KVM_GET_SREGS, sregs)
        sregs[0:8] = struct.pack("<Q", 0)  # cs.base
        sregs[12:14] = struct.pack("<H", 0)  # cs.selector
        fcntl.ioctl(vcpu, KVM_SET_SREGS, bytes(sregs))
        registers = [0] * 18
        registers[17] = RFLAGS_RESERVED  # rip, the field before it, stays 0
        fcntl.ioctl(vcpu, KVM_SET_REGS, struct.pack("<18Q", *registers))
        size = fcntl.ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0)
        with mmap.mmap(vcpu, size) as state:
            fcntl.ioctl(vcpu, KVM_RUN, 0)
            (reason,) = struct.unpack_from("<I", state, 8)  # kvm_run.exit_reason
        # the page may be released only when nothing refers to it
        del anchor
    return (
        None
        if reason == KVM_EXIT_HLT
        else f"/dev/kvm does not run guests (exit reason {reason} instead of HLT)"
    )
