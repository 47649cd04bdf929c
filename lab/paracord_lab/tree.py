# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Trees of Debian packages: one with the tools (compilers, QEMU), and others for the host's disk, for
the headers of several kernels, and for kernels.

A tree is a root file system made by mmdebstrap. `enter()` runs a program in a tree with private
mounts, so nothing stays mounted, however the program ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from pwd import struct_passwd

from . import bootstrap, cache, mirror
from .errors import LabError
from .progress import Progress
from .tree_specs import DEBIAN_ARCH, SPECS, TreeSpec

NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")


def ensure(name: str, arch: str = "x86_64") -> Path:
    """Returns the tree `name` (a key of SPECS) for an architecture. Makes it if it does not exist.

    If the mirror cannot be asked, the newest existing tree is used, and a message says so.
    """
    return ensure_spec(SPECS[name](arch), arch)


def ensure_spec(spec: TreeSpec, arch: str) -> Path:
    """The same for any specification."""
    name = spec.name
    try:
        resolved = [mirror.resolve(suite, meta, DEBIAN_ARCH[arch]) for suite, meta in spec.kernels]
    except mirror.MirrorUnreachable as error:
        entry = cache.newest(f"tree-{name}", arch)
        if not entry:
            raise
        print(f"lab: {error}; using {entry.name} made before", file=sys.stderr, flush=True)
        return entry
    inputs = {**asdict(spec), "resolved": resolved}
    if any(package.startswith("linux-image-") for package in resolved):
        inputs["left_out"] = bootstrap.MODULES_LEFT_OUT
        inputs["hooks"] = bootstrap.hooks_digest()

    def build(directory: Path, progress: Progress) -> None:
        bootstrap.make(spec, resolved, directory, progress)

    return cache.ensure(f"tree-{name}", arch, inputs, f"the {name} tree ({arch})", build)


def kernel_versions(tree: Path) -> list[str]:
    """The kernel releases for which a tree has modules or headers."""
    modules = tree / "usr/lib/modules"
    return sorted(p.name for p in modules.iterdir()) if modules.is_dir() else []


def kernel_of(tree: Path) -> str:
    """The only kernel release of a tools or host tree."""
    versions = kernel_versions(tree)
    if len(versions) != 1:
        raise LabError(
            f"{tree} has {len(versions)} kernels, expected one: remove the directory and try again"
        )
    return versions[0]


def header_dirs(arch: str = "x86_64") -> list[tuple[str, str]]:
    """(release, header directory inside the matrix tree) for every kernel of the build matrix."""
    return [(version, f"/lib/modules/{version}/build") for version in kernel_versions(ensure("matrix", arch))]


def enter(
    tree: Path,
    argv: Sequence[str],
    binds: Mapping[str, Path] | None = None,
    cwd: str = "/",
    user: struct_passwd | None = None,
    network: bool = False,
    capabilities: str = "",
) -> list[str]:
    """The command line that runs `argv` inside a tree.

    binds: directory or file below /mnt in the tree -> path outside. All mounts are private to the
    command. user: who runs it, instead of root. capabilities: of this user ("+perfmon"). network:
    names are resolved as on this machine. The program has the process ID of the command, inherits
    its files, and dies together with the process that started it.
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
    for name in NETWORK_FILES if network else ():
        outside = Path(name).resolve()
        if outside.is_file():
            steps.append(f'[ -e "$0{name}" ] || : > "$0{name}"')
            steps.append(f'mount --bind {_quote(str(outside))} "$0{name}"')
    who = f"/usr/bin/setpriv --reuid={user.pw_uid} --regid={user.pw_gid} --clear-groups " if user else ""
    if user and capabilities:
        who += f"--inh-caps={_quote(capabilities)} --ambient-caps={_quote(capabilities)} "
    steps.append(f'tree=$0; cd /; exec chroot "$tree" {who}/usr/bin/env -C {_quote(cwd)} "$@"')
    return [
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-ec", "\n".join(steps), str(tree)),
        *argv,
    ]


def run_in(
    tree: Path, argv: Sequence[str], binds: Mapping[str, Path] | None = None, cwd: str = "/", what: str = ""
) -> str:
    """
    Runs a build step in a tree until it ends, and returns its output. Raises LabError with the last
    lines of it.
    """
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(enter(tree, argv, binds, cwd), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise LabError(f"{what or argv[0]} failed (exit code {done.returncode}):\n{tail}")
    return done.stdout


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
