# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Root's part in the lab and the user's: what becomes the user's, and what sudo lets through."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from paracord_lab import privilege

CALLER = SimpleNamespace(pw_uid=4711, pw_gid=4711)


@pytest.mark.skipif(os.geteuid() != 0, reason="changes owners")
def test_only_what_the_lab_makes_in_the_clone_becomes_the_users(tmp_path, monkeypatch):
    monkeypatch.setattr(privilege, "CLONE", tmp_path / "clone")
    monkeypatch.setattr(privilege, "user", lambda: CALLER)
    files = {
        "clone/target/debug/paracord": 4711,
        "clone/out/demo/report.md": 4711,
        "clone/lab/paracord_lab/__pycache__/cache.pyc": 4711,
        "clone/lab/paracord_lab/cache.py": 0,
        "clone/secret": 0,
        "big/somebody": 0,
    }
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "clone/.venv").symlink_to(tmp_path / "big")
    privilege.give_back_clone()
    assert {name: (tmp_path / name).stat().st_uid for name in files} == files


SUDO_RS = """#!/bin/sh
# Takes no environment, whatever it is told.
while [ "${1#-}" != "$1" ]; do shift; done
exec /usr/bin/env -i PATH=/usr/bin:/bin "$@"
"""


def test_a_sudo_that_passes_no_environment_on_is_told_it_in_words(tmp_path):
    for name, text in (("sudo", SUDO_RS), ("id", "#!/bin/sh\necho 1000\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    passed = {
        "PARACORD_CACHE": "/mnt/big disk",
        "LAB_HOST": "native",
        "https_proxy": "http://proxy.example:1/?a=b",
        "XDG_CACHE_HOME": "/var/cache",
        "CARGO_TARGET_DIR": "/x",
        "LAB_KERNEL": "",
        "MAKEFLAGS": "s -- ARGS=--rounds\\ 5",
    }
    path = f"{tmp_path}:/usr/bin:/bin"
    own = {
        "PATH": path,
        "CARGO_REGISTRY_TOKEN": "x",
        "LINES_OF": "1\nPARACORD_NO=2",
        "http_proxy": "http://ann:secret@proxy.example:1/",
    }
    done = subprocess.run(
        [privilege.CLONE / "setup/as-root", "a test", "env", "-0"],
        env={**passed, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    got = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    assert {name: got.get(name) for name in passed} == passed
    assert got["PARACORD_PATH"] == path and "CARGO_REGISTRY_TOKEN" not in got
    assert "http_proxy" not in got, "everybody could read its password"
    assert done.stderr == "paracord: asking sudo for root rights: a test\n"
