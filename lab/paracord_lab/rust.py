# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Builds paracord's own programs with cargo, for this machine or for an emulated one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .errors import LabError
from .images import LAB
from .progress import Progress
from .tree_specs import cross_prefix, is_foreign

REPOSITORY = LAB.parent
CARGO_PATH = f"{Path.home() / '.cargo/bin'}:{os.environ.get('PATH', '')}"


def cargo(*arguments: str, **environment: str) -> str:
    """Output of cargo, run on this repository. Raises LabError with its message."""
    program = shutil.which("cargo", path=CARGO_PATH)
    if not program:
        raise LabError("cargo is missing: run `make setup`")
    done = subprocess.run(
        [program, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment, "PATH": CARGO_PATH},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"cargo {arguments[0]} failed:\n{done.stderr.strip()[-3000:]}")
    return done.stdout


# The packages whose binaries, of the same names, run in the machines.
PACKAGES = ("paracord", "paracord-vmm")


def binaries(arch: str) -> list[Path]:
    """PACKAGES built in release mode; where cargo is not to be had, what was built before."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    triple = f"{arch}-unknown-linux-gnu"
    built = [target / (triple if is_foreign(arch) else "") / "release" / name for name in PACKAGES]
    if not shutil.which("cargo", path=CARGO_PATH):
        for missing in (path for path in built if not path.is_file()):
            raise LabError(f"cargo is missing and {missing} was not built: run `make build` first")
        return built
    command = ["build", "--release", "--locked", *(f"-p={package}" for package in PACKAGES)]
    if not is_foreign(arch):
        with Progress("building paracord"):
            cargo(*command)
        return built
    with Progress(f"building paracord ({arch})"):
        _set_up(arch)
        compiler = f"{cross_prefix(arch)}gcc"
        # Names that cargo and the build scripts of C libraries look for.
        linker = f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER"
        cargo(*command, "--target", triple, **{linker: compiler, f"CC_{triple.replace('-', '_')}": compiler})
    return built


def _set_up(arch: str) -> None:
    done = subprocess.run([REPOSITORY / "setup.sh", arch], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError((done.stderr.strip().splitlines() or [f"setup.sh {arch} failed"])[-1])
