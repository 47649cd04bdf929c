# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Set-up as new users meet it, on a fresh Debian 12 (Rust 1.63, no rustup): a user with sudo and no toolchain,
one whom sudo refuses, and another apt at work. The clone's path has a space. All is installed and made anew;
test_new_machine_whole.py goes on where this ends.
"""

import subprocess
from contextlib import contextmanager

import pytest

from paracord_lab import new_machine
from paracord_lab.new_machine import STRANGER, USER

pytestmark = [pytest.mark.lab, pytest.mark.new_machine]
# A record lock of fcntl's, as apt takes them, until the input ends.
HOLD_LOCK = """python3 -c '
import fcntl, sys
lock = open("{lock}", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()'"""


@pytest.fixture(scope="module")
def machine():
    with new_machine.started("bookworm") as started:
        yield started


def setup(machine, command="make setup"):
    result = machine.run(command)
    print(result.stdout)
    assert result.returncode == 0
    return result.stdout


@pytest.fixture(scope="module")
def first_setup(machine):
    """Output of the first set-up of the user with sudo."""
    return setup(machine)


def test_a_user_whom_sudo_refuses_reads_what_for_and_why(machine):
    result = machine.run("make demo", STRANGER)
    assert result.returncode != 0
    lines = result.stdout.splitlines()
    asked = next(i for i, line in enumerate(lines) if line.startswith("paracord: asking sudo"))
    assert "makes root file systems" in lines[asked]
    assert lines[asked + 1].startswith("sudo: "), result.stdout


def test_set_up_asks_for_root_and_leaves_the_files_to_the_user(machine, first_setup):
    assert first_setup.count("asking sudo for root rights: installing the packages mmdebstrap") == 1
    assert "no Rust >= 1.85 here" in first_setup
    assert "setup: ready" in first_setup
    assert "asking sudo" not in setup(machine), "all is there"
    assert machine.foreign_files() == []


@contextmanager
def held(machine, lock):
    """Another process has one of apt's locks; what ends that is given. A package is missing meanwhile."""
    machine.run("dpkg --purge shellcheck", "root")
    command = HOLD_LOCK.format(lock=lock)
    with machine.start(command, "root", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder.stdin.close


@pytest.mark.parametrize("lock", ["/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock"])
def test_set_up_waits_for_another_apt(machine, first_setup, lock):
    with held(machine, lock) as release, machine.start("make setup", stdout=subprocess.PIPE) as making:
        for line in making.stdout:
            if "another apt is at work" in line:
                break
        release()
        rest = making.stdout.read()
    assert "its lock is held by process" in line and "(python3)" in line and "waiting" in line
    assert making.returncode == 0
    assert "setup: ready" in rest and "failed" not in rest
    assert machine.run("command -v shellcheck").returncode == 0


def test_set_up_gives_up_on_an_apt_that_does_not_end(machine, first_setup):
    with held(machine, "/var/lib/dpkg/lock-frontend") as release:
        result = machine.run("PARACORD_APT_WAIT_S=3 make setup")
        release()
    assert result.returncode != 0
    assert "another apt has not ended within 3 s: its lock is held by process" in result.stdout
    setup(machine)


def test_cargo_runs_in_a_tree_as_the_user(machine, first_setup):
    assert machine.run("setup/cargo --where").stdout == "tree\n"
    # All compiles with the oldest Rust that the workspace names; C libraries are built.
    check = "setup/cargo check -q --locked --workspace"
    # These open perf events, as `make test` lets them.
    test = "PARACORD_CAPABILITIES=+perfmon setup/cargo test --locked -p paracord-devices --features pmu"
    out = setup(machine, f"{check} && {test}")
    assert "asking sudo for root rights: building in a Debian tree" in out
    assert "test result: ok" in out
    assert machine.foreign_files() == []


def test_under_sudo_the_same(machine, first_setup):
    out = setup(machine, "sudo make setup && sudo setup/cargo test --locked -p paracord-abi")
    assert "setup: ready" in out and "asking sudo" not in out and "test result: ok" in out
    assert machine.foreign_files() == []
    assert not (machine.root / "root/.cache").exists(), f"the cache is that of {USER}"
