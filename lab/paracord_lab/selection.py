# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Which configurations of a scenario a host can measure, and why the others are left out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .needs import Facts, lacking
from .scenario import Configuration, Scenario
from .verdicts import LeftOut, PartialRound, Round


@dataclass(frozen=True)
class Selection:
    """
    skipped: why nothing of the scenario is measured; empty if something is.
    left_out: reason by configuration.
    """

    configurations: tuple[Configuration, ...]
    skipped: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """For the terminal."""
        if self.skipped:
            return [f"skipped: {self.skipped}"]
        return [left_out_line(name, reason) for name, reason in self.left_out.items()]


def left_out_line(configuration: str, reason: str) -> str:
    return f"left out: {configuration}: {reason}"


def select(scenario: Scenario, facts: Facts | None) -> Selection:
    """
    What a host measures of a scenario. facts: None if the host is emulated: it has everything.

    If every verdict would look at a configuration that is left out, nothing is measured: a run of many
    minutes could not decide anything.
    """
    everything = tuple(scenario.configurations)
    if facts is None:
        return Selection(everything)
    if scenario.board:
        return Selection(everything, skipped=f"needs the emulated board {scenario.board}")
    lack = lacking(scenario.needs, facts)
    if lack:
        return Selection(everything, skipped=lack)
    left_out = {one.name: reason for one in everything if (reason := lacking(one.needs, facts))}
    measured = tuple(one for one in everything if one.name not in left_out)
    needed = _needed_by_verdicts(scenario, measured, left_out)
    if left_out and all(needed):
        names = dict.fromkeys(needed)
        reasons = "; ".join(dict.fromkeys(left_out[name] for name in names))
        skipped = f"every verdict needs {' or '.join(names)}: {reasons}"
        return Selection(everything, skipped=skipped, left_out=left_out)
    return Selection(measured, left_out=left_out)


class _Anything(dict):
    """Metrics of a configuration that is measured: each has a value, whatever its name is."""

    def __missing__(self, _metric: str) -> float:
        return 1.0


def _needed_by_verdicts(
    scenario: Scenario, measured: Sequence[Configuration], left_out: Mapping[str, str]
) -> list[str]:
    """For each check the configuration that it looks at although it is left out; empty if there is none."""
    one = PartialRound({configuration.name: _Anything() for configuration in measured}, left_out)
    return [_left_out_of(check.value, one) for check in scenario.checks]


def _left_out_of(value: Callable[[Round], float], one: PartialRound) -> str:
    try:
        value(one)
    except LeftOut as left_out:
        return left_out.configuration
    except (ArithmeticError, LookupError, ValueError):
        # Made-up metrics have no meaning. Which configurations a check looks at is all that counts here.
        pass
    return ""
