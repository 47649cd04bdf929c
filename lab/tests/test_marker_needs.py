# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Tests whose marker `needs` names something that a native host lacks are skipped, with the reason."""

import conftest
import pytest

from paracord_lab import native
from paracord_lab.needs import SCHED_EXT, Facts


class OnlyBtf(Facts):
    """Of a kernel with BTF and nothing else that is optional."""

    def exists(self, path):
        return path == "sys/kernel/btf/vmlinux"

    def built_with(self, option):
        return False


class Item:
    """As much of a test as conftest looks at."""

    nodeid = "test_x.py::test_y"

    def __init__(self, *wanted):
        self.wanted = [pytest.mark.needs(*wanted).mark]
        self.added = []

    def iter_markers(self, name):
        assert name == "needs"
        return self.wanted

    def add_marker(self, marker):
        self.added.append((marker.name, marker.kwargs["reason"]))


def test_tests_are_skipped_with_the_reason():
    ext, rt = Item("sched_ext", "btf"), Item("btf")
    conftest.skip_what_lacks([ext, rt], OnlyBtf())
    assert ext.added == [("skip", SCHED_EXT.lack(OnlyBtf()))] and rt.added == []


def test_no_test_is_skipped_on_an_emulated_host():
    both = Item("sched_ext", "emulated")
    conftest.skip_what_lacks([both], None)
    assert both.added == []


def test_a_need_that_does_not_exist_is_an_error():
    with pytest.raises(pytest.UsageError, match=r"needs schedext: there are sched_ext"):
        conftest.skip_what_lacks([Item("schedext")], None)


def test_the_first_lines_say_what_lacks(monkeypatch):
    monkeypatch.setattr(native, "facts", OnlyBtf)
    lines = conftest.pytest_report_header()
    assert any("tests that need sched_ext are skipped: the kernel has no sched_ext" in line for line in lines)
    assert not any("btf" in line for line in lines)
    monkeypatch.setattr(native, "facts", lambda: None)
    assert conftest.pytest_report_header() == []
