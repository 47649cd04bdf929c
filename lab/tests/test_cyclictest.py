# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Against the JSON of a real run: 1000 loops of 1 ms (tests/data/cyclictest.json)."""

import copy
import json
from pathlib import Path

import pytest

from paracord_lab import cyclictest

DATA = Path(__file__).parent / "data" / "cyclictest.json"


@pytest.fixture
def run():
    return json.loads(DATA.read_text())


def test_latency(run):
    latency = cyclictest.latency(run)
    assert (latency.avg_us, latency.max_us) == (32.06, 640)
    assert sum(latency.histogram.values()) == 1000
    assert latency.overflows == 0


def test_metrics_end_in_their_unit(run):
    assert cyclictest.metrics("guest_busy", run) == {
        "guest_busy_avg_us": 32.06,
        "guest_busy_p99_us": 107,
        "guest_busy_max_us": 640,
    }


def test_p99_is_the_maximum_when_too_many_wakeups_left_the_histogram(run):
    late = copy.deepcopy(run)
    (thread,) = late["thread"].values()
    thread["cycles"] = 1200
    assert cyclictest.latency(late).overflows == 200
    assert cyclictest.latency(late).p99_us == 640


def test_text_before_the_json_is_passed_over(run):
    assert cyclictest.parse("warning: x\n" + json.dumps(run)) == run


@pytest.mark.parametrize(
    "text", ["", "cyclictest: not found", '{"thread": {}}', '{"thread": {"0": {}}}', "{"]
)
def test_no_result_is_an_error_with_the_last_words(text):
    with pytest.raises(cyclictest.CyclictestError, match="no result"):
        cyclictest.parse(text)


def test_duration_is_a_number_of_loops():
    assert " -i 502 -l 3985 " in cyclictest.command("x", 500, 2.0)
