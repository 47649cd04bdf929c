# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""LAB_HOST=native: what this machine must have, in one line; what only some need is left out (needs.py)."""

import pytest

from paracord_lab import native, needs


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


def test_kvm_and_the_programs_are_enough_for_a_host_whatever_its_kernel_lacks(monkeypatch):
    monkeypatch.setattr(native.shutil, "which", lambda program: True)
    monkeypatch.setattr(native.kvm, "works", lambda: None)
    native.check()


def test_only_a_native_host_has_facts(monkeypatch):
    monkeypatch.setenv("LAB_HOST", "emulated")
    assert native.facts() is None
    monkeypatch.setenv("LAB_HOST", "native")
    assert native.facts() == needs.Facts()
