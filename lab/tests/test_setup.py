# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Set-up's parts without a machine: how apt's failures are told, where cargo builds, and its tree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paracord_lab import cache, new_machine, rust_tree
from paracord_lab.privilege import CLONE

NOTHING = ""
UNKNOWN = "E: Unable to locate package nosuch\n"
NO_NETWORK = """\
E: Failed to fetch http://deb.example/pool/g/gawk.deb  Temporary failure resolving 'deb.example'
E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?
"""
DISK_FULL = """\
dpkg: error processing archive /var/cache/apt/archives/gawk.deb (--unpack):
 cannot copy extracted data for './usr/bin/gawk': failed to write (No space left on device)
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""
NO_ROOM_TO_FETCH = "E: You don't have enough free space in /var/cache/apt/archives/.\n"
NO_LISTS = """\
E: Failed to fetch http://deb.example/dists/bookworm/InRelease  Could not connect to deb.example:80
E: Some index files failed to download. They have been ignored, or old ones used instead.
"""
LOCKED = """\
E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (unattended-upgr)
E: Unable to lock directory /var/lib/apt/lists/
"""


def apt_install(directory, update, install):
    """setup/apt-install with an apt-get that fails with these messages; its output."""
    fake = directory / "apt-get"
    fake.write_text('#!/bin/sh\ncase "$*" in *update*) file=update ;; *) file=install ;; esac\n')
    with fake.open("a") as script:
        script.write(f'cat "{directory}/$file" >&2\n! [ -s "{directory}/$file" ] || exit 100\n')
    fake.chmod(0o755)
    (directory / "update").write_text(update)
    (directory / "install").write_text(install)
    environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "PARACORD_APT_WAIT_S": "1"}
    return subprocess.run(
        [CLONE / "setup/apt-install", "gawk"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("install", "reason"),
    [
        (UNKNOWN, "E: Unable to locate package nosuch"),
        (NO_NETWORK, "Temporary failure resolving 'deb.example'"),
        (DISK_FULL, "failed to write (No space left on device)"),
        (NO_ROOM_TO_FETCH, "E: You don't have enough free space in /var/cache/apt/archives/."),
        ("E: Sub-process /usr/bin/dpkg returned an error code (1)\n", "Sub-process /usr/bin/dpkg returned"),
    ],
)
def test_the_last_line_has_apts_own_reason(tmp_path, install, reason):
    done = apt_install(tmp_path, NOTHING, install)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("setup: apt-get could not install gawk: ") and reason in last


def test_lists_that_could_not_be_updated_are_no_failure_but_named_with_one(tmp_path):
    done = apt_install(tmp_path, NO_LISTS, NOTHING)
    assert done.returncode == 0
    assert "Could not connect to deb.example:80); going on with the package lists at hand" in done.stdout
    done = apt_install(tmp_path, NO_LISTS, UNKNOWN)
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert "Unable to locate package" in last and "Could not connect to deb.example:80" in last


def test_a_lock_is_named_with_who_has_it(tmp_path):
    done = apt_install(tmp_path, LOCKED, NOTHING)
    assert done.returncode == 1
    first, last = done.stdout.splitlines()
    assert "its lock is held by process 812 (unattended-upgr); waiting" in first
    assert "another apt has not ended within 1 s: its lock is held by process 812 (unattended-upgr)" in last


@pytest.fixture
def clone(tmp_path):
    """A function that makes a clone with setup/target alone, in a directory of a name, and runs it."""

    def run(name, cache):
        directory = tmp_path / name
        (directory / "setup").mkdir(parents=True, exist_ok=True)
        shutil.copy(CLONE / "setup/target", directory / "setup/target")
        environment = {**os.environ, "PARACORD_CACHE": str(tmp_path / cache)}
        done = subprocess.run([directory / "setup/target"], env=environment, capture_output=True, text=True)
        return directory / "target", done

    return run


def test_cargo_builds_in_the_clone_where_its_path_is_plain(clone):
    target, done = clone("paracord", "cache")
    assert done.stdout == f"{target}\n"
    assert target.is_dir() and not target.is_symlink()


def test_a_path_with_a_space_gets_a_link(clone, tmp_path):
    target, done = clone("my clone", "cache")
    elsewhere = target.readlink()
    assert done.stdout == f"{elsewhere}\n"
    assert elsewhere.parent == tmp_path / "cache/paracord" and " " not in str(elsewhere)
    (target / "built").write_text("")
    shutil.rmtree(elsewhere)
    assert clone("my clone", "cache")[1].stdout == done.stdout
    assert target.is_dir(), "it is there again when the cache was removed"
    assert clone("my clone 2", "cache")[0].readlink() != elsewhere


def test_a_cache_with_a_space_is_refused_with_the_remedy(clone):
    target, done = clone("my clone", "my cache")
    assert done.returncode == 1 and not target.exists()
    assert "set PARACORD_CACHE to a path without spaces" in done.stderr


def test_cargo_in_the_tree_knows_of_registries_and_not_of_directories_outside():
    told = rust_tree.environment(
        {
            "CARGO_REGISTRIES_OWN_INDEX": "sparse+https://crates.example/",
            "https_proxy": "http://proxy.example",
            "CARGO_HOME": "/home/ann/.cargo",
            "CARGO_TARGET_DIR": "/home/ann/target",
            "RUSTUP_HOME": "/home/ann/.rustup",
            "LD_PRELOAD": "x.so",
        }
    )
    assert told["CARGO_REGISTRIES_OWN_INDEX"] and told["https_proxy"]
    assert told["CARGO_HOME"] == rust_tree.CARGO_HOME and told["CARGO_TARGET_DIR"] == rust_tree.TARGET
    assert "RUSTUP_HOME" not in told and "LD_PRELOAD" not in told


def test_what_cargo_named_in_the_tree_is_found_outside(monkeypatch, tmp_path):
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    assert rust_tree.outside("/mnt/target/debug/deps/kernel-1") == tmp_path / "debug/deps/kernel-1"
    assert rust_tree.outside("/elsewhere/kernel-1").as_posix() == "/elsewhere/kernel-1"


def test_make_clean_leaves_what_somebody_elses_link_points_to(tmp_path):
    clone, mine = tmp_path / "clone", tmp_path / "mine"
    (clone / "setup").mkdir(parents=True)
    for name in ("Makefile", "setup/target", "setup/as-user"):
        shutil.copy(CLONE / name, clone / name)
    mine.mkdir()
    (mine / "precious").write_text("")
    (clone / "target").symlink_to(mine)
    subprocess.run(["make", "-s", "-C", clone, "clean"], check=True, capture_output=True)
    assert (mine / "precious").exists() and not (clone / "target").is_symlink()


def test_make_clean_takes_the_directory_of_a_clone_with_a_space(tmp_path):
    clone = tmp_path / "my clone"
    (clone / "setup").mkdir(parents=True)
    for name in ("Makefile", "setup/target", "setup/as-user"):
        shutil.copy(CLONE / name, clone / name)
    environment = {**os.environ, "PARACORD_CACHE": str(tmp_path / "cache")}
    made = subprocess.run([clone / "setup/target"], env=environment, capture_output=True, text=True)
    built = Path(made.stdout.strip())
    assert built.is_dir()
    subprocess.run(["make", "-s", "-C", clone, "clean"], env=environment, check=True, capture_output=True)
    assert not built.exists() and not (clone / "target").is_symlink()


def test_copies_of_machines_whose_test_was_killed_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("PARACORD_CACHE", str(tmp_path))
    names = {pid: f"{new_machine.COPY}-bookworm-{pid}" for pid in (1, os.getpid(), 4194305)}
    for name in (*names.values(), "tree-new-machine-bookworm-x86_64-0123456789ab"):
        (cache.root() / name / "etc").mkdir(parents=True)
    new_machine._remove_left()
    left = sorted(path.name for path in cache.root().iterdir())
    assert left == [names[1], "tree-new-machine-bookworm-x86_64-0123456789ab"]
