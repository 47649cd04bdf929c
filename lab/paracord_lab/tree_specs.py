# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The content of each Debian tree, for this machine and for the emulated architecture."""

from __future__ import annotations

import platform
from dataclasses import dataclass

DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
QEMU_PACKAGES = {"x86_64": ("qemu-system-x86", "seabios"), "aarch64": ("qemu-system-arm", "ipxe-qemu")}
# Compilers for an architecture that is not this machine's. They are installed on the machine itself
# (for paracord), and in the tools tree (for modules and programs).
CROSS_PACKAGES = {"aarch64": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")}
# Packages that every minbase tree has. A tree that is only unpacked has just the packages that are
# named.
BASE_PACKAGES = (
    *("base-files", "coreutils", "findutils", "grep", "sed", "mawk", "mount", "hostname", "diffutils"),
    *("libc-bin", "util-linux-extra", "ncurses-bin"),
)
# The part of libvirt that runs VMs, and its client.
LIBVIRT_PACKAGES = ("libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients")


@dataclass(frozen=True)
class TreeSpec:
    """The content of a tree.

    kernels: (suite, metapackage) pairs, which are resolved when the tree is made. `linux-headers-*`
    are installed. `linux-image-*` are only unpacked, because their scripts would build an initramfs
    that is not needed. architectures: Debian's names. The programs in the tree are those of the
    first architecture. unpacked: no scripts of packages are run, so the programs need not run on
    this machine.
    """

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]
    kernels: tuple[tuple[str, str], ...] = ()
    architectures: tuple[str, ...] = ()
    unpacked: bool = False


def is_foreign(arch: str) -> bool:
    """Whether this machine cannot run programs of the architecture."""
    return arch != platform.machine()


def cross_prefix(arch: str) -> str:
    """
    The prefix of the compilers for an architecture, as in package names. Empty for this machine's
    architecture.
    """
    return f"{arch}-linux-gnu-" if is_foreign(arch) else ""


def _architectures(arch: str) -> tuple[str, ...]:
    own = DEBIAN_ARCH.get(platform.machine(), DEBIAN_ARCH[arch])
    return (own, DEBIAN_ARCH[arch]) if is_foreign(arch) else (DEBIAN_ARCH[arch],)


def tools_spec(arch: str) -> TreeSpec:
    """
    Compilers for modules, BPF and programs, the emulator, and the tools that make hardware
    descriptions for a kernel.
    """
    return TreeSpec(
        name="tools",
        suites=("trixie", "trixie-backports"),
        packages=(
            *("gcc", "gcc-14", "libc6-dev", "make", "binutils", "bc", "pkg-config", "dwarves", "sparse"),
            *("dkms", "clang-19", "llvm-19", "lld-19", "bpftool", "libbpf-dev", "libelf-dev", "zlib1g-dev"),
            *("busybox-static", "kmod", "cpio", "zstd", "xz-utils", "procps", "bsdextrautils"),
            *("device-tree-compiler", "acpica-tools"),
            *QEMU_PACKAGES[arch],
            *(CROSS_PACKAGES[arch] if is_foreign(arch) else ()),
        ),
        kernels=(("trixie-backports", f"linux-headers-{DEBIAN_ARCH[arch]}"),),
        architectures=_architectures(arch),
    )


def rust_spec(arch: str) -> TreeSpec:
    """
    What setup.sh installs on machines with a recent Rust, and Rust itself, from the suite of the
    emulated hosts.
    """
    return TreeSpec(
        name="rust",
        suites=("trixie",),
        packages=(
            *("build-essential", "pkg-config", "autoconf", "automake", "autopoint", "flex", "bison", "gawk"),
            *("gettext", "libtool", "clang", "libclang-dev", "cargo", "rustc", "rustfmt", "rust-clippy"),
        ),
        architectures=(DEBIAN_ARCH[arch],),
    )


def host_spec(arch: str) -> TreeSpec:
    """
    The user space of the emulated host: QEMU for the guests, and programs that load and measure.
    """
    foreign = is_foreign(arch)
    return TreeSpec(
        name="host",
        suites=("trixie", "trixie-backports"),
        packages=(
            *("bash", "busybox-static", "kmod", "iproute2", "procps", "util-linux", "socat", "bpftool"),
            *("rt-tests", "stress-ng", "make", "tcc", "trace-cmd", "libelf1t64", "systemd"),
            *QEMU_PACKAGES[arch],
            *(BASE_PACKAGES if foreign else LIBVIRT_PACKAGES),
        ),
        kernels=(("trixie-backports", f"linux-image-{DEBIAN_ARCH[arch]}"),),
        architectures=(DEBIAN_ARCH[arch],),
        unpacked=foreign,
    )


def matrix_spec(arch: str) -> TreeSpec:
    """The headers of every Debian kernel for which the guest module must build, their compilers, and DKMS."""
    headers = f"linux-headers-{DEBIAN_ARCH[arch]}"
    return TreeSpec(
        name="matrix",
        suites=("trixie", "trixie-backports", "bookworm"),
        packages=("gcc", "gcc-14", "gcc-12", "libc6-dev", "make", "binutils", "kmod", "bc", "sparse", "dkms"),
        kernels=(("bookworm", headers), ("trixie", headers), ("trixie-backports", headers)),
        architectures=(DEBIAN_ARCH[arch],),
    )


def _kernel_spec(name: str, suite: str, flavour: str, arch: str) -> TreeSpec:
    """
    Another kernel of Debian. No program of the tree is run. flavour: what the package's name has in
    place of the architecture in `linux-image-ARCHITECTURE`, such as "rt-{}".
    """
    return TreeSpec(
        name=name,
        suites=("trixie",) if suite == "trixie" else ("trixie", suite),
        packages=("kmod",),
        kernels=((suite, f"linux-image-{flavour.format(DEBIAN_ARCH[arch])}"),),
        architectures=(DEBIAN_ARCH[arch],),
        unpacked=True,
    )


def perf_spec(arch: str) -> TreeSpec:
    """
    perf, from the suite of the guests' kernel, for guests that need it. It runs only in guests.
    """
    return TreeSpec(
        name="perf",
        suites=("trixie", "trixie-backports"),
        # apt would prefer the stable suite to its backports.
        packages=("base-files", "linux-perf/trixie-backports", "binutils"),
        architectures=(DEBIAN_ARCH[arch],),
        unpacked=True,
    )


def kernel_source_spec(arch: str, series: str, suites: tuple[str, ...]) -> TreeSpec:
    """The source of a kernel of Debian, and what is needed to compile it (kernel_build.py)."""
    return TreeSpec(
        name=f"kernel-source-{series}",
        suites=suites,
        packages=(
            *(f"linux-source-{series}", "xz-utils", "gcc", "libc6-dev", "make", "binutils", "bc"),
            *("flex", "bison", "libelf-dev", "libssl-dev", "dwarves", "python3", "kmod"),
        ),
        architectures=(DEBIAN_ARCH[arch],),
    )


SPECS = {
    "tools": tools_spec,
    "rust": rust_spec,
    "host": host_spec,
    "matrix": matrix_spec,
    # Debian's stable kernel is 6.12, and is built without sched_ext.
    "stable": lambda arch: _kernel_spec("stable", "trixie", "{}", arch),
    "preempt-rt": lambda arch: _kernel_spec("preempt-rt", "trixie-backports", "rt-{}", arch),
    # arm64 only.
    "pages-16k": lambda arch: _kernel_spec("pages-16k", "trixie-backports", "{}-16k", arch),
    "perf": perf_spec,
    # The oldest series with sched_ext, and the series that hosts run.
    "kernel-source-6.12": lambda arch: kernel_source_spec(arch, "6.12", ("trixie",)),
    "kernel-source-7.3": lambda arch: kernel_source_spec(arch, "7.3", ("trixie", "trixie-backports")),
}
