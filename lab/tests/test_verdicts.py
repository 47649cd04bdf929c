# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import pytest

from paracord_lab import stats
from paracord_lab.verdicts import (
    FAIL,
    PASS,
    SKIPPED,
    UNDECIDED,
    Check,
    PartialRound,
    Verdict,
    exit_code,
    summary,
)


def at_most(limit, **options):
    return Check("latency", lambda r: r["boost-rt"]["x_us"], "<=", limit, "us", **options)


def rounds(*values):
    return [{"boost-rt": {"x_us": v}} for v in values]


def test_pass():
    verdict = at_most(0.15).judge(rounds(0.05, 0.06, 0.09))
    assert (verdict.status, verdict.value) == (PASS, 0.06)


def test_pass_at_the_limit_itself():
    assert at_most(0.15).judge(rounds(0.15, 0.15, 0.15)).status == PASS


def test_pass_despite_one_outlier():
    assert at_most(0.15).judge(rounds(0.05, 0.06, 2.0)).status == PASS


def test_fail():
    assert at_most(0.15).judge(rounds(0.4, 0.3, 0.5)).status == FAIL


def test_fail_although_the_mean_would_pass():
    assert at_most(0.15).judge(rounds(0.0, 0.2, 0.2)).status == FAIL


def test_undecided_when_the_spread_covers_the_limit():
    verdict = at_most(0.15).judge(rounds(0.05, 0.12, 0.3))
    assert verdict.status == UNDECIDED
    assert "spread" in verdict.reason


def test_wide_spread_on_one_side_of_the_limit_is_decided():
    assert at_most(1.3).judge(rounds(0.1, 0.5, 1.2)).status == PASS


def needs_rounds(check, *values):
    return check.needs_rounds(check.judge(rounds(*values)))


@pytest.mark.parametrize("values", [(1.48, 1.41, 1.02), (1.1, 1.11, 1.42), (1.1, 1.2, 1.35)])
def test_few_rounds_that_contradict_each_other_need_more(values):
    """Passes and failures alike: to go on after failures only would favour passes."""
    assert needs_rounds(at_most(1.3), *values)
    assert not needs_rounds(at_most(1.3, every=True), *values), "one round that fails is a failure for good"


def test_rounds_that_agree_or_are_many_need_no_more():
    assert not needs_rounds(at_most(1.3), 1.48, 1.41, 1.42)
    assert not needs_rounds(at_most(1.3), 1.1, 1.11, 1.12)
    assert not needs_rounds(at_most(1.3), 1.48, 1.47, 1.49, 1.48, 1.02)
    assert needs_rounds(at_most(1.3), 1.48, 1.2, 1.35, 1.1, 1.02, 1.5), "undecided"


def test_undecided_after_one_round():
    assert at_most(0.15).judge(rounds(0.01)).status == UNDECIDED


def test_undecided_without_rounds():
    assert at_most(0.15).judge([]).status == UNDECIDED


def test_undecided_when_not_measured_names_the_metric():
    verdict = at_most(0.15).judge([{"boost-rt": {}}])
    assert (verdict.status, verdict.reason) == (UNDECIDED, "not measured: x_us")


def test_undecided_when_the_load_did_not_load():
    check = Check("e", lambda r: stats.excess_ratio(1, 1, 1, 1), "<=", 0.15)
    assert check.judge(rounds(1, 2)).status == UNDECIDED


def relative_to_limit(one):
    """A value that is meaningless in a round whose reference is 0."""
    return stats.ratio(1.0, one["boost-rt"]["x_us"])


def test_one_disturbed_round_of_four_is_left_out_and_told():
    check = Check("e", relative_to_limit, "<=", 0.5)
    verdict = check.judge(rounds(10, 0, 10, 10))
    assert (verdict.status, verdict.value) == (PASS, 0.1)
    assert "1 of 4 rounds left out" in verdict.reason


def test_undecided_when_more_rounds_are_disturbed():
    check = Check("e", relative_to_limit, "<=", 0.5)
    assert check.judge(rounds(10, 0, 10)).status == UNDECIDED
    assert check.judge(rounds(10, 0, 0, 10)).status == UNDECIDED


def test_no_round_is_left_out_where_every_one_must_hold():
    check = Check("e", relative_to_limit, "<=", 0.5, every=True)
    assert check.judge(rounds(10, 0, 10, 10)).status == UNDECIDED


def test_undecided_for_infinite_values():
    assert at_most(1).judge(rounds(float("inf"), 0, 0)).status == UNDECIDED


def test_every_round_must_hold():
    never = at_most(0, every=True)
    assert never.judge(rounds(0, 0, 0)).status == PASS
    assert never.judge(rounds(0, 1, 0)).status == FAIL
    assert never.judge(rounds(0, 1, 0)).value == 1


def test_lower_limits():
    check = Check("share", lambda r: r["boost-rt"]["x_us"], ">=", 0.8)
    assert check.judge(rounds(0.9, 0.95, 0.85)).status == PASS
    assert check.judge(rounds(0.6, 0.65, 0.7)).status == FAIL


def test_skipped_has_its_reason():
    verdict = at_most(1).skip("no /dev/kvm")
    assert (verdict.status, verdict.reason) == (SKIPPED, "no /dev/kvm")


def test_beside_is_the_median_of_another_configuration():
    check = at_most(1, beside={"static-rt": lambda r: r["static-rt"]["x_us"]})
    data = [{"boost-rt": {"x_us": 0.5}, "static-rt": {"x_us": v}} for v in (3.0, 1.0, 2.0)]
    assert check.judge(data).beside == {"static-rt": 2.0}
    assert check.judge(rounds(0.5, 0.5)).beside == {}


def test_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="relation"):
        Check("x", lambda r: 0.0, "<", 1)


def verdict(status):
    return Verdict("x", status, 1.0, 1.0, "ratio")


@pytest.mark.parametrize("other", [FAIL, UNDECIDED, SKIPPED])
def test_exit_code_is_zero_only_if_all_pass(other):
    assert exit_code([verdict(PASS), verdict(PASS)]) == 0
    assert exit_code([verdict(PASS), verdict(other)]) == (1 if other == FAIL else 3)
    assert exit_code([verdict(FAIL), verdict(other)]) == 1
    assert exit_code([]) != 0


def test_a_run_that_measured_nothing_has_an_exit_code_of_its_own():
    """`make demo` takes 3 for an end without an error: something was measured, and nothing failed."""
    assert exit_code([verdict(SKIPPED), verdict(SKIPPED)]) == 4
    assert exit_code([verdict(SKIPPED), verdict(UNDECIDED)]) == 3


def partial(*values):
    """Rounds of a host that cannot measure `boost-ext`."""
    left_out = {"boost-ext": "the kernel has no sched_ext"}
    return [PartialRound({"boost-rt": {"x_us": v}}, left_out) for v in values]


def test_a_verdict_that_looks_at_what_is_left_out_is_skipped_with_the_reason():
    check = Check("e", lambda one: one["boost-ext"]["x_us"] / one["boost-rt"]["x_us"], "<=", 1)
    verdict = check.judge(partial(1.0, 2.0))
    assert (verdict.status, verdict.value) == (SKIPPED, None)
    assert verdict.reason == "left out with boost-ext: the kernel has no sched_ext"
    assert not check.needs_rounds(verdict)


def test_a_verdict_that_only_shows_what_is_left_out_is_judged_without_it():
    check = at_most(3, beside={"boost-ext": lambda one: one["boost-ext"]["x_us"]})
    verdict = check.judge(partial(1.0, 2.0))
    assert (verdict.status, verdict.beside) == (PASS, {})


def test_a_configuration_that_is_simply_not_there_is_undecided():
    check = Check("e", lambda one: one["static-rt"]["x_us"], "<=", 1)
    assert check.judge(partial(1.0)).status == UNDECIDED


def test_summary_counts_and_names_undecided():
    line = summary([verdict(PASS), verdict(PASS), verdict(FAIL), verdict(SKIPPED)])
    assert line == "2 passed, 1 failed, 1 skipped (not measured on this host: this is not a pass)"
    assert summary([verdict(PASS)]) == "1 passed, 0 failed, 0 skipped"
    assert "1 undecided" in summary([verdict(UNDECIDED)])
