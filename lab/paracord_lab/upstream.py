# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Linux' own guest driver for virtual frequencies, unmodified: drivers/cpufreq/virtual-cpufreq.c.

Debian's kernels are built without it (CONFIG_CPUFREQ_VIRT), but contain and export everything that
it needs. The file is taken from Debian's source of the same kernel that guests run.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from . import cache, mirror
from .errors import LabError
from .progress import Progress
from .tree_specs import DEBIAN_ARCH

SUITE = "trixie-backports"
SOURCE = "drivers/cpufreq/virtual-cpufreq.c"
# The architectures that its Kconfig entry allows: they have a device tree and the frequency scale
# of arch_topology.
ARCHITECTURES = ("aarch64",)
KBUILD = "# SPDX-License-Identifier: GPL-2.0-only\nobj-m := virtual-cpufreq.o\n"
# Space for the package, for its archive of all sources, and for the data that tar keeps in between.
FREE_MB = 1000


def virtual_cpufreq(arch: str, release: str) -> Path:
    """A directory `virtual-cpufreq` with the driver of the kernel `release` and a Kbuild file for it."""
    entry = cache.ensure(
        "virtual-cpufreq",
        arch,
        {"release": release, "kbuild": KBUILD},
        f"the virtual cpufreq driver's source of {release}",
        lambda directory, progress: _extract(arch, release, directory, progress),
    )
    return entry / "virtual-cpufreq"


def series_and_version(release: str) -> tuple[str, str]:
    """Returns ("7.3", "7.3.4") for "7.3.4+deb13-arm64"."""
    found = re.match(r"(\d+\.\d+)(?:\.\d+)?", release)
    if not found:
        raise LabError(f"{release} is not a kernel release")
    return found[1], found[0]


def _extract(arch: str, release: str, directory: Path, progress: Progress) -> None:
    cache.need_free(directory, FREE_MB, "the kernel's source package")
    series, version = series_and_version(release)
    progress.note(f"linux-source-{series}")
    package = mirror.download(SUITE, f"linux-source-{series}", version, DEBIAN_ARCH[arch], directory)
    progress.note(SOURCE)
    unpack = (
        'set -o pipefail; dpkg-deb --fsys-tarfile "$1" '
        "| tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | tar -xJO --wildcards \"*/$2\""
    )
    unpacked = subprocess.run(["bash", "-c", unpack, "bash", package, SOURCE], capture_output=True)
    if unpacked.returncode != 0 or not unpacked.stdout:
        words = unpacked.stderr.decode(errors="replace").strip().splitlines()
        raise LabError(f"{package.name} has no {SOURCE}: {words[-1] if words else 'it is empty'}")
    package.unlink()
    target = directory / "virtual-cpufreq"
    target.mkdir()
    (target / Path(SOURCE).name).write_bytes(unpacked.stdout)
    (target / "Kbuild").write_text(KBUILD)
