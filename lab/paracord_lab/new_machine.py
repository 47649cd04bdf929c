# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Fresh Debian machines, with which tests try what a new user tries: a minimal system with git, make
and sudo, this clone in a directory with a space in its path, and nothing else.

A machine is a copy of a tree of the cache. It has its own mounts and processes, and this machine's
network. It has three kinds of users: USER may use sudo, STRANGER may not, and there is root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import cache, tree
from .privilege import CLONE
from .tree_specs import DEBIAN_ARCH, TreeSpec

USER, STRANGER = "ann", "bob"
USER_IDS = {USER: 1000, STRANGER: 1001, "root": 0}
PLACE = "my clones/paracord"
# The files through which this machine reaches its package registries.
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/apt/auth.conf")
OWN_CERTIFICATES = "/usr/local/share/ca-certificates"
START_TIMEOUT_S = 30
COPY = "tree-copy"
INIT = """
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/run"
cd "$0"
exec chroot . sh -c ': >/run/started; exec sleep infinity'
"""


@dataclass(frozen=True)
class Machine:
    """
    A fresh machine that is running. root: its root directory. first_pid: its first process, as seen
    from this machine.
    """

    root: Path
    first_pid: int

    def start(self, command: str, user: str = USER, **options) -> subprocess.Popen:
        """
        Starts a shell command in the user's clone (for root, in the clone of USER), as if the user
        had just logged in.
        """
        home = "/root" if user == "root" else f"/home/{user}"
        clone = f"/home/{STRANGER if user == STRANGER else USER}/{PLACE}"
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        identity = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        variables = [f"HOME={home}", f"USER={user}", f"PATH={path}", "TERM=dumb", *_proxies()]
        return subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "nsenter", f"--target={self.first_pid}"),
                *(
                    "--mount",
                    "--pid",
                    f"--root=/proc/{self.first_pid}/root",
                    f"--wd=/proc/{self.first_pid}/root",
                    "--",
                    *identity,
                ),
                *("env", "-i", *variables, "sh", "-c", 'cd "$0" && eval "$1"', clone, command),
            ],
            text=True,
            **{"stdin": subprocess.DEVNULL, **options},
        )

    def run(self, command: str, user: str = USER, timeout_s: float = 600) -> subprocess.CompletedProcess:
        """Runs such a command until it ends. stdout contains all of its output."""
        process = self.start(command, user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with process:
            try:
                out, _ = process.communicate(timeout=timeout_s)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, out)

    def foreign_files(self) -> list[str]:
        """
        Files in the clone and in the home of USER that do not belong to the user, except the lab's
        trees.
        """
        home = f"/home/{USER}"
        found = self.run(
            f"find {home} -xdev -type d -name 'tree-*' -prune -o -not -user {USER} -print", "root"
        )
        return found.stdout.splitlines()


@contextmanager
def started(suite: str) -> Iterator[Machine]:
    """A fresh machine with a Debian suite. Everything is removed afterwards."""
    arch = os.uname().machine
    spec = TreeSpec(
        name=f"new-machine-{suite}",
        suites=(suite,),
        packages=("ca-certificates", "git", "make", "sudo"),
        architectures=(DEBIAN_ARCH[arch],),
    )
    fresh = tree.ensure_spec(spec, arch)
    _remove_left()
    # This is a tree. The owners of its files are part of it, and do not change (cache.give_back).
    root = cache.root() / f"{COPY}-{suite}-{os.getpid()}"
    subprocess.run(["cp", "-aT", fresh, root], check=True)
    process = None
    try:
        _furnish(root)
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *("sh", "-ec", INIT, str(root)),
            ]
        )
        machine = Machine(root, _first_process(process))
        _add_certificates(machine)
        yield machine
    finally:
        if process:
            process.kill()
            process.wait()
        cache.remove(root)


def _remove_left() -> None:
    """
    Removes the copies of tests that were killed. If an old copy has the process ID of this process,
    it is also from a killed test.
    """
    for copy in cache.root().glob(f"{COPY}-*"):
        pid = copy.name.rpartition("-")[2]
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            cache.remove(copy)


def _first_process(process: subprocess.Popen) -> int:
    """Waits for the machine's mounts. Returns the process that `unshare` has forked."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        for pid in children.read_text().split():
            if Path(f"/proc/{pid}/root/run/started").exists():
                return int(pid)
        time.sleep(0.05)
    raise AssertionError(f"the fresh machine did not start (exit code {process.poll()})")


def _furnish(root: Path) -> None:
    """Makes the users, their clones, and the files for this machine's network."""
    for name, uid in USER_IDS.items():
        if uid:
            subprocess.run(
                ["chroot", root, "useradd", "--create-home", f"--uid={uid}", "--shell=/bin/bash", name],
                check=True,
            )
            _clone_into(root / "home" / name / PLACE, root / "home" / name)
            subprocess.run(["chroot", root, "chown", "-R", f"{name}:", f"/home/{name}"], check=True)
    (root / "etc/sudoers.d/lab").write_text(f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n")
    for name in NETWORK_FILES:
        if Path(name).is_file():
            (root / name.lstrip("/")).unlink(missing_ok=True)
            shutil.copy(Path(name).resolve(), root / name.lstrip("/"))
    acquire = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True)
    (root / "etc/apt/apt.conf.d/90network").write_text(acquire.stdout)
    if Path(OWN_CERTIFICATES).is_dir():
        shutil.copytree(OWN_CERTIFICATES, root / OWN_CERTIFICATES.lstrip("/"), dirs_exist_ok=True)


def _clone_into(directory: Path, home: Path) -> None:
    """Copies the clone in its present state, without files that git ignores."""
    listed: Sequence[bytes] = subprocess.run(
        ["git", "-C", CLONE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout.split(b"\0")[:-1]
    for name in map(os.fsdecode, listed):
        if (CLONE / name).exists():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CLONE / name, directory / name, follow_symlinks=False)
    cargo = Path(os.environ.get("CARGO_HOME") or Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cargo")
    if (cargo / "config.toml").is_file():  # it names the registry
        (home / ".cargo").mkdir(exist_ok=True)
        shutil.copy(cargo / "config.toml", home / ".cargo")


def _add_certificates(machine: Machine) -> None:
    machine.run("update-ca-certificates", "root")


def _proxies() -> list[str]:
    return [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
