# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What a host lacks, found in the /sys, /proc and kernel configurations of machines; and what is left out."""

import gzip

import pytest

from paracord_lab import cli, needs, scenario, selection
from paracord_lab.needs import BPFTOOL, BTF, EMULATED, PERF_EVENTS, SCHED_EXT, UCLAMP, Facts, lacking

RELEASE = "6.1.0-28-amd64"
# What machines with such kernels show: files, and options of the kernel's configuration.
DEBIAN_12 = {
    "files": ["sys/kernel/btf/vmlinux", "proc/sys/kernel/perf_event_paranoid", "usr/sbin/bpftool"],
    "config": "CONFIG_DEBUG_INFO_BTF=y\n# CONFIG_UCLAMP_TASK is not set\n",
}
COMPLETE = {
    "files": [*DEBIAN_12["files"], "sys/kernel/sched_ext/state", "proc/sys/kernel/sched_util_clamp_max"],
    "config": "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_UCLAMP_TASK=y\nCONFIG_SCHED_CLASS_EXT=y\n",
}
NO_SCHED_EXT = "the kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT, Linux 6.12 or later)"


@pytest.fixture
def machine(tmp_path):
    """machine(kernel, texts): a root of its own with the files of a kernel, and with those in `texts`."""

    def make(kernel, texts=(), packed=False):
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        root.mkdir()
        for path in kernel["files"]:
            write(root / path, "")
        for path, text in dict(texts).items():
            write(root / path, text)
        if packed:
            (root / "proc").mkdir(exist_ok=True)
            (root / "proc/config.gz").write_bytes(gzip.compress(kernel["config"].encode()))
        elif kernel["config"]:
            write(root / f"boot/config-{RELEASE}", kernel["config"])
        return Facts(root, RELEASE)

    return make


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("packed", [False, True], ids=["boot", "config.gz"])
def test_a_kernel_without_sched_ext_and_uclamp_says_so(machine, packed):
    facts = machine(DEBIAN_12, packed=packed)
    assert SCHED_EXT.lack(facts) == NO_SCHED_EXT
    assert UCLAMP.lack(facts) == "the kernel has no utilisation clamps (CONFIG_UCLAMP_TASK)"
    assert lacking([BTF, PERF_EVENTS], facts) == ""
    assert lacking([SCHED_EXT, UCLAMP, SCHED_EXT], facts).count(";") == 1


def test_a_complete_kernel_lacks_nothing(machine):
    facts = machine(COMPLETE)
    assert lacking([SCHED_EXT, UCLAMP, BTF, PERF_EVENTS, BPFTOOL], facts) == ""
    assert lacking([EMULATED], facts) == "needs an emulated host (unset LAB_HOST)"


def test_a_machine_that_shows_nothing_lacks_everything(machine):
    facts = machine({"files": ["proc/version"], "config": ""})
    assert all(need.lack(facts) for need in needs.ALL.values())


def test_a_configuration_that_cannot_be_read_is_no_lack(machine):
    facts = machine({**COMPLETE, "config": ""})
    assert lacking([SCHED_EXT, UCLAMP], facts) == ""


def test_clamps_that_only_the_configuration_knows_of_are_there(machine):
    assert UCLAMP.lack(machine({**DEBIAN_12, "config": "CONFIG_UCLAMP_TASK=y\n"})) == ""


def test_an_option_that_begins_alike_or_is_a_module_does_not_count(machine):
    facts = machine({**DEBIAN_12, "config": "CONFIG_UCLAMP_TASK_GROUP=y\nCONFIG_SCHED_CLASS_EXT=m\n"})
    assert UCLAMP.lack(facts)
    assert "although" not in SCHED_EXT.lack(facts)


def test_sched_ext_that_is_built_in_but_hidden_is_told_apart(machine):
    facts = machine({**DEBIAN_12, "config": COMPLETE["config"]})
    assert SCHED_EXT.lack(facts).startswith("/sys/kernel/sched_ext/state is not there, although")


def test_kernels_that_refuse_paracords_scheduler_lack_it(machine):
    version = {"proc/sys/kernel/version": "#1 SMP PREEMPT_RT Debian 6.12.9-1"}
    assert "PREEMPT_RT" in SCHED_EXT.lack(machine(COMPLETE, version))


@pytest.mark.parametrize(
    ("cmdline", "cpus"),
    [
        ("quiet isolcpus=2,4-5", "2,4-5"),
        ("isolcpus=domain,managed_irq,3", "3"),
        ("isolcpus=nohz,3", ""),
        ("quiet", ""),
    ],
)
def test_isolated_cpus(machine, cmdline, cpus):
    lack = SCHED_EXT.lack(machine(COMPLETE, {"proc/cmdline": f"BOOT_IMAGE=x {cmdline}\n"}))
    assert lack == (f"the kernel refuses sched_ext beside isolcpus= (CPUs {cpus})" if cpus else "")


def test_an_emulated_host_lacks_nothing():
    assert lacking(needs.ALL.values(), None) == ""


@pytest.mark.parametrize("name", scenario.names())
def test_configurations_need_what_their_fields_say(name):
    for one in scenario.load(name).configurations:
        assert (SCHED_EXT in one.needs) == (one.is_ext or one.plain), one.name
        assert (BPFTOOL in one.needs) == one.plain, one.name
        assert BTF in one.needs or not (one.daemon or one.plain), one.name


def selected(name, facts):
    return selection.select(scenario.load(name), facts)


def names(chosen):
    return [one.name for one in chosen.configurations]


def test_the_demo_leaves_out_boost_ext_alone(machine):
    chosen = selected("demo", machine(DEBIAN_12))
    assert names(chosen) == ["vanilla", "boost-rt-unmodified", "boost-rt", "static-rt", "host-native"]
    assert list(chosen.left_out) == ["boost-ext"] and not chosen.skipped
    assert chosen.lines() == [f"left out: boost-ext: {NO_SCHED_EXT}"]


@pytest.mark.parametrize("facts", [None, COMPLETE], ids=["emulated", "native"])
def test_nothing_is_left_out_where_nothing_lacks(machine, facts):
    facts = facts and machine(facts)
    for name in scenario.names():
        if facts and scenario.load(name).board:
            continue
        chosen = selected(name, facts)
        assert names(chosen) == [one.name for one in scenario.load(name).configurations]
        assert chosen.lines() == []


@pytest.mark.parametrize("name", ["scheduler", "ext-cost", "contract", "directed-yield", "sched-soak"])
def test_a_scenario_all_of_whose_verdicts_need_ext_is_skipped(machine, name):
    chosen = selected(name, machine(DEBIAN_12))
    assert "every verdict needs " in chosen.skipped and "no sched_ext" in chosen.skipped
    assert chosen.lines() == [f"skipped: {chosen.skipped}"]


@pytest.mark.parametrize("name", ["busy-host", "io", "rogue-hold", "rogue-io", "vm-quota", "sim-vs-lab"])
def test_a_scenario_with_other_verdicts_runs_without_ext(machine, name):
    chosen = selected(name, machine(DEBIAN_12))
    assert not chosen.skipped and list(chosen.left_out) in (["boost-ext"], ["ext"])


@pytest.mark.parametrize("name", ["two-vms", "glitch", "inversion", "kill-vm", "pmu-latency", "freq-path"])
def test_a_scenario_without_ext_runs_as_a_whole(machine, name):
    assert selected(name, machine(DEBIAN_12)).lines() == []


def test_uclamp_is_needed_by_the_stock_side_only(machine):
    facts = machine({**COMPLETE, "files": [f for f in COMPLETE["files"] if "clamp" not in f], "config": ""})
    chosen = selected("uclamp-uncapped", facts)
    assert names(chosen) == ["ext"] and list(chosen.left_out) == ["stock"]
    # Its one verdict shows stock beside it, but does not need it.
    skipped = selected("uclamp-uncapped", machine(DEBIAN_12)).skipped
    assert skipped == f"every verdict needs ext: {NO_SCHED_EXT}"


def test_what_a_whole_scenario_needs_skips_it(machine):
    facts = machine({**COMPLETE, "files": [f for f in COMPLETE["files"] if "perf_event" not in f]})
    assert selected("rogue-pmu", facts).skipped == "the kernel has no perf events (CONFIG_PERF_EVENTS)"
    assert selected("uclamp-1", facts).skipped == "needs the emulated board juno-r2"


def test_bpftool_is_needed_by_the_plain_scheduler_and_where_costs_are_read(machine):
    facts = machine({**COMPLETE, "files": [f for f in COMPLETE["files"] if "bpftool" not in f]})
    assert selected("demo", facts).lines() == []
    assert selected("scheduler", facts).left_out == {"plain": BPFTOOL.lack(facts)}
    assert selected("ext-cost", facts).skipped == "bpftool is not installed (apt install bpftool)"


def test_without_btf_no_verdict_of_the_demo_is_left(machine):
    facts = machine({"files": [], "config": ""})
    assert "every verdict needs" in selected("demo", facts).skipped


def test_the_list_of_scenarios_says_what_is_left_out(machine, monkeypatch, capsys):
    monkeypatch.setattr(cli.native, "facts", lambda: machine(DEBIAN_12))
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("demo "))
    assert lines[at + 1].strip().startswith("left out: boost-ext: the kernel has no sched_ext")
    monkeypatch.setattr(cli.native, "facts", lambda: None)
    cli.main(["list"])
    assert "left out" not in capsys.readouterr().out
