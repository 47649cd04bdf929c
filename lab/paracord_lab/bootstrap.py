# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Makes a Debian tree with mmdebstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from . import cache, mirror, privilege
from .errors import LabError
from .progress import Progress
from .tree_specs import TreeSpec

SCRIPTS = Path(__file__).resolve().parent.parent / "init"
# A tree needs up to 1.3 GB; an image of it as much again.
TREE_FREE_MB = 3000
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# Kernel modules of hardware that no lab machine has; without them the host's disk is 400 MB smaller.
MODULES_LEFT_OUT = (
    "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/net/ethernet", "drivers/infiniband",
    "drivers/staging", "drivers/scsi", "drivers/iio", "drivers/usb", "drivers/hid", "drivers/mtd",
    "drivers/input", "drivers/hwmon", "drivers/isdn", "drivers/bluetooth", "net/bluetooth", "net/wireless",
    "net/mac80211", "sound/soc", "sound/pci", "sound/hda", "sound/usb", "sound/isa", "sound/firewire",
    "sound/drivers", "fs/xfs", "fs/btrfs", "fs/ocfs2", "fs/f2fs", "fs/bcachefs", "fs/nfsd",
)  # fmt: skip


def hooks_digest() -> str:
    """Changes when the hooks do."""
    return cache.files_digest([SCRIPTS / "unpack-kernel", SCRIPTS / "finish-unpacked"])


def make(spec: TreeSpec, kernels: list[str], directory: Path, progress: Progress) -> None:
    """Fills an empty directory. kernels: versioned packages. Raises LabError with what went wrong first."""
    privilege.need_root()
    if not shutil.which("mmdebstrap"):
        raise LabError("mmdebstrap is missing: apt-get install mmdebstrap")
    cache.need_free(directory, TREE_FREE_MB, f"the {spec.name} tree")
    errors, code = _run(_command(spec, kernels, directory), kernels, progress)
    if code != 0:
        if shutil.disk_usage(directory.parent).free < (64 << 20):
            raise OSError(28, "No space left on device", str(directory))
        kept = cache.root() / f"tree-{spec.name}.log"
        kept.write_text("\n".join(errors) + "\n")
        first = next(
            (e for e in errors if e.startswith("E: ") and "subprocess" not in e), (errors or ["?"])[-1]
        )
        raise LabError(f"mmdebstrap could not make the {spec.name} tree: {first} (all of it: {kept})")


def _command(spec: TreeSpec, kernels: list[str], directory: Path) -> list[str]:
    headers = [package for package in kernels if package.startswith("linux-headers-")]
    foreign = f":{spec.architectures[1]}" if len(spec.architectures) > 1 else ""
    packages = [*spec.packages, *(package + foreign for package in headers)]
    argv = [
        *("mmdebstrap", "--mode=root", f"--variant={'extract' if spec.unpacked else 'minbase'}"),
        f"--architectures={','.join(spec.architectures)}",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=APT::Install-Recommends "false"',
        f"--include={','.join(packages)}",
    ]
    # Variant extract ends before the stage of customize hooks.
    hook = "--extract-hook" if spec.unpacked else "--customize-hook"
    if spec.unpacked:
        argv.append(f"{hook}={SCRIPTS / 'finish-unpacked'}")
    else:
        argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    if len(headers) < len(kernels):
        argv.append(f"{hook}={SCRIPTS / 'unpack-kernel'}")
    return [*argv, spec.suites[0], str(directory), *mirror.sources(spec.suites)]


def _run(argv: list[str], kernels: list[str], progress: Progress) -> tuple[list[str], int]:
    """Runs mmdebstrap; its messages that are more than progress, and its exit code."""
    environment = dict(os.environ, MODULES_LEFT_OUT=" ".join(MODULES_LEFT_OUT), LEFT_OUT=" ".join(LEFT_OUT))
    environment["KERNEL_IMAGE"] = next((k for k in kernels if k.startswith("linux-image-")), "")
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
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
        return errors, process.wait()
    finally:
        if process.poll() is None:  # interrupted: mmdebstrap unmounts what it mounted
            process.terminate()
            process.wait()
