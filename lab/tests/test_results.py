# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import copy
import json

import pytest

from paracord_lab import results
from paracord_lab.results import Results, ResultsError, Series
from paracord_lab.verdicts import SKIPPED, Verdict

# The example of the design's section on the lab: what a file must at least have.
SCHEMA_1 = {
    "schema": 1,
    "scenario": "busy-host",
    "arch": "x86_64",
    "kernel": "7.2",
    "host": "emulated",
    "results": [
        {
            "config": "vanilla",
            "metric": "guest_wakeup_avg_us",
            "unit": "us",
            "median": 850.0,
            "rounds": [830.0, 850.0, 901.0],
        }
    ],
    "verdicts": [
        {
            "name": "boost_rt_excess_vs_vanilla",
            "status": "pass",
            "value": 0.09,
            "limit": 0.15,
            "unit": "ratio",
        }
    ],
}


def broken(change):
    data = copy.deepcopy(SCHEMA_1)
    change(data)
    return data


def test_reads_the_schema_of_the_design(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(SCHEMA_1))
    read = results.read(path)
    assert read.series("vanilla", "guest_wakeup_avg_us").median == 850
    assert read.verdicts[0].status == "pass"


def test_written_is_read_back(tmp_path):
    written = Results(
        scenario="demo",
        arch="x86_64",
        kernel="7.2",
        host="native",
        results=(Series("vanilla", "a_us", "us", (1.0, 5.0, 3.0)),),
        verdicts=(
            Verdict("v", "pass", 0.1, 0.2, "ratio", ">=", (0.1, 0.1), beside={"static-rt": 0.5}),
            Verdict("w", SKIPPED, None, 0.2, "ratio", reason="no module"),
        ),
        left_out={"boost-ext": "the kernel has no sched_ext"},
    )
    path = tmp_path / "results.json"
    results.write(written, path)
    assert results.read(path) == written
    assert list(tmp_path.iterdir()) == [path]
    data = json.loads(path.read_text())
    assert data["results"][0]["median"] == 3.0
    assert data["left_out"] == [{"config": "boost-ext", "reason": "the kernel has no sched_ext"}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=2), "schema is 2, but this program reads 1"),
        (lambda d: d.update(host="cloud"), "host is 'cloud', expected one of emulated, native, simulated"),
        (lambda d: d.pop("kernel"), "kernel is missing"),
        (lambda d: d.update(results={}), "results is missing or not a list"),
        (lambda d: d["results"][0].update(rounds=[]), r"results\[0\]: rounds is empty"),
        (lambda d: d["results"][0].update(rounds=[1, "2"]), r"results\[0\]: rounds\[1\]: expected a finite"),
        (
            lambda d: d["results"][0].update(median=1),
            r"results\[0\]: median is 1.0, but the rounds give 850.0",
        ),
        (lambda d: d["results"].append(d["results"][0]), r"results\[1\]: .* occurs a second time"),
        (lambda d: d["verdicts"][0].update(status="ok"), r"verdicts\[0\]: status is 'ok'"),
        (lambda d: d["verdicts"][0].update(value=None), r"verdicts\[0\]: a verdict 'pass' needs a value"),
        (lambda d: d["verdicts"][0].update(status="skipped", value=None), "needs a reason"),
        (lambda d: d["verdicts"][0].update(limit=True), r"verdicts\[0\]: limit: expected a finite number"),
        (lambda d: d.update(left_out=[{"config": "ext"}]), r"left_out\[0\]: reason is missing"),
        (lambda d: d.update(left_out={"ext": "no"}), "left_out is missing or not a list"),
        (
            lambda d: d.update(left_out=[{"config": "vanilla", "reason": "no"}]),
            r"results\[0\]: vanilla is left out, but has values",
        ),
        (lambda d: d["verdicts"][0].update(relation="<"), r"verdicts\[0\]: relation is '<'"),
    ],
)
def test_errors_name_the_place(change, message):
    with pytest.raises(ResultsError, match=message):
        results.from_json(broken(change), "f.json")


def test_not_json_names_file_and_line(tmp_path):
    path = tmp_path / "results.json"
    path.write_text('{\n "schema": 1\n "arch": 2}')
    with pytest.raises(ResultsError, match=r"results.json:3: not JSON"):
        results.read(path)


def test_missing_file_is_one_line(tmp_path):
    with pytest.raises(ResultsError, match="No such file"):
        results.read(tmp_path / "none.json")


def test_units_come_from_names():
    assert results.unit_of("guest_wakeup_avg_us") == "us"
    with pytest.raises(ResultsError, match="does not end in a unit"):
        results.unit_of("latency")
