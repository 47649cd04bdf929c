# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Every scenario is complete and says what it says in words that exist."""

import pytest

from paracord_lab import daemon, kills, runner, scenario, vmm_state
from paracord_lab.errors import ChannelClosed, CommandTimeout, LabError
from paracord_lab.session import Options

NAMES = scenario.names()


def test_all_scenarios_are_there():
    assert {
        "busy-guest", "busy-host", "demo", "glitch", "inversion", "kill-daemon", "kill-vm", "life",
        "rogue-announce", "rogue-garbage", "rogue-hold", "rogue-toggle", "two-vms",
    } <= set(NAMES)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_description(name):
    one = scenario.load(name)
    assert one.name == name
    assert one.summary and one.checks and one.columns and one.configurations
    # A single round can only show that something never happens.
    assert one.rounds >= 2 or all(check.every for check in one.checks)
    assert set(one.without) <= set(daemon.MECHANISMS)
    names = [c.name for c in one.configurations]
    assert len(set(names)) == len(names)
    assert set(one.traced) <= set(names)
    assert len({c.name for c in one.checks}) == len(one.checks)


def test_unknown_scenario_names_the_known_ones():
    with pytest.raises(KeyError, match="busy-host"):
        scenario.load("nonsense")


PS = """TS  1 0 systemd
FF 15 2 migration/0
RR 312 300 qemu-system-x86
FF 400 399 paracord
TS 401 1 CPU 1/KVM
FF 402 1 some daemon
"""


def test_realtime_threads_of_the_kernel_and_paracord_do_not_count():
    assert kills.parse_realtime_threads(PS) == {312: "qemu-system-x86", 402: "some daemon"}


def test_lock_waits_are_counted_from_the_histogram():
    raw = {"waits": 100, "sum_ns": 5_000_000, "max_ns": 9_000_000, "log2_ns": [0] * 22 + [3, 2] + [0] * 8}
    metrics = scenario.load("inversion").metrics("critical-on", raw)
    assert metrics["lock_wait_avg_us"] == 50
    # Buckets 2^22 ns (4.2 ms) and 2^23 ns lie above four critical sections of 1 ms.
    assert metrics["lock_long_wait_share"] == pytest.approx(0.05)


def bursts(requests, pauses):
    """What burst measured of four bursts of 60 ms, one in 200 ms, that all ran at 1 GHz."""
    runs = [[begin, begin + 60] for begin in (0, 200, 400, 600)]
    one = {
        "runs": {"t": runs},
        "pauses": {"t": pauses},
        "frequencies": {"4": [[0, 1000]]},
        "requests": {"5": requests},
    }
    metrics = scenario.load("burst").metrics("carry", {"traces": {"u30": {**one, "duration_ms": 800}}})
    return metrics["bursts_count"], metrics["drops_count"], metrics["u30_busy_mhz"]


def test_a_burst_that_asks_for_less_than_the_last_one_did_is_a_drop():
    # The first two bursts are how it begins.
    steady, drop, back = [[0, 800]], [[0, 800], [399, 500], [411, 800]], [[0, 800], [415, 500], [455, 800]]
    assert bursts(steady, []) == (2, 0, 1000)
    assert bursts(drop, []) == (2, 1, 1000)
    # After the window's end it is no needless one.
    assert bursts(back, []) == (2, 0, 1000)


def test_a_burst_that_shared_its_cpu_says_nothing_about_the_next():
    drop = [[0, 800], [399, 500], [411, 800]]
    assert bursts(drop, [[230, 231.5]]) == (2, 1, 1000)
    assert bursts(drop, [[230, 233]]) == (1, 0, 1000)


def test_the_error_that_came_first_is_told():
    def time_out(message):
        """As the channel does."""
        try:
            raise CommandTimeout("waiting")
        except CommandTimeout:
            raise CommandTimeout(message) from None

    def die():
        try:
            try:
                time_out("guest: hangs")
            finally:
                time_out("host: kill: no answer")
        except CommandTimeout as error:
            return error

    assert str(runner.first_of(die())) == "guest: hangs"
    try:
        try:
            raise ChannelClosed("inner")
        except ChannelClosed as error:
            raise LabError("outer says it better") from error
    except LabError as error:
        assert str(runner.first_of(error)) == "outer says it better"


def test_a_machine_that_dies_of_an_ejection_is_not_excused(tmp_path, monkeypatch):
    runs = []

    def dies(_plan, _options, out, _progress):
        runs.append(out)
        serial = out / "logs" / "host.serial.log"
        serial.parent.mkdir(parents=True)
        serial.write_text('[ 9.1] sched_ext: BPF scheduler "paracord" disabled (runnable task stall)\n')
        raise ChannelClosed("host: no answer")

    monkeypatch.setattr(runner, "_run_plan", dies)
    with pytest.raises(LabError, match=r"no answer, after .* ejected the scheduler: runnable task stall"):
        runner.run(scenario.load("sched-soak"), Options(), tmp_path)
    assert len(runs) == 1


def test_the_end_of_a_recording_is_not_judged():
    """The commands that end it are work on the judged CPUs."""
    five = scenario.load("uclamp-5")
    even = {f"pc_task.{n}": [[0.0, n % 4]] for n in range(8)}
    end_ms = (five.then_s + 1) * 1e3
    moved = even | {"pc_task.0": [[0.0, 0], [end_ms, 1]]}
    frequencies = {"0": [[0.0, 450.0]], "4": [[0.0, 600.0]]}
    trace = {"duration_ms": end_ms + 500, "energy_mj": 1.0, "frequencies": frequencies}

    def judged(places, changed_ms):
        raw = {"trace": trace | {"places": places}, "changed_ms": changed_ms}
        return five.metrics(scenario.EXT, raw)["imbalance_ratio"]

    assert judged(moved, 0.0) == 0
    assert judged(moved, 400.0) > 0


def test_a_vmm_says_what_counting_took():
    said = (
        "paracord-vmm: web: runs; accesses to nothing: 7 in memory, 0 at ports; perf events opened: 12, "
        "of these cold: 1, closed: 3, used again: 99; counters refused: 4; in system calls: 5600 us"
    )
    assert vmm_state.parse(said) == vmm_state.Counting(12, 1, 4, 5600)
    with pytest.raises(LabError, match="does not report"):
        vmm_state.parse(said.partition("; perf")[0])
