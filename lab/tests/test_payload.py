# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What guests boot from."""

import pytest

from paracord_lab import emulator, payload


def test_perf_lies_behind_the_guests_initramfs(tmp_path, monkeypatch):
    built = tmp_path / "payload"
    built.mkdir()
    perf = tmp_path / "perf.cpio"
    perf.write_bytes(b"perf")
    monkeypatch.setattr(payload, "perf_initramfs", lambda arch: perf)
    for guest in (b"guest", b"newer"):
        (built / "guest.cpio").write_bytes(guest)
        payload.add_perf(built, "x86_64")
        assert (built / "guest-perf.cpio").read_bytes() == guest + b"perf"
        assert (built / "guest.cpio").read_bytes() == guest


@pytest.mark.parametrize(
    ("make_command", "option"), [(emulator.guest_command, "-initrd"), (emulator.vmm_command, "--initramfs")]
)
def test_a_guest_boots_the_initramfs_that_it_is_given(make_command, option):
    arch = emulator.architecture("aarch64")
    command = make_command(arch, "vm1", 1, 512, 0, False, "/payload/guest-perf.cpio", "", ())
    assert command[command.index(option) + 1] == "/payload/guest-perf.cpio"
