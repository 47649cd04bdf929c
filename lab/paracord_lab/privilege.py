# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Root's part in the lab and the user's.

The lab needs root for trees (mmdebstrap, chroot), images and emulated hosts. Called by a user it runs itself
again under sudo. Root then works for that user: in the user's cache, with the user's Rust, and the files in
the clone are the user's in the end.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError

CLONE = Path(__file__).resolve().parents[2]
# What is made in the clone; `target` may be a link, which is not followed.
MADE = ("target", "out", ".venv", ".pytest_cache", ".ruff_cache")
SOURCES_IN_PYTHON = ("lab", "bench")
WHY = "the lab makes root file systems and runs emulated hosts (files in this clone stay yours)"


def user() -> pwd.struct_passwd | None:
    """Who called sudo, if the clone is theirs; setup/as-user has the same rule. Otherwise None."""
    uid = int(os.environ.get("SUDO_UID") or 0)
    if os.geteuid() != 0 or uid == 0 or CLONE.stat().st_uid != uid:
        return None
    return pwd.getpwuid(uid)


def home() -> Path:
    """Home directory of the user for whom the lab works: under sudo HOME is root's."""
    caller = user()
    return Path(caller.pw_dir) if caller else Path.home()


def ask_root(arguments: Sequence[str]) -> None:
    """Does not return unless the process is root: `python -m paracord_lab` starts again under sudo."""
    if os.geteuid() == 0:
        return
    # sudo drops PYTHONPATH whatever it is told.
    path = f"PYTHONPATH={CLONE / 'lab'}"
    command = ["env", path, sys.executable, "-m", "paracord_lab", *arguments]
    os.execv(CLONE / "setup/as-root", ["as-root", WHY, *command])


def need_root() -> None:
    """For what is called without the command line's ask_root(): tests."""
    if os.geteuid() != 0:
        raise LabError(
            "the lab makes root file systems and images: `make test-lab` asks for root, or use sudo"
        )


def make_directory(path: Path) -> None:
    """A directory and those above it that are missing, for the user."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    caller = user()
    if caller:
        os.chown(path, caller.pw_uid, caller.pw_gid)


def give_back_clone() -> None:
    """What root made in the clone becomes the user's; other files of root's there are left alone."""
    compiled = (path for name in SOURCES_IN_PYTHON for path in (CLONE / name).rglob("__pycache__"))
    for path in (*(CLONE / name for name in MADE), *compiled):
        if path.is_symlink() or path.exists():
            give_back(path)


def give_back(directory: Path, leave_out: str = "") -> None:
    """What root made in a directory becomes the user's, except in subdirectories of a name (a pattern)."""
    caller = user()
    if not caller:
        return
    skipped = ["-type", "d", "-name", leave_out, "-prune", "-o"] if leave_out else []
    chown = ["chown", "--no-dereference", f"{caller.pw_uid}:{caller.pw_gid}"]
    command = ["find", directory, "-xdev", *skipped, "-uid", "0", "-exec", *chown, "{}", "+"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:  # files that go away meanwhile are no reason to fail
        print(f"lab: {done.stderr.strip().splitlines()[0]}", file=sys.stderr)
