# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The order of measurements: rotated, repeated after a death, extended while a verdict is undecided."""

from paracord_lab.plan import Plan
from paracord_lab.scenario import Configuration, Scenario
from paracord_lab.selection import Selection


class Three(Scenario):
    configurations = (Configuration("a"), Configuration("b"), Configuration("c"))


def plan_of(rounds, scenario=None, left_out=(), **options):
    scenario = scenario or Three()
    measured = tuple(c for c in scenario.configurations if c.name not in left_out)
    selection = Selection(measured, left_out=dict.fromkeys(left_out, "the kernel has none"))
    return Plan(scenario, selection, rounds, **options)


def order(plan):
    return [f"{n}{c.name}" for n, c in plan.steps]


def test_each_round_starts_with_another_configuration():
    assert order(plan_of(2)) == ["0a", "0b", "0c", "1b", "1c", "1a"]


def test_a_death_repeats_the_whole_round():
    plan = plan_of(2)
    del plan.steps[:2]
    plan.back_to_round_start()
    assert order(plan) == ["0a", "0b", "0c", "1b", "1c", "1a"]


def test_half_as_many_rounds_again_and_no_more():
    plan = plan_of(3, may_extend=True)
    plan.steps.clear()
    added = []
    while plan.extra_left:
        plan.extend()
        added += order(plan)
        plan.steps.clear()
    assert added == ["3a", "3b", "3c", "4b", "4c", "4a"]
    assert plan.rounds == 5


def test_an_asked_for_number_of_rounds_is_that_number():
    assert plan_of(3).extra_left == 0


def test_what_is_left_out_is_neither_measured_nor_repeated_nor_traced():
    three = Three()
    three.traced = ("a", "b")
    plan = plan_of(2, three, left_out=("b",), may_extend=True)
    assert order(plan) == ["0a", "0c", "1c", "1a"]
    assert plan.traces == ["a"]
    plan.back_to_round_start()
    plan.extend()
    assert order(plan) == ["0a", "0c", "1c", "1a", "2a", "2c"]
