# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The parts of root and of the user in the lab.

The lab needs root for trees (mmdebstrap, chroot), images and emulated hosts. If a user calls the
lab, it starts itself again under sudo. Root then works for this user: it uses the user's cache and
the user's Rust, and at the end the files in the clone belong to the user.
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
# The directories that are made in the clone. `target` may be a link, which is not followed.
MADE = ("target", "out", ".venv", ".pytest_cache", ".ruff_cache")
SOURCES_IN_PYTHON = ("lab", "bench")
WHY = "the lab makes root file systems and runs emulated hosts (files in this clone stay yours)"


def user() -> pwd.struct_passwd | None:
    """
    The user who called sudo, if the clone belongs to that user; otherwise None. setup/as-user has
    the same rule.
    """
    uid = int(os.environ.get("SUDO_UID") or 0)
    if os.geteuid() != 0 or uid == 0 or CLONE.stat().st_uid != uid:
        return None
    return pwd.getpwuid(uid)


def home() -> Path:
    """The home directory of the user for whom the lab works. (Under sudo, HOME is root's.)"""
    caller = user()
    return Path(caller.pw_dir) if caller else Path.home()


def ask_root(arguments: Sequence[str]) -> None:
    """
    Starts `python -m paracord_lab` again under sudo, unless the process is root. In this case, the
    function does not return.
    """
    if os.geteuid() == 0:
        return
    # sudo removes PYTHONPATH, whatever its options are.
    path = f"PYTHONPATH={CLONE / 'lab'}"
    command = ["env", path, sys.executable, "-m", "paracord_lab", *arguments]
    os.execv(CLONE / "setup/as-root", ["as-root", WHY, *command])


def need_root() -> None:
    """For callers that do not use the command line's ask_root(), such as tests."""
    if os.geteuid() != 0:
        raise LabError(
            "the lab makes root file systems and images: `make test-lab` asks for root, or use sudo"
        )


def make_directory(path: Path) -> None:
    """Makes a directory, and the missing directories above it, for the user."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    caller = user()
    if caller:
        os.chown(path, caller.pw_uid, caller.pw_gid)


def give_back_clone() -> None:
    """
    Gives the files that root has made in the clone to the user. Other files of root in the clone
    are not changed.
    """
    compiled = (path for name in SOURCES_IN_PYTHON for path in (CLONE / name).rglob("__pycache__"))
    for path in (*(CLONE / name for name in MADE), *compiled):
        if path.is_symlink() or path.exists():
            give_back(path)


def give_back(directory: Path, leave_out: str = "") -> None:
    """
    Gives the files that root has made in a directory to the user, except in subdirectories whose
    name matches a pattern.
    """
    caller = user()
    if not caller:
        return
    skipped = ["-type", "d", "-name", leave_out, "-prune", "-o"] if leave_out else []
    chown = ["chown", "--no-dereference", f"{caller.pw_uid}:{caller.pw_gid}"]
    command = ["find", directory, "-xdev", *skipped, "-uid", "0", "-exec", *chown, "{}", "+"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:  # a file that vanishes in the meantime is not an error
        print(f"lab: {done.stderr.strip().splitlines()[0]}", file=sys.stderr)
