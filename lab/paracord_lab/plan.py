# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What a run still has to measure and record, in order."""

from collections.abc import Sequence

from .scenario import Configuration, Scenario
from .selection import Selection


def rotated(configurations: Sequence[Configuration], round_index: int) -> list[Configuration]:
    """
    The configurations in the order of a round. Each round starts with another one, so that none
    always runs first on a fresh machine.
    """
    start = round_index % len(configurations)
    return [*configurations[start:], *configurations[:start]]


class Plan:
    """What is still to be measured and recorded, in order."""

    def __init__(self, scenario: Scenario, selection: Selection, rounds: int, may_extend: bool = False):
        self.scenario = scenario
        self.selection = selection
        self.configurations = selection.configurations
        self.rounds = rounds
        # Half as many rounds more. A noisy machine needs more rounds, and a hopeless one must come
        # to an end.
        self.extra_left = (rounds + 1) // 2 if may_extend else 0
        self.steps = [(n, c) for n in range(rounds) for c in rotated(self.configurations, n)]
        self.traces = [name for name in scenario.traced if name not in selection.left_out]
        self.started = False
        self.steps_done = 0

    def back_to_round_start(self) -> None:
        """
        Goes back to the start of the round. Configurations are compared within a round, so all of
        them are measured on the same machines.
        """
        if self.steps:
            first = self.steps[0][0]
            later = [step for step in self.steps if step[0] > first]
            self.steps = [(first, c) for c in rotated(self.configurations, first)] + later

    def extend(self) -> None:
        """A round more: the ones so far leave a verdict undecided, or are few and contradict each other."""
        self.steps += [(self.rounds, c) for c in rotated(self.configurations, self.rounds)]
        self.rounds += 1
        self.extra_left -= 1
