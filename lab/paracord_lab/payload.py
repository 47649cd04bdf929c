# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
paracord's own programs for the machines. They are built from this repository, and never part of an
image.

The payload directory is /payload in the host:

bin/paracord          the daemon and its commands
bin/paracord-vmm      the small VMM
bin/*                 programs of lab/programs
modules/*             drivers of lab/boards
guest.cpio            guest's initramfs: the cached one, and behind it the module and the programs
guest-perf.cpio       the same with Debian's perf behind it, once a guest has asked for it
vmlinux               the guest's kernel

In the guest, the module is /paracord/paracord_guest.ko. The programs are in /paracord, too, and so
are the test modules of lab/programs and, on arm64, Linux' own virtual-cpufreq.ko.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import boards, cache, rust, sched_ext, tree, upstream
from .errors import LabError
from .images import LAB, Images, perf_initramfs
from .kernel import Initramfs
from .progress import Progress
from .rust import REPOSITORY
from .tree_specs import cross_prefix

# The directories that a module build reads: its own one, and those of shared headers.
MODULE_SOURCES = ("guest", "abi", "policy")
BPF_FLAGS = ("--target=bpf", "-O2", "-g", "-mcpu=v3")
PROGRAM_FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-static", "-pthread", "-D_GNU_SOURCE")


def build(images: Images) -> Path:
    """
    Builds everything that has changed, and returns the payload directory. Raises LabError with the
    compiler's message.
    """
    work = REPOSITORY / "target" / "lab" / images.arch
    payload = work / "payload"
    for directory in ("bin", "modules"):
        (payload / directory).mkdir(parents=True, exist_ok=True)
    tools = tree.ensure("tools", images.arch)
    with cache.file_lock(work / "lock", "the payload"):
        for binary in rust.binaries(images.arch):
            _install(binary, payload / "bin" / binary.name)
        modules = _kernel_modules(images, tools, work)
        for driver in _board_drivers(images, tools, work):
            _install(driver, payload / "modules" / driver.name)
        programs = _programs(images.arch, tools, work)
        for program in (*programs, _plain_scheduler(images.arch, tools, work)):
            _install(program, payload / "bin" / program.name)
        _guest_files(images, modules, programs, payload)
    return payload


def add_perf(payload: Path, arch: str) -> None:
    """Makes guest-perf.cpio from the existing guest.cpio."""
    perf = perf_initramfs(arch).read_bytes()
    with cache.file_lock(payload.parent / "lock", "the payload"):
        _write(payload / "guest-perf.cpio", (payload / "guest.cpio").read_bytes() + perf)


def _kernel_modules(images: Images, tools: Path, work: Path) -> list[Path]:
    """The guest module, test modules of lab/programs and Linux' driver, for the kernel that guests run."""
    sources = [REPOSITORY / name for name in MODULE_SOURCES]
    modules = _build_module(images, tools, work / "guest-build", sources, "guest")
    for directory in sorted(p.parent for p in (LAB / "programs").glob("*/Kbuild")):
        modules += _build_module(
            images, tools, work / f"{directory.name}-build", [directory, REPOSITORY / "abi"], directory.name
        )
    if images.arch in upstream.ARCHITECTURES:
        source = upstream.virtual_cpufreq(images.arch, images.release)
        modules += _build_module(images, tools, work / f"{source.name}-build", [source], source.name)
    return modules


def _board_drivers(images: Images, tools: Path, work: Path) -> list[Path]:
    drivers = []
    for directory in boards.of_architecture(images.arch):
        sources = [directory, boards.INCLUDE]
        drivers += _build_module(images, tools, work / f"{directory.name}-build", sources, directory.name)
    return drivers


def _build_module(images: Images, tools: Path, build_dir: Path, sources: list[Path], name: str) -> list[Path]:
    files = [
        path
        for source in sources
        for path in source.rglob("*")
        if path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile")
    ]
    if not any(path.name in ("Kbuild", "Makefile") for path in files):
        raise LabError(f"{sources[0]} has no Kbuild file: the checkout is not complete")
    stamp = build_dir / "stamp"
    want = cache.key([cache.files_digest(files), images.release, tools.name])
    if not (stamp.is_file() and stamp.read_text() == want):
        shutil.rmtree(build_dir, ignore_errors=True)
        for source in sources:
            ignore = shutil.ignore_patterns(
                "*.o", "*.ko", "*.mod", "*.mod.c", "*.cmd", "Module.symvers", "modules.order"
            )
            shutil.copytree(source, build_dir / source.name, ignore=ignore)
        with Progress(f"building the {name} module for {images.release}"):
            kernel = f"/lib/modules/{images.release}/build"
            prefix = cross_prefix(images.arch)
            tree.run_in(
                tools,
                [
                    "make",
                    "-C",
                    kernel,
                    f"M=/mnt/{name}",
                    f"-j{os.cpu_count()}",
                    "CONFIG_DEBUG_INFO_BTF_MODULES=",
                    *([f"CROSS_COMPILE={prefix}"] if prefix else []),
                    "modules",
                ],
                {f"/mnt/{source.name}": build_dir / source.name for source in sources},
                what=f"building the {name} module",
            )
        stamp.write_text(want)
    built = sorted((build_dir / name).glob("*.ko"))
    if not built:
        raise LabError(f"building {name} made no kernel module")
    return built


def _programs(arch: str, tools: Path, work: Path) -> list[Path]:
    """Compiles lab/programs/*.c into one static program each, which runs in the host and in the guest."""
    sources = sorted((LAB / "programs").glob("*.c"))
    headers = sorted([*(LAB / "programs").rglob("*.h"), *boards.INCLUDE.glob("*.h")])
    out = work / "programs"
    out.mkdir(parents=True, exist_ok=True)
    built = []
    for source in sources:
        program = out / source.stem
        want = cache.key(
            [
                cache.files_digest([source, *headers, REPOSITORY / "abi/paracord_abi.h"]),
                PROGRAM_FLAGS,
                tools.name,
            ]
        )
        _compile(
            tools,
            program,
            want,
            [
                f"{cross_prefix(arch)}gcc",
                *PROGRAM_FLAGS,
                "-I/mnt/abi",
                "-I/mnt/include",
                *("-o", f"/mnt/out/{source.stem}", f"/mnt/programs/{source.name}", "-lm"),
            ],
            {
                "/mnt/programs": LAB / "programs",
                "/mnt/abi": REPOSITORY / "abi",
                "/mnt/include": boards.INCLUDE,
                "/mnt/out": out,
            },
            what=f"compiling lab/programs/{source.name}",
        )
        built.append(program)
    return built


def _compile(
    tools: Path, made: Path, want: str, command: list[str], mounts: dict[str, Path], what: str
) -> None:
    """
    Runs the command in the tree `tools`, unless it has already made this file from the same inputs
    (`want`).
    """
    stamp = made.with_name(f"{made.name}.stamp")
    if not (made.is_file() and stamp.is_file() and stamp.read_text() == want):
        tree.run_in(tools, command, mounts, what=what)
        stamp.write_text(want)


def _plain_scheduler(arch: str, tools: Path, work: Path) -> Path:
    """Compiles the BPF object that sched_ext.plain() registers."""
    sources = REPOSITORY / "bpf"
    made, source = work / sched_ext.PLAIN, sources / "tests/plain.bpf.c"
    want = cache.key([cache.files_digest([source, *sources.glob("*.h")]), BPF_FLAGS, tools.name])
    target = f"-D__TARGET_ARCH_{'x86' if arch == 'x86_64' else 'arm64'}"
    output = ("-o", f"/mnt/out/{made.name}", "-c", "/mnt/bpf/tests/plain.bpf.c")
    _compile(
        tools,
        made,
        want,
        ["clang-19", *BPF_FLAGS, target, *output],
        {"/mnt/bpf": sources, "/mnt/out": work},
        what=f"compiling {source.name}",
    )
    return made


def _guest_files(images: Images, modules: list[Path], programs: list[Path], payload: Path) -> None:
    own = Initramfs()
    for module in modules:
        own.file(f"paracord/{module.name}", module.read_bytes(), 0o644)
    for program in programs:
        own.file(f"paracord/{program.name}", program.read_bytes())
    _write(payload / "guest.cpio", images.guest_initramfs.read_bytes() + own.archive())
    _install(images.kernel, payload / "vmlinux")


def _install(source: Path, target: Path) -> None:
    """
    Copies a file if the content's age or size differs. A running machine keeps the old file that it
    has opened.
    """
    have = target.stat() if target.exists() else None
    new = source.stat()
    if have and (have.st_size, have.st_mtime_ns) == (new.st_size, new.st_mtime_ns):
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.copy2(source, partial)
    partial.replace(target)


def _write(target: Path, data: bytes) -> None:
    if target.is_file() and target.stat().st_size == len(data) and target.read_bytes() == data:
        return
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(data)
    partial.replace(target)
