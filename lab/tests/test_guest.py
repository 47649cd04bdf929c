# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A test that failed, told from one whose guest died under it."""

from types import SimpleNamespace

import pytest

from paracord_lab.errors import ChannelClosed
from paracord_lab.guest import Guest


@pytest.fixture
def guest(tmp_path):
    """One whose host is gone already: nothing is to be stopped."""
    gone = Guest.__new__(Guest)
    gone.name, gone._serial = "lab", tmp_path / "lab.serial.log"
    gone._host = SimpleNamespace(logs=tmp_path, channel=SimpleNamespace(closed=True))
    return gone


def test_a_failure_beside_a_kernel_that_died_is_the_guests(guest):
    guest._serial.write_text("[    9.0] kernel BUG at mm/slub.c:1!\n")
    found = r"guest lab: kernel bug: kernel BUG at mm/slub\.c:1!"
    with pytest.raises(ChannelClosed, match=found) as told, guest:
        raise AssertionError("0 is not 1")
    assert isinstance(told.value.__cause__, AssertionError)


def test_a_failure_beside_a_healthy_kernel_stays_what_it_is(guest):
    guest._serial.write_text("[    9.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [qemu:12]\n")
    with pytest.raises(AssertionError), guest:
        raise AssertionError("0 is not 1")


def test_a_kernel_that_died_when_all_was_done_is_no_failure(guest):
    guest._serial.write_text("Kernel panic - not syncing: late\n")
    with guest:
        pass
