# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What an emulated host is started with, and what is refused before anything is made."""

import pytest

from paracord_lab import emulator, machine
from paracord_lab.errors import LabError


@pytest.mark.parametrize(("counted", "threads"), [(True, "single"), (False, "multi")])
def test_a_counted_clock_needs_one_thread(counted, threads):
    arch = emulator.architecture("x86_64")
    command = emulator.host_command(arch, "tcg", 1, 512, 3, "", False, (), counted)
    assert f"tcg,thread={threads}" in command and ("-icount" in command) == counted


@pytest.mark.parametrize(
    ("host", "board", "reason"),
    [
        ("emulated", "", "there is no kernel in usr/lib/modules"),
        ("emulated", "juno-r2", "without a board"),
        ("native", "", "for emulated hosts"),
    ],
)
def test_a_named_kernel_that_cannot_be_booted_is_refused(monkeypatch, tmp_path, host, board, reason):
    monkeypatch.setenv("LAB_HOST", host)
    monkeypatch.setenv("LAB_KERNEL", str(tmp_path))
    with pytest.raises(LabError, match=reason), machine.host(board=board):
        pass
