# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The files from which machines boot: the host's disk, kernel and initramfs, and the guest's
initramfs.

Nothing here depends on paracord's own code (see payload.py), so a change of the code never makes an
image anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from . import agent, cache, elf, privilege, tree
from .errors import LabError
from .kernel import Initramfs, boot_image, decompress, modules_with_dependencies, read_module
from .progress import Progress

LAB = Path(__file__).resolve().parent.parent
# The modules in the host's initramfs. The host loads all others from its disk.
HOST_EARLY_MODULES = ("virtio_pci", "virtio_blk", "ext4")
# If the disk has no modules for the kernel, the initramfs contains everything that host-init loads,
# and the module that ext4 requests.
FURTHER_MODULES = ("virtio_console", "9pnet_virtio", "9p")
# Kernels before 6.14 load this module by name for ext4.
CRC_MODULE, CRC_UNTIL = "crc32c_generic", (6, 14)
KVM_MODULES = {"x86_64": ("kvm-amd",), "aarch64": ()}
# The governors are there for guests that request performance from their hosts (test_cpufreq.py).
GUEST_MODULES = (
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "virtio_net",
    "cpufreq_userspace",
    "cpufreq_ondemand",
)
# Modules that a guest has, but loads only when it is told to (Guest.load_kernel_module()).
LATER_GUEST_MODULES = {"x86_64": ("virtio_snd",), "aarch64": ()}
# Programs of the host tree that are also in a guest. Their libraries are found and packed, too.
GUEST_PROGRAMS = ("/usr/bin/cyclictest", "/usr/bin/hackbench")
# Programs of the tree `perf`, for guests that ask for them. perf annotate starts the second one.
PERF_PROGRAMS = ("/usr/bin/perf", "/usr/bin/objdump")
GUEST_APPLET_DIRECTORY = "bin"
SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Images:
    """Paths on the machine that runs the lab. release: kernel release of host and guest."""

    arch: str
    release: str
    kernel: Path
    host_disk: Path
    host_initramfs: Path
    guest_initramfs: Path


def ensure(arch: str = "x86_64") -> Images:
    """Returns all images of an architecture. Makes them if they do not exist."""
    host_tree, tools = tree.ensure("host", arch), tree.ensure("tools", arch)
    release = tree.kernel_of(host_tree)
    if tree.kernel_of(tools) != release:
        raise LabError(
            f"host kernel {release} and headers {tree.kernel_of(tools)} differ: the mirror changed while "
            "trees were made; run the setup again"
        )
    sources = [agent.SOURCE, *(LAB / "init").glob("*-init*")]
    disk = cache.ensure(
        "host-disk",
        arch,
        {
            "tree": host_tree.name,
            "sources": cache.files_digest([agent.SOURCE, LAB / "init/host-init"]),
        },
        f"the emulated host's disk ({arch})",
        lambda directory, progress: _host_disk(host_tree, arch, directory, progress),
    )
    boot = cache.ensure(
        "boot",
        arch,
        {
            "tree": host_tree.name,
            "sources": cache.files_digest([*sources, Path(__file__), LAB / "paracord_lab/kernel.py"]),
        },
        f"kernel and initramfs of host and guest ({arch})",
        lambda directory, progress: _boot_files(host_tree, tools, arch, release, directory, progress),
    )
    return Images(
        arch=arch,
        release=release,
        kernel=boot / "kernel",
        host_disk=disk / "host.ext4",
        host_initramfs=boot / "host.cpio",
        guest_initramfs=boot / "guest.cpio",
    )


def with_kernel(files: Images, kernel: Path) -> Images:
    """
    The same images, but with another kernel for the host. The guests keep their kernel.

    kernel: a directory with boot/vmlinuz-RELEASE (a bzImage or an ELF file) and
    usr/lib/modules/RELEASE of one release, as in a tree.
    """
    arch = files.arch
    release = tree.kernel_of(kernel)
    modules = [*HOST_EARLY_MODULES, *FURTHER_MODULES, *KVM_MODULES[arch]]
    if tuple(map(int, release.split(".")[:2])) < CRC_UNTIL:
        modules.append(CRC_MODULE)
    loaded = modules_with_dependencies(kernel / "usr/lib/modules" / release, modules)
    host_tree = tree.ensure("host", arch)

    def build(directory: Path, _: Progress) -> None:
        (directory / "kernel").write_bytes(decompress(boot_image(kernel, release).read_bytes()))
        (directory / "host.cpio").write_bytes(_host_initramfs(host_tree, kernel, release, modules))

    inputs = {
        "tree": host_tree.name,
        "kernel": cache.files_digest([boot_image(kernel, release), *loaded]),
        "sources": cache.files_digest(
            [LAB / "init/host-initramfs", Path(__file__), LAB / "paracord_lab/kernel.py"]
        ),
    }
    boot = cache.ensure("boot-other", arch, inputs, f"kernel {release} and its initramfs", build)
    return replace(files, release=release, kernel=boot / "kernel", host_initramfs=boot / "host.cpio")


def perf_initramfs(arch: str) -> Path:
    """
    The archive that is appended to a guest's initramfs if the guest needs perf. It is a separate
    file because it is large.
    """
    perf_tree, tools = tree.ensure("perf", arch), tree.ensure("tools", arch)

    def build(directory: Path, _: Progress) -> None:
        archive = Initramfs()
        _add_programs(archive, tools, perf_tree, PERF_PROGRAMS)
        (directory / "perf.cpio").write_bytes(archive.archive())

    sources = [Path(__file__), LAB / "paracord_lab/elf.py", LAB / "paracord_lab/kernel.py"]
    inputs = {"tree": perf_tree.name, "sources": cache.files_digest(sources)}
    return cache.ensure("perf", arch, inputs, f"perf for guests ({arch})", build) / "perf.cpio"


def _host_disk(host_tree: Path, arch: str, directory: Path, progress: Progress) -> None:
    """
    Makes an ext4 image of the tree with mke2fs, without mounting anything and without a journal.
    """
    privilege.need_root()
    # The lab's files are added to the tree itself, because the tree is used only for this image.
    own = host_tree / "lab"
    own.mkdir(exist_ok=True)
    for name in ("payload", "share", "logs", "etc/paracord"):
        (host_tree / name).mkdir(exist_ok=True)
    shutil.copyfile(agent.ensure(arch), own / "lab-agent")
    (own / "lab-agent").chmod(0o755)
    (own / "host-init").write_bytes((LAB / "init/host-init").read_bytes())
    (own / "host-init").chmod(0o755)
    used_bytes = int(
        subprocess.run(
            ["du", "-s", "-B1", host_tree], capture_output=True, text=True, check=True
        ).stdout.split()[0]
    )
    progress.note("mke2fs")
    made = subprocess.run(
        [
            *("/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", "lab-host"),
            *(
                "-d",
                str(host_tree),
                str(directory / "host.ext4"),
                f"{(used_bytes * 11 // 10 + SPARE_BYTES) >> 10}k",
            ),
        ],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise LabError(f"mke2fs could not make the host's disk: {made.stderr.strip().splitlines()[-1]}")


def _boot_files(
    host_tree: Path, tools: Path, arch: str, release: str, directory: Path, progress: Progress
) -> None:
    progress.note("kernel")
    (directory / "kernel").write_bytes(decompress(boot_image(host_tree, release).read_bytes()))
    progress.note("initramfs")
    (directory / "host.cpio").write_bytes(_host_initramfs(host_tree, host_tree, release, HOST_EARLY_MODULES))
    guest = _guest_initramfs(host_tree, tools, arch, release)
    (directory / "guest.cpio").write_bytes(guest)


def _add_modules(
    archive: Initramfs, kernel: Path, release: str, wanted: tuple[str, ...], order: str = "order"
) -> None:
    """
    Adds modules and the modules that they need. `order` is the file that lists them in the order of
    loading.
    """
    files = modules_with_dependencies(kernel / "usr/lib/modules" / release, wanted)
    names = [re.sub(r"\.ko.*", ".ko", path.name) for path in files]
    for path, name in zip(files, names, strict=True):
        archive.file(f"modules/{name}", read_module(path), 0o644)
    archive.file(f"modules/{order}", ("\n".join(names) + "\n").encode(), 0o644)


def _base_archive(host_tree: Path) -> Initramfs:
    archive = Initramfs()
    for name in ("dev", "proc", "sys", "root", "tmp", "run", "etc", "bin"):
        archive.directory(name)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", (host_tree / "usr/bin/busybox").read_bytes())
    return archive


def _host_initramfs(host_tree: Path, kernel: Path, release: str, modules: tuple[str, ...]) -> bytes:
    archive = _base_archive(host_tree)
    _add_modules(archive, kernel, release, modules)
    archive.file("init", (LAB / "init/host-initramfs").read_bytes())
    return archive.archive()


def _guest_initramfs(host_tree: Path, tools: Path, arch: str, release: str) -> bytes:
    archive = _base_archive(host_tree)
    _add_modules(archive, host_tree, release, GUEST_MODULES)
    for later in LATER_GUEST_MODULES[arch]:
        _add_modules(archive, host_tree, release, (later,), f"{later}.order")
    archive.file("init", (LAB / "init/guest-init").read_bytes())
    archive.file("paracord/lab-agent", agent.ensure(arch).read_bytes())
    archive.symlink("bin/sh", "busybox")
    archive.symlink("lib", "usr/lib")
    archive.symlink("lib64", "usr/lib64")
    _add_programs(archive, tools, host_tree, GUEST_PROGRAMS)
    return archive.archive()


def _add_programs(archive: Initramfs, tools: Path, of: Path, programs: tuple[str, ...]) -> None:
    """Adds programs of the tree `of`, and their libraries."""
    packed: set[str] = set()
    for program in programs:
        archive.file(program.lstrip("/"), (of / program.lstrip("/")).read_bytes())
        for library in elf.libraries(tools, of, program):
            if library not in packed:
                packed.add(library)
                target = Path(os.path.realpath(of / library.lstrip("/")))
                inside = library if library.startswith("/usr") else f"/usr{library}"
                archive.file(inside.lstrip("/"), target.read_bytes())
