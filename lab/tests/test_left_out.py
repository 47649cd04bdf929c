# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What a host cannot measure is left out of a run, and whoever looks at the run sees it: on the terminal, in the
report, in results.json, in the exit status.
"""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from test_report import demo_run, statuses

from paracord_lab import cli, needs, report, results, runner, scenario, store
from paracord_lab.verdicts import PASS, SKIPPED, exit_code

REASON = "the kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT, Linux 6.12 or later)"
LEFT_OUT = {"boost-ext": REASON}
OF_EXT = {"boost_ext_excess_vs_vanilla", "busy_guest_ext_host_share", "rogue_hold_ext_host_share"}


def partial_run(out, left_out=LEFT_OUT):
    """A stored run of `demo` on a native host that cannot measure `left_out`."""
    demo = demo_run(out, host="native", left_out=left_out)
    for name in left_out:
        for path in (out / "raw").glob(f"round-*-{name}.json"):
            path.unlink()
    return demo


def test_verdicts_that_need_it_are_skipped_and_the_others_judged(tmp_path):
    judged = report.make(partial_run(tmp_path), tmp_path)
    found = statuses(judged)
    assert {name for name, status in found.items() if status == SKIPPED} == OF_EXT
    assert {status for name, status in found.items() if name not in OF_EXT} == {PASS}
    assert {v.reason for v in judged.verdicts if v.name in OF_EXT} == {f"left out with boost-ext: {REASON}"}
    assert exit_code(judged.verdicts) == 3


def test_results_json_names_it_with_the_reason(tmp_path):
    judged = report.make(partial_run(tmp_path), tmp_path)
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["left_out"] == [{"config": "boost-ext", "reason": REASON}]
    assert "boost-ext" not in {one["config"] for one in data["results"]}
    assert results.read(tmp_path / "results.json") == judged


def test_a_run_without_it_says_nothing(tmp_path):
    demo = demo_run(tmp_path)
    judged = report.make(demo, tmp_path)
    assert "left_out" not in json.loads((tmp_path / "results.json").read_text())
    assert "left out" not in (tmp_path / "report.html").read_text().lower()
    assert "left out" not in report.text(demo, tmp_path, judged)


def test_text_and_page_show_it_in_the_list_and_say_why(tmp_path):
    demo = partial_run(tmp_path)
    text = report.text(demo, tmp_path, report.make(demo, tmp_path))
    (row,) = [line for line in text.splitlines() if line.startswith("boost-ext (left out) ")]
    assert set(row.removeprefix("boost-ext (left out)").split()) == {"–"}
    assert f"left out: boost-ext: {REASON}" in text.splitlines()
    page = (tmp_path / "report.html").read_text()
    assert "<td>boost-ext (left out)</td><td>–</td>" in page
    assert f"<li>boost-ext: {REASON}</li>" in page
    assert page.count('<td class="status skipped">skipped</td>') == len(OF_EXT)
    assert "6 passed, 0 failed, 3 skipped" in page
    assert page.count("<svg") == 4


def test_the_other_kind_of_table_shows_it_in_its_head():
    io = scenario.load("io")
    head = report.table(io, [], {"boost-ext"})[0]
    assert "boost-ext (left out)" in head and "boost-rt" in head


def test_a_report_that_is_made_again_says_the_same(tmp_path, capsys):
    partial_run(tmp_path)
    assert cli.main(["report", str(tmp_path)]) == 3
    said = capsys.readouterr().out
    assert f"left out: boost-ext: {REASON}" in said
    assert said.splitlines()[-1].startswith("6 passed, 0 failed, 3 skipped (not measured on this host")


class Debian12(needs.Facts):
    """The facts of a kernel with BTF, and with neither sched_ext nor utilisation clamps."""

    def exists(self, path):
        return path == "sys/kernel/btf/vmlinux"

    def built_with(self, option):
        return False


@pytest.fixture
def native_host(monkeypatch, tmp_path):
    """This machine as a native host on which each configuration measures what a stored run has."""
    stored = tmp_path / "stored"
    demo_run(stored)
    measured = []

    @contextmanager
    def host(**_options):
        yield SimpleNamespace(arch="x86_64", kernel="6.1.0", kind="native", cpus=2)

    def measure(plan, _session, out, _progress):
        for number, configuration in plan.steps:
            measured.append(configuration.name)
            raw = json.loads((stored / "raw" / f"round-1-{configuration.name}.json").read_text())
            store.put(out, number + 1, configuration.name, raw)
        plan.steps.clear()

    session = SimpleNamespace(open=lambda: session, close=lambda: None)
    monkeypatch.setattr(runner.machine, "host", host)
    monkeypatch.setattr(runner, "Session", lambda *_: session)
    monkeypatch.setattr(runner, "_measure", measure)
    monkeypatch.setattr(runner, "_trace", lambda *_: None)
    monkeypatch.setattr(runner.native, "facts", Debian12)
    monkeypatch.setattr(cli.privilege, "ask_root", lambda _arguments: None)
    for name in ("demo", "scheduler"):
        monkeypatch.setattr(type(scenario.load(name)), "setup", lambda *_: None)
    return measured


def run(tmp_path, *names):
    return cli.main(["run", *names, "--out", str(tmp_path / "out")])


def test_a_run_measures_the_rest_and_says_so_first_and_last(native_host, tmp_path, capsys):
    assert run(tmp_path, "demo") == 3
    assert set(native_host) == {"vanilla", "boost-rt-unmodified", "boost-rt", "static-rt", "host-native"}
    said = capsys.readouterr()
    first = said.err.splitlines()[0]
    assert first.startswith("demo: ") and first.endswith(f"left out: boost-ext: {REASON}")
    assert f"left out: boost-ext: {REASON}" in said.out
    assert "6 passed, 0 failed, 3 skipped (not measured on this host" in said.out.splitlines()[-1]


def test_a_scenario_of_which_nothing_is_left_is_not_measured_and_no_success(native_host, tmp_path, capsys):
    assert run(tmp_path, "scheduler") == 4
    assert native_host == []
    said = capsys.readouterr()
    assert "skipped: every verdict needs ext: the kernel has no sched_ext" in said.err
    judged = results.read(tmp_path / "out/scheduler/results.json")
    assert set(judged.left_out) == {"ext", "plain"}
    assert {v.status for v in judged.verdicts} == {SKIPPED}


def test_beside_a_scenario_that_passes_it_keeps_the_run_open(native_host, tmp_path):
    assert run(tmp_path, "demo", "scheduler") == 3
