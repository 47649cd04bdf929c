# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Root's part in the lab and the user's: what becomes the user's."""

import os
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
