# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""U: what other processes take of the machine while something is measured on it."""

import subprocess
import time

from paracord_lab import other_work
from paracord_lab.other_work import Look, Process


def looks(before, after, stolen_s=0.0, waited_s=None):
    return Look(0.0, 0.0, before, waited_s and 0.0), Look(10.0, stolen_s, after, waited_s)


def test_a_line_of_proc_is_read_whatever_the_name():
    stat = "7 (a) b (c) S 3 7 7 0 -1 0 0 0 0 0 100 50 30 20 20 0 1 0 4711 0 0"
    assert other_work.process_of(stat) == Process("a) b (c", 3, 4711, 200 / other_work.TICKS_PER_S)


def test_own_work_and_a_quiet_machine_are_not_told():
    lab = {5: Process("python", 1, 1, 0.0), 6: Process("qemu", 5, 2, 0.0), 9: Process("sshd", 1, 3, 1.0)}
    busy = {5: Process("python", 1, 1, 9.0), 6: Process("qemu", 5, 2, 9.0), 9: Process("sshd", 1, 3, 1.5)}
    assert other_work.line(*looks(lab, busy), root=5) == ""


def test_pressure_is_told_with_other_work_and_not_alone(tmp_path):
    quiet, others = {5: Process("python", 1, 1, 0.0)}, {8: Process("cc1", 1, 4, 5.0)}
    assert other_work.line(*looks(quiet, quiet, waited_s=5.0), root=5) == ""
    said = other_work.line(*looks(quiet, quiet | others, waited_s=5.0), root=5)
    assert said.endswith(", tasks waited for a CPU 50% of the time"), said
    assert other_work.waited(tmp_path) is None
    (tmp_path / "pressure").mkdir()
    some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=7\n"
    (tmp_path / "pressure/cpu").write_text(some)
    assert other_work.waited(tmp_path) == 1.5


def test_others_are_named_and_so_is_stolen_time():
    before = {5: Process("python", 1, 1, 0.0), 8: Process("cc1", 7, 4, 3.0), 7: Process("make", 1, 3, 1.0)}
    # cc1 has ended: what it had used is in make's time. Another process has its number.
    after = {5: before[5], 8: Process("cc1", 7, 9, 6.0), 7: Process("make", 1, 3, 10.0)}
    said = other_work.line(*looks(before, after, stolen_s=100.0), root=5)
    assert said.startswith("other processes took 1.2 of"), said
    assert "(cc1 0.6, make 0.6)" in said and "of the CPU time was stolen" in said, said


def test_a_process_beside_is_seen():
    command = (
        "import time\nopen('/proc/self/comm', 'w').write('pc_beside')\n"
        "end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
    )
    with subprocess.Popen(["python3", "-c", command]) as beside:
        before = other_work.look()
        time.sleep(1)
        after = other_work.look()
        beside.kill()
    # It is this process' own work, and nobody's of a root that is not there.
    assert "pc_beside" not in other_work.line(before, after)
    assert "pc_beside" in other_work.line(before, after, root=-1)
