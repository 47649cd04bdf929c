# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Builds paracord's own programs with cargo, for this machine or for an emulated one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from . import rust_tree
from .errors import LabError
from .images import LAB
from .progress import Progress
from .tree_specs import cross_prefix, is_foreign

REPOSITORY = LAB.parent


def cargo(*arguments: str, **environment: str) -> str:
    """
    Runs cargo on this repository, and returns its output. Raises LabError with cargo's message.
    """
    done = subprocess.run(
        [REPOSITORY / "setup/cargo", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"cargo {arguments[0]} failed:\n{done.stderr.strip()[-3000:]}")
    return done.stdout


def test_executables(*chosen: str) -> dict[str, Path]:
    """
    The executables of test targets and programs, built with the same profile as by `cargo test`.
    """
    out = cargo("test", "--no-run", "--locked", "--message-format=json", *chosen)
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {m["target"]["name"]: rust_tree.outside(m["executable"]) for m in messages if m.get("executable")}


# The packages whose binaries run in the machines. The binaries have the names of their packages.
PACKAGES = ("paracord", "paracord-vmm")


def binaries(arch: str, packages: tuple[str, ...] = PACKAGES) -> list[Path]:
    """The binaries of the packages, built in release mode."""
    triple = f"{arch}-unknown-linux-gnu"
    release = rust_tree.target_directory() / (triple if is_foreign(arch) else "") / "release"
    command = ["build", "--release", "--locked", *(f"-p={package}" for package in packages)]
    what = f"building {packages[0]}"
    with Progress(f"{what} ({arch})" if is_foreign(arch) else what):
        if not is_foreign(arch):
            cargo(*command)
        else:
            _set_up(arch)
            compiler = f"{cross_prefix(arch)}gcc"
            # The names of variables that cargo and the build scripts of C libraries read.
            linker = f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER"
            compilers = {linker: compiler, f"CC_{triple.replace('-', '_')}": compiler}
            cargo(*command, "--target", triple, **compilers)
    return [release / name for name in packages]


def _set_up(arch: str) -> None:
    done = subprocess.run([REPOSITORY / "setup.sh", arch], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError((done.stderr.strip().splitlines() or [f"setup.sh {arch} failed"])[-1])
