# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""LAB_HOST=native says what this machine lacks, in one line."""

import pytest

from paracord_lab import native


def test_missing_programs_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(native.shutil, "which", lambda program: program not in ("socat", "cyclictest"))
    with pytest.raises(native.Unavailable) as refusal:
        native.check()
    line = str(refusal.value)
    assert "socat, cyclictest not installed (apt install socat rt-tests)" in line
    assert "\n" not in line


def test_nothing_is_said_of_programs_that_are_there(monkeypatch):
    monkeypatch.setattr(native.shutil, "which", lambda program: True)
    monkeypatch.setattr(native.kvm, "works", lambda: "no KVM")
    with pytest.raises(native.Unavailable) as refusal:
        native.check()
    assert "install" not in str(refusal.value)
