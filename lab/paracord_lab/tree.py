# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Debian trees: the tools (compilers, QEMU), the host's disk, and headers of several kernels.

A tree is a root file system made by mmdebstrap. `enter()` runs a program in one with private mounts,
so nothing stays mounted whatever happens to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import cache, mirror
from .errors import LabError
from .progress import Progress

DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
QEMU_PACKAGES = {"x86_64": ("qemu-system-x86", "seabios"), "aarch64": ("qemu-system-arm", "ipxe-qemu")}
SCRIPTS = Path(__file__).resolve().parent.parent / "init"
# A tree needs up to 1.3 GB; an image of it as much again.
TREE_FREE_MB = 3000
# Kernel modules of hardware that no lab machine has; without them the host's disk is 400 MB smaller.
MODULES_LEFT_OUT = (
    "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/net/ethernet", "drivers/infiniband",
    "drivers/staging", "drivers/scsi", "drivers/iio", "drivers/usb", "drivers/hid", "drivers/mtd",
    "drivers/input", "drivers/hwmon", "drivers/isdn", "drivers/bluetooth", "net/bluetooth", "net/wireless",
    "net/mac80211", "sound", "fs/xfs", "fs/btrfs", "fs/ocfs2", "fs/f2fs", "fs/bcachefs", "fs/nfsd",
)  # fmt: skip


@dataclass(frozen=True)
class TreeSpec:
    """What goes into a tree.

    kernels: (suite, metapackage) pairs, resolved when the tree is made; `linux-headers-*` are installed,
    `linux-image-*` are only unpacked (their scripts would build an initramfs that nobody needs).
    """

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]
    kernels: tuple[tuple[str, str], ...] = ()


def tools_spec(arch: str) -> TreeSpec:
    """Compilers for modules, BPF and the programs, and the emulator."""
    return TreeSpec(
        name="tools",
        suites=("trixie", "trixie-backports"),
        packages=(
            *(
                "gcc",
                "gcc-14",
                "libc6-dev",
                "make",
                "binutils",
                "bc",
                "pkg-config",
                "dwarves",
                "sparse",
                "dkms",
            ),
            *("clang-19", "llvm-19", "lld-19", "bpftool", "libbpf-dev", "libelf-dev", "zlib1g-dev"),
            *("busybox-static", "kmod", "cpio", "zstd", "xz-utils", "procps", "bsdextrautils"),
            *QEMU_PACKAGES[arch],
        ),
        kernels=(("trixie-backports", f"linux-headers-{DEBIAN_ARCH[arch]}"),),
    )


def host_spec(arch: str) -> TreeSpec:
    """The emulated host's user space: QEMU for the guests, load and measuring programs."""
    return TreeSpec(
        name="host",
        suites=("trixie", "trixie-backports"),
        packages=(
            *("bash", "busybox-static", "kmod", "iproute2", "procps", "util-linux", "socat", "bpftool"),
            *("rt-tests", "stress-ng", "make", "tcc", "trace-cmd", "libelf1t64", "systemd"),
            *QEMU_PACKAGES[arch],
        ),
        kernels=(("trixie-backports", f"linux-image-{DEBIAN_ARCH[arch]}"),),
    )


def matrix_spec(arch: str) -> TreeSpec:
    """Headers of every Debian kernel that the guest module must build against, their compilers, DKMS."""
    headers = f"linux-headers-{DEBIAN_ARCH[arch]}"
    return TreeSpec(
        name="matrix",
        suites=("trixie", "trixie-backports", "bookworm"),
        packages=("gcc", "gcc-14", "gcc-12", "libc6-dev", "make", "binutils", "kmod", "bc", "sparse", "dkms"),
        kernels=(("bookworm", headers), ("trixie", headers), ("trixie-backports", headers)),
    )


SPECS = {"tools": tools_spec, "host": host_spec, "matrix": matrix_spec}


def ensure(name: str, arch: str = "x86_64") -> Path:
    """The tree `name` ("tools", "host", "matrix") for an architecture, made now when missing.

    When the mirror cannot be asked, the newest tree made before is used, and that is said.
    """
    spec = SPECS[name](arch)
    try:
        resolved = [mirror.resolve(suite, meta, DEBIAN_ARCH[arch]) for suite, meta in spec.kernels]
    except mirror.MirrorUnreachable as error:
        entry = cache.newest(f"tree-{name}", arch)
        if not entry:
            raise
        print(f"lab: {error}; using {entry.name} made before", flush=True)
        return entry
    inputs = {**asdict(spec), "resolved": resolved}
    if any(package.startswith("linux-image-") for package in resolved):
        inputs["left_out"] = MODULES_LEFT_OUT
        inputs["unpack"] = cache.files_digest([SCRIPTS / "unpack-kernel"])

    def build(directory: Path, progress: Progress) -> None:
        _bootstrap(spec, resolved, DEBIAN_ARCH[arch], directory, progress)

    return cache.ensure(f"tree-{name}", arch, inputs, f"the {name} tree ({arch})", build)


def kernel_versions(tree: Path) -> list[str]:
    """Kernel releases that a tree has modules or headers of."""
    modules = tree / "usr/lib/modules"
    return sorted(p.name for p in modules.iterdir()) if modules.is_dir() else []


def kernel_of(tree: Path) -> str:
    """The one kernel release of a tools or host tree."""
    versions = kernel_versions(tree)
    if len(versions) != 1:
        raise LabError(
            f"{tree} has {len(versions)} kernels, expected one: remove the directory and try again"
        )
    return versions[0]


def header_dirs(arch: str = "x86_64") -> list[tuple[str, str]]:
    """(release, header directory inside the matrix tree) of every kernel of the build matrix."""
    return [(version, f"/lib/modules/{version}/build") for version in kernel_versions(ensure("matrix", arch))]


def enter(
    tree: Path, argv: Sequence[str], binds: Mapping[str, Path] | None = None, cwd: str = "/"
) -> list[str]:
    """The command line that runs `argv` inside a tree.

    binds: directory or file below /mnt in the tree -> path outside. All mounts are private to the command.
    The program keeps the process id of the command, inherits its files, and dies with the process that
    started it.
    """
    steps = ['mount --rbind /proc "$0/proc"', 'mount --rbind /dev "$0/dev"', 'mount -t tmpfs tmpfs "$0/mnt"']
    steps += ['mount -t tmpfs tmpfs "$0/tmp"']
    for inside, outside in (binds or {}).items():
        if not inside.startswith("/mnt/"):
            raise ValueError(f"{inside}: binds go below /mnt")
        if Path(outside).is_dir():
            steps.append(f'mkdir -p "$0{inside}"')
        else:
            steps.append(f'mkdir -p "$0{Path(inside).parent}"; : > "$0{inside}"')
        steps.append(f'mount --rbind {_quote(str(Path(outside).resolve()))} "$0{inside}"')
    steps.append(f'tree=$0; cd /; exec chroot "$tree" /usr/bin/env -C {_quote(cwd)} "$@"')
    return [
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-ec", "\n".join(steps), str(tree)),
        *argv,
    ]


def run_in(
    tree: Path, argv: Sequence[str], binds: Mapping[str, Path] | None = None, cwd: str = "/", what: str = ""
) -> str:
    """Runs a build step in a tree to its end; its output. Raises LabError with the last lines of it."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(enter(tree, argv, binds, cwd), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise LabError(f"{what or argv[0]} failed (exit code {done.returncode}):\n{tail}")
    return done.stdout


def need_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab makes root file systems and images: run it as root (sudo)")


def _bootstrap(
    spec: TreeSpec, resolved: list[str], debian_arch: str, directory: Path, progress: Progress
) -> None:
    need_root()
    if not shutil.which("mmdebstrap"):
        raise LabError("mmdebstrap is missing: apt-get install mmdebstrap")
    free_mb = shutil.disk_usage(directory).free >> 20
    if free_mb < TREE_FREE_MB:
        raise LabError(
            f"the disk is nearly full: {free_mb} MB free at {directory.parent}, the {spec.name} tree needs "
            f"{TREE_FREE_MB} MB: free some or set PARACORD_CACHE"
        )
    headers = [package for package in resolved if package.startswith("linux-headers-")]
    images = [package for package in resolved if package.startswith("linux-image-")]
    argv = [
        *("mmdebstrap", "--mode=root", "--variant=minbase", f"--architectures={debian_arch}"),
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=APT::Install-Recommends "false"',
        f"--include={','.join([*spec.packages, *headers])}",
    ]
    left_out = ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in left_out]
    env = dict(os.environ, MODULES_LEFT_OUT=" ".join(MODULES_LEFT_OUT))
    for package in images:
        env["KERNEL_IMAGE"] = package
        argv.append(f"--customize-hook={SCRIPTS / 'unpack-kernel'}")
    argv += [spec.suites[0], str(directory), *mirror.sources(spec.suites)]
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    errors: list[str] = []
    try:
        assert process.stderr
        for line in process.stderr:
            line = line.strip()
            if line.startswith("I: "):
                progress.note(line[3:])
            elif line and not line.startswith("W: "):
                errors.append(line)
        code = process.wait()
    finally:
        if process.poll() is None:  # interrupted: mmdebstrap unmounts what it mounted
            process.terminate()
            process.wait()
    if code != 0:
        if shutil.disk_usage(directory.parent).free < (64 << 20):
            raise OSError(28, "No space left on device", str(directory))
        kept = cache.root() / f"tree-{spec.name}.log"
        kept.write_text("\n".join(errors) + "\n")
        first = next(
            (e for e in errors if e.startswith("E: ") and "subprocess" not in e), (errors or ["?"])[-1]
        )
        raise LabError(f"mmdebstrap could not make the {spec.name} tree: {first} (all of it: {kept})")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
