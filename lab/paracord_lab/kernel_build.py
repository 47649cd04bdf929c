# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Kernels that Debian does not build, compiled from Debian's source with a configuration in lab/kernels/."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from . import cache, tree
from .errors import LabError
from .progress import Progress

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
# The names of kernels. Each ends with the series of its source.
CONFIGURATIONS = sorted(path.stem for path in KERNELS.glob("*-*.config"))
# The build needs objects with debug information, from which the BTF is made.
FREE_MB = 8000


def ensure(name: str) -> Path:
    """
    Returns the directory of the kernel `name` (one of CONFIGURATIONS), for images.with_kernel() and
    LAB_KERNEL.

    Compiles the kernel if it does not exist, which takes a quarter of an hour on two CPUs. x86-64
    only.
    """
    if platform.machine() != "x86_64":
        raise LabError(f"the kernel {name} is compiled on x86-64 machines only")
    sources = tree.ensure(f"kernel-source-{name.rpartition('-')[2]}")
    files = [KERNELS / file for file in ("host.config", f"{name}.config", "compile")]
    inputs = {"tree": sources.name, "sources": cache.files_digest(files)}

    def build(directory: Path, _: Progress) -> None:
        cache.need_free(directory, FREE_MB, f"the kernel {name}")
        work = directory / "work"
        work.mkdir()
        binds = {"/mnt/kernels": KERNELS, "/mnt/work": work, "/mnt/out": directory}
        tree.run_in(sources, ["/mnt/kernels/compile", name], binds, what=f"compiling the kernel {name}")
        shutil.rmtree(work)

    return cache.ensure(f"kernel-{name}", "x86_64", inputs, f"the kernel {name}", build)
