# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The reason of a machine's death is found in its log."""

import pytest

from paracord_lab import serial_log

OOPS = """\
[    4.123456] Run /init as init process\r
[   10.000001] BUG: kernel NULL pointer dereference, address: 0000000000000008\r
[   10.000002] Oops: Oops: 0002 [#1] SMP NOPTI\r
[   10.000009] Kernel panic - not syncing: Fatal exception\r
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("[    1.0] all is well\n", None),
        ("", None),
        (OOPS, "kernel bug: BUG: kernel NULL pointer dereference, address: 0000000000000008"),
        (
            "[    3.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n",
            "kernel panic: Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
        ),
        (
            "[   60.0][   T12] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [qemu:12]\n",
            "stall: watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [qemu:12]",
        ),
        ("lab: no disk /dev/vda\n", "lab: no disk /dev/vda"),
        (
            "[    9.0] Out of memory: Killed process 12 (x)\n",
            "out of memory: Out of memory: Killed process 12 (x)",
        ),
    ],
)
def test_trouble(log, expected):
    found = serial_log.trouble(log)
    assert found == (f"lab: {expected}" if expected and expected.startswith("lab") else expected)


def test_reason_prefers_the_kernel_and_ignores_emulator_warnings(tmp_path):
    serial, emulator = tmp_path / "serial.log", tmp_path / "qemu.log"
    assert serial_log.reason(serial, emulator) is None
    emulator.write_text("qemu: warning: host doesn't support x\nqemu: could not open disk: No such file\n")
    assert serial_log.reason(serial, emulator) == "emulator: qemu: could not open disk: No such file"
    serial.write_text(OOPS)
    assert serial_log.reason(serial, emulator).startswith("kernel bug")


def test_a_kernel_dies_of_its_bugs_and_not_of_stalls(tmp_path):
    serial = tmp_path / "serial.log"
    assert serial_log.died(serial) is None
    serial.write_text("[   60.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [qemu:12]\n")
    assert serial_log.died(serial) is None
    serial.write_text(OOPS)
    assert serial_log.died(serial).startswith("kernel bug")


def test_only_the_tail_of_a_huge_log_is_read(tmp_path):
    log = tmp_path / "serial.log"
    log.write_text(
        "BUG: long ago\n" + "x" * serial_log.LOG_TAIL_BYTES + "\nKernel panic - not syncing: now\n"
    )
    assert "now" in serial_log.reason(log)


def test_a_silent_end_is_told_by_the_emulators_trace(tmp_path):
    serial, messages, resets = (tmp_path / name for name in ("serial.log", "qemu.log", "resets.log"))
    messages.write_text("")
    resets.write_text("CPU Reset (CPU 0)\nqemu_system_shutdown_request reason=7\n")
    assert serial_log.reason(serial, messages, resets) == "emulator: the machine reset itself"
    resets.write_text("qemu_system_shutdown_request reason=99\n")
    assert serial_log.reason(serial, messages, resets) == "emulator: ended for reason 99"
    messages.write_text("qemu: no memory\nqemu_system_shutdown_request reason=1\n")
    assert serial_log.reason(serial, messages, resets) == "emulator: qemu: no memory"


def test_an_ejection_is_found_with_its_reason(tmp_path):
    serial = tmp_path / "host.serial.log"
    assert serial_log.ejection(serial) is None
    serial.write_text(
        '[    9.1] sched_ext: BPF scheduler "paracord" disabled (unregistered from user space)\n'
    )
    assert serial_log.ejection(serial) is None
    with serial.open("a") as log:
        log.write('[  615.4] sched_ext: BPF scheduler "paracord" disabled (runnable task stall)\r\n')
    assert serial_log.ejection(serial) == "runnable task stall"
    with serial.open("a") as log:
        log.write("[  615.5] sched_ext: paracord: hog[7] failed to run for 40.032s\r\n[  616.0] else\r\n")
    assert serial_log.ejection(serial) == "runnable task stall: hog[7] failed to run for 40.032s"
