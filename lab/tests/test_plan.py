# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The order of measurements: rotated, repeated after a death, extended while a verdict is undecided."""

from paracord_lab.plan import Plan
from paracord_lab.scenario import Configuration, Scenario


class Three(Scenario):
    configurations = (Configuration("a"), Configuration("b"), Configuration("c"))


def order(plan):
    return [f"{n}{c.name}" for n, c in plan.steps]


def test_each_round_starts_with_another_configuration():
    assert order(Plan(Three(), 2)) == ["0a", "0b", "0c", "1b", "1c", "1a"]


def test_a_death_repeats_the_whole_round():
    plan = Plan(Three(), 2)
    del plan.steps[:2]
    plan.back_to_round_start()
    assert order(plan) == ["0a", "0b", "0c", "1b", "1c", "1a"]


def test_half_as_many_rounds_again_and_no_more():
    plan = Plan(Three(), 3, may_extend=True)
    plan.steps.clear()
    added = []
    while plan.extra_left:
        plan.extend()
        added += order(plan)
        plan.steps.clear()
    assert added == ["3a", "3b", "3c", "4b", "4c", "4a"]
    assert plan.rounds == 5


def test_an_asked_for_number_of_rounds_is_that_number():
    assert Plan(Three(), 3).extra_left == 0
