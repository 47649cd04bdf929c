# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""From raw outputs on disk to verdicts, page and text, without any machine."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from paracord_lab import judge, plots, report, results, scenario, store
from paracord_lab.verdicts import FAIL, PASS, SKIPPED, UNDECIDED

DATA = Path(__file__).parent / "data"
# avg µs on the (idle, busy) host, by configuration.
AVG_US = {
    "vanilla": (300, 900),
    "boost-rt-unmodified": (300, 400),
    "boost-rt": (300, 330),
    "boost-ext": (300, 340),
    "static-rt": (300, 320),
    "host-native": (80, 90),
}
SHARES = {
    "vanilla": {"host_beside_spinning_share": 0.8},
    "boost-rt": {"host_beside_busy_guest_share": 0.7, "host_beside_rogue_share": 0.75},
    "boost-ext": {"host_beside_busy_guest_share": 0.72, "host_beside_rogue_share": 0.76},
    "static-rt": {"host_beside_busy_guest_share": 0.5},
}


def cyclictest_output(avg_us):
    """The recorded run, with another average: the rest of it is what a real file has."""
    output = json.loads((DATA / "cyclictest.json").read_text())
    output["thread"]["0"]["avg"] = avg_us
    return output


def demo_run(out, rounds=3, wanted=3, change=None, **meta):
    """A stored run of `demo`; change(raw, configuration, round) edits one configuration's raw outputs."""
    demo = scenario.load("demo")
    store.start(
        out, store.Meta(**{**dict(scenario="demo", arch="x86_64", kernel="7", host="emulated", rounds=wanted,
                                  without=""), **meta})
    )  # fmt: skip
    for number in range(1, rounds + 1):
        for name, (idle, busy) in AVG_US.items():
            raw = {
                "2000_idle": {"guest": cyclictest_output(idle + number), "host": cyclictest_output(20)},
                "2000_busy": {"guest": cyclictest_output(busy + number), "host": cyclictest_output(30)},
                "shares": copy.deepcopy(SHARES.get(name, {})),
            }
            if change:
                change(raw, name, number)
            store.put(out, number, name, raw)
    return demo


def statuses(judged):
    return {v.name: v.status for v in judged.verdicts}


def test_a_good_run_passes_and_leaves_its_files(tmp_path):
    judged = report.make(demo_run(tmp_path), tmp_path)
    assert set(statuses(judged).values()) == {PASS}
    assert set(statuses(judged)) == {
        "boost_rt_excess_vs_vanilla",
        "boost_rt_unmodified_guest_excess_vs_vanilla",
        "boost_rt_avg_vs_static_rt",
        "host_avg_vs_static_rt",
        "boost_ext_excess_vs_vanilla",
        "busy_guest_host_share",
        "busy_guest_ext_host_share",
        "rogue_hold_host_share",
        "rogue_hold_ext_host_share",
    }
    assert results.read(tmp_path / "results.json") == judged
    excess = next(v for v in judged.verdicts if v.name == "boost_rt_excess_vs_vanilla")
    assert excess.value == pytest.approx(0.05)
    assert excess.beside["static-rt"] == pytest.approx(20 / 600)


def test_limits_are_those_that_were_promised():
    limits = {c.name: (c.relation, c.limit) for c in scenario.load("demo").checks}
    assert limits == {
        "boost_rt_excess_vs_vanilla": ("<=", 0.15),
        "boost_rt_unmodified_guest_excess_vs_vanilla": ("<=", 0.40),
        "boost_rt_avg_vs_static_rt": ("<=", 1.25),
        "host_avg_vs_static_rt": ("<=", 1.3),
        "boost_ext_excess_vs_vanilla": ("<=", 0.15),
        "busy_guest_host_share": (">=", 0.8),
        "busy_guest_ext_host_share": (">=", 0.8),
        "rogue_hold_host_share": (">=", 0.8),
        "rogue_hold_ext_host_share": (">=", 0.8),
    }


def test_a_hijacked_host_fails(tmp_path):
    def hijack(raw, name, _number):
        if name == "boost-rt":
            raw["shares"] = SHARES["static-rt"] | {"host_beside_rogue_share": 0.5}

    judged = report.make(demo_run(tmp_path, change=hijack), tmp_path)
    assert statuses(judged)["busy_guest_host_share"] == FAIL
    assert statuses(judged)["rogue_hold_host_share"] == FAIL


def test_no_boost_fails(tmp_path):
    def vanilla(raw, name, _number):
        if name.startswith("boost"):
            raw["2000_busy"]["guest"] = cyclictest_output(880)

    judged = report.make(demo_run(tmp_path, change=vanilla), tmp_path)
    assert [name for name, status in statuses(judged).items() if status == FAIL] == [
        "boost_rt_excess_vs_vanilla",
        "boost_rt_unmodified_guest_excess_vs_vanilla",
        "boost_rt_avg_vs_static_rt",
        "boost_ext_excess_vs_vanilla",
    ]


def test_a_load_that_does_not_load_is_undecided(tmp_path):
    def unloaded(raw, _name, _number):
        raw["2000_busy"]["guest"] = raw["2000_idle"]["guest"]

    judged = report.make(demo_run(tmp_path, change=unloaded), tmp_path)
    assert statuses(judged)["boost_rt_excess_vs_vanilla"] == UNDECIDED


def test_an_interrupted_run_never_passes(tmp_path):
    judged = report.make(demo_run(tmp_path, rounds=2), tmp_path)
    assert set(statuses(judged).values()) == {UNDECIDED}
    assert "only 2 of 3 rounds" in judged.verdicts[0].reason


def test_a_skipped_scenario_has_its_reason_and_no_pass(tmp_path):
    judged = report.make(demo_run(tmp_path, rounds=0, skipped="needs 2 CPUs, but the host has 1"), tmp_path)
    assert set(statuses(judged).values()) == {SKIPPED}
    assert "needs 2 CPUs" in report.text(scenario.load("demo"), tmp_path, judged)


def test_page_is_self_contained(tmp_path):
    report.make(demo_run(tmp_path), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 4
    for outside in ("<script", "<img", "@import", "<link"):
        assert outside not in page
    assert "µs, logarithmic" in page or "logarithmic" in page


def test_text_has_the_table_and_the_paths(tmp_path):
    demo = demo_run(tmp_path)
    text = report.text(demo, tmp_path, report.make(demo, tmp_path))
    (row,) = [line for line in text.splitlines() if line.startswith("boost-rt ")]
    assert "332" in row and "0.05" in row and "0.75" in row
    assert str(tmp_path / "report.html") in text
    assert "static-rt" in next(line for line in text.splitlines() if "busy_guest_host_share" in line)


def test_directory_without_a_run_is_one_line(tmp_path):
    with pytest.raises(store.StoreError, match="not a run of the lab"):
        store.meta(tmp_path)


def test_damaged_round_is_named(tmp_path):
    demo_run(tmp_path)
    (tmp_path / "raw" / "round-2-vanilla.json").write_text("{")
    with pytest.raises(store.StoreError, match="round 2: not JSON"):
        store.rounds(tmp_path, ["vanilla"])


def test_a_new_run_removes_the_old_one(tmp_path):
    report.make(demo_run(tmp_path), tmp_path)
    demo_run(tmp_path, rounds=1)
    assert not (tmp_path / "results.json").exists()
    assert len(list((tmp_path / "raw").glob("round-*"))) == len(AVG_US)


def test_judging_does_not_depend_on_files():
    meta = store.Meta("demo", "x86_64", "7", "emulated", 0, "")
    assert judge.judge(scenario.load("demo"), meta, []).results == ()


def test_other_work_beside_a_measurement_is_in_text_page_and_results(tmp_path):
    demo = demo_run(tmp_path)
    store.put_disturbance(tmp_path, 2, "boost-rt", "other processes took 1.0 of 2 CPUs (cc1 1.0)")
    store.put_disturbance(tmp_path, 3, "boost-rt", "")
    judged = report.make(demo, tmp_path)
    line = "2-boost-rt: other processes took 1.0 of 2 CPUs (cc1 1.0)"
    assert judged.disturbed == (line,)
    assert json.loads((tmp_path / "results.json").read_text())["disturbed"] == [line]
    assert line in report.text(demo, tmp_path, judged) and line in (tmp_path / "report.html").read_text()


def test_a_machine_that_died_is_told(tmp_path):
    demo = demo_run(tmp_path)
    for reason in ("guest lab: kernel bug: BUG: <x>", "host: no answer in 60 s"):
        store.put_death(tmp_path, reason)
    judged = report.make(demo, tmp_path)
    assert results.read(tmp_path / "results.json").died == judged.died
    line = "2 emulated machines died; their rounds were repeated: guest lab: kernel bug: BUG: <x>; host: no"
    assert line in report.text(demo, tmp_path, judged)
    assert "BUG: &lt;x&gt;" in (tmp_path / "report.html").read_text()
    assert demo_run(tmp_path) and not report.make(demo, tmp_path).died


@pytest.mark.parametrize("name", scenario.names())
def test_no_two_configurations_have_one_colour(name):
    names = [one.name for one in scenario.load(name).configurations]
    colours = [plots.colour(one, names) for one in names]
    assert len(set(colours)) == len(colours), colours


def test_a_configuration_keeps_its_colour_in_a_plot_that_lacks_others():
    drawn = {}

    class Axes:
        def bar(self, *_where, color, label, **_style):
            drawn[label] = color

        def __getattr__(self, _name):
            return lambda *_arguments, **_style: None

    series = SimpleNamespace(median=1.0, rounds=(1.0,))
    found = SimpleNamespace(
        configs=lambda: ["first", "second"], series=lambda name, _metric: series if name == "second" else None
    )
    assert plots._bars(plots.Bars("title", {"metric_us": "metric"}, "us"), Axes(), found)
    assert drawn == {"second": plots.colour("second", ["first", "second"])}
    assert drawn["second"] != plots.colour("second", ["second"])


def test_a_table_that_would_be_too_wide_is_turned():
    for name in ("demo", "io"):
        one = scenario.load(name)
        shown = report.table(one, [])
        configurations, columns = len(one.configurations), len(one.columns)
        wide = [len(shown), len(shown[0])] == [1 + configurations, 1 + columns]
        assert wide == (columns <= report.COLUMNS_MAX)
        assert {row[0] for row in shown} | set(shown[0]) >= {c.name for c in one.configurations}
