# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The cache of trees and images. The key of an entry depends on its inputs. An entry is built under
another name, and renamed when it is complete.

An entry is a directory `NAME-ARCH-KEY` in the cache directory: `paracord` in $PARACORD_CACHE, or in
$XDG_CACHE_HOME, or in ~/.cache (setup/target uses the same rule). An interrupted build leaves a
`*.partial`, which the next build removes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import privilege
from .errors import LabError
from .progress import Progress

KEY_DIGITS = 12


def root() -> Path:
    """Returns the cache directory. Makes it if it does not exist."""
    named = os.environ.get("PARACORD_CACHE") or os.environ.get("XDG_CACHE_HOME")
    path = Path(named) if named else privilege.home() / ".cache"
    # The cache gets a directory of its own, because the named directory may contain many other
    # files.
    if path.name != "paracord":
        path /= "paracord"
    try:
        privilege.make_directory(path)
    except OSError as error:
        raise LabError(
            f"cannot make the cache directory {path}: {error.strerror}; set PARACORD_CACHE"
        ) from None
    return path.resolve()


def give_back() -> None:
    """
    Under sudo, gives the user's cache back to the user. Trees stay root's, because the files of
    every system belong to root.
    """
    privilege.give_back(root(), leave_out="tree-*")


def key(inputs: object) -> str:
    """
    A short stable hash of anything that JSON can represent. The order of dictionary keys does not
    matter.
    """
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def files_digest(paths: list[Path]) -> str:
    """A hash of names, modes and contents, for entries that are built from sources."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name} {path.stat().st_mode & 0o111:o} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:KEY_DIGITS]


def entry_path(name: str, arch: str, inputs: object) -> Path:
    return root() / f"{name}-{arch}-{key(inputs)}"


def newest(name: str, arch: str) -> Path | None:
    """The entry with this name that was completed last, whatever its key is."""
    entries = [p for p in root().glob(f"{name}-{arch}-*") if is_complete(p)]
    return max(entries, key=lambda p: (p / "key.json").stat().st_mtime, default=None)


def is_complete(entry: Path) -> bool:
    return not entry.name.endswith(".partial") and (entry / "key.json").is_file()


@contextmanager
def lock(name: str, what: str) -> Iterator[None]:
    """Allows one builder at a time. A second one waits, and then finds the complete entry."""
    with file_lock(root() / f"{name}.lock", what):
        yield


@contextmanager
def file_lock(path: Path, what: str) -> Iterator[None]:
    """As lock(), but with the lock file at `path`."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with Progress(f"waiting for another process that makes {what}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(name: str, arch: str, inputs: object, what: str, build: Callable[[Path, Progress], None]) -> Path:
    """Returns the complete entry for `inputs`. Builds it if it is missing.

    `build(directory, progress)` fills an empty directory. Raises LabError with one line.
    """
    entry = entry_path(name, arch, inputs)
    if is_complete(entry):
        return entry
    with lock(f"{name}-{arch}", what):
        if is_complete(entry):
            return entry
        partial = entry.with_name(entry.name + ".partial")
        remove(partial)
        try:
            partial.mkdir()
            with Progress(f"making {what}") as progress:
                build(partial, progress)
            (partial / "key.json").write_text(json.dumps(inputs, indent=1, sort_keys=True) + "\n")
            partial.rename(entry)
        except OSError as error:
            raise LabError(f"making {what}: {explain(error)}") from None
        finally:
            remove(partial)
    return entry


def explain(error: OSError) -> str:
    """The text of an operating system error, with the remedy if there is one."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        free_mb = shutil.disk_usage(root()).free >> 20
        return f"the disk is full{where}: {free_mb} MB free at {root()}; free some or set PARACORD_CACHE"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"no permission{where}: run it as root"
    return f"{error.strerror}{where}"


def need_free(directory: Path, wanted_mb: int, who: str) -> None:
    """
    Raises LabError if a directory of the cache has too little space for what `who` ("the host
    tree") makes.
    """
    free_mb = shutil.disk_usage(directory).free >> 20
    if free_mb < wanted_mb:
        raise LabError(
            f"the disk is nearly full: {free_mb} MB free at {directory.parent}, {who} needs {wanted_mb} MB: "
            "free some or set PARACORD_CACHE"
        )


def remove(path: Path) -> None:
    """Removes a directory that the lab has made, but never across a mount point."""
    if not path.exists():
        return
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [mount for mount in mounts if mount.startswith(f"{path}/")]
    if below:
        raise LabError(f"{below[0]} is still mounted: umount it, then try again")
    shutil.rmtree(path)
