# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Verdicts: pass, fail, undecided, skipped. Judging is pure: it computes a verdict from the values of
rounds.

Undecided means that the rounds scatter so much that the median could as well lie on the other side of the
limit. Skipped means that this host cannot measure what the verdict looks at. Neither is ever a pass.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from .stats import StatsError, median_error, ratio

PASS, FAIL, UNDECIDED, SKIPPED = "pass", "fail", "undecided", "skipped"
STATUSES = (PASS, FAIL, UNDECIDED, SKIPPED)
RELATIONS = ("<=", ">=")

EXIT_PASSED, EXIT_FAILED, EXIT_OPEN, EXIT_NOTHING = 0, 1, 3, 4

# The largest share of rounds that may be without a value (because the reference was disturbed).
# They are left out, and the verdict says so.
MEANINGLESS_MAX = 0.26

# With fewer rounds, their scatter is not known. If some pass and some fail, more rounds are made.
FEW_ROUNDS = 5

# One round: configuration -> metric -> value.
Round = Mapping[str, Mapping[str, float]]


class LeftOut(KeyError):
    """A check looks at a configuration that is left out on this host."""

    def __init__(self, configuration: str, reason: str) -> None:
        super().__init__(configuration)
        self.configuration = configuration
        self.line = f"left out with {configuration}: {reason}"


class PartialRound(dict[str, Mapping[str, float]]):
    """A round without the configurations in `left_out` (reason by name). Who looks at one is told so."""

    def __init__(self, measured: Round, left_out: Mapping[str, str]) -> None:
        super().__init__(measured)
        self.left_out = left_out

    def __missing__(self, configuration: str) -> Mapping[str, float]:
        if configuration in self.left_out:
            raise LeftOut(configuration, self.left_out[configuration])
        raise KeyError(configuration)


@dataclass(frozen=True)
class Verdict:
    """The verdict of a check. `beside`: the value for other configurations, only for the reader."""

    name: str
    status: str
    value: float | None
    limit: float
    unit: str
    relation: str = "<="
    rounds: tuple[float, ...] = ()
    reason: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)


def of(metric: str, configuration: str) -> Callable[[Round], float]:
    """The value of a check: a metric in one configuration."""
    return lambda one: one[configuration][metric]


def versus(metric: str, configuration: str, reference: str) -> Callable[[Round], float]:
    """
    The value of a check: a metric in one configuration relative to the same metric in another.
    """
    return lambda one: ratio(one[configuration][metric], one[reference][metric])


@dataclass(frozen=True)
class Check:
    """
    A promise of a scenario: `value(round)` has the `relation` to `limit` (both in `unit`).

    every: the check must hold in each round (for counts of things that must never happen).
    Otherwise the median of the rounds counts. beside: the values for other configurations, which
    are printed next to the verdict.
    """

    name: str
    value: Callable[[Round], float]
    relation: str
    limit: float
    unit: str = "ratio"
    every: bool = False
    beside: Mapping[str, Callable[[Round], float]] = field(default_factory=dict)

    def __post_init__(self):
        if self.relation not in RELATIONS:
            raise ValueError(f"check {self.name}: relation {self.relation!r} is not one of {RELATIONS}")

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.relation == "<=" else value >= self.limit

    def needs_rounds(self, verdict: Verdict) -> bool:
        """
        Whether another round could change the verdict: it is undecided, or it is based on few
        rounds that contradict each other.
        """
        few = not self.every and len(verdict.rounds) < FEW_ROUNDS
        return verdict.status == UNDECIDED or (few and len({self.holds(v) for v in verdict.rounds}) == 2)

    def skip(self, reason: str) -> Verdict:
        return Verdict(self.name, SKIPPED, None, self.limit, self.unit, self.relation, reason=reason)

    def judge(self, rounds: Sequence[Round]) -> Verdict:
        """
        Verdict over all rounds. What cannot be computed is undecided, and what looks at a configuration that
        is left out is skipped, both with the reason.
        """
        try:
            values, meaningless = self._values(rounds)
        except LeftOut as left_out:
            return self.skip(left_out.line)
        except KeyError as missing:
            return self._undecided(f"not measured: {missing.args[0]}")
        if meaningless and (self.every or len(meaningless) > MEANINGLESS_MAX * len(rounds)):
            return self._undecided(meaningless[0])
        if not values:
            return self._undecided("no round was completed")
        if any(not math.isfinite(v) for v in values):
            return self._undecided("a round has no finite value")
        beside = {name: self._median_of(of, rounds) for name, of in self.beside.items()}
        beside = {name: value for name, value in beside.items() if value is not None}
        status, value, reason = self._every(values) if self.every else self._median(values)
        if meaningless:
            left_out = f"{len(meaningless)} of {len(rounds)} rounds left out: {meaningless[0]}"
            reason = f"{reason}; {left_out}" if reason else left_out
        return Verdict(self.name, status, value, self.limit, self.unit, self.relation, values, reason, beside)

    def _values(self, rounds: Sequence[Round]) -> tuple[tuple[float, ...], list[str]]:
        """
        The values of the rounds that have one, and the reasons why the other rounds have none.
        """
        values, meaningless = [], []
        for one in rounds:
            try:
                values.append(self.value(one))
            except StatsError as error:
                meaningless.append(str(error))
        return tuple(values), meaningless

    def _every(self, values: tuple[float, ...]) -> tuple[str, float, str]:
        worst = max(values) if self.relation == "<=" else min(values)
        return (PASS if self.holds(worst) else FAIL), worst, ""

    def _median(self, values: tuple[float, ...]) -> tuple[str, float, str]:
        centre = median(values)
        # If all rounds are on one side of the limit, there is no doubt about the median's side,
        # however far apart they are.
        if len(values) > 1 and len({self.holds(v) for v in values}) == 1:
            return (PASS if self.holds(centre) else FAIL), centre, ""
        error = median_error(values)
        if abs(centre - self.limit) <= error:
            why = "one round only" if len(values) == 1 else f"median {centre:.3g} ± {error:.2g}"
            return UNDECIDED, centre, f"{why}: the limit is within the rounds' spread"
        return (PASS if self.holds(centre) else FAIL), centre, ""

    def _undecided(self, reason: str) -> Verdict:
        return Verdict(self.name, UNDECIDED, None, self.limit, self.unit, self.relation, reason=reason)

    @staticmethod
    def _median_of(of: Callable[[Round], float], rounds: Sequence[Round]) -> float | None:
        try:
            return median(of(r) for r in rounds)
        except (KeyError, StatsError):
            return None


def summary(verdicts: Sequence[Verdict]) -> str:
    """The last line of a run: `N passed, N failed, N skipped`. Undecided verdicts are named."""
    count = {status: sum(v.status == status for v in verdicts) for status in STATUSES}
    line = f"{count[PASS]} passed, {count[FAIL]} failed, {count[SKIPPED]} skipped"
    if count[SKIPPED]:
        line += " (not measured on this host: this is not a pass)"
    if count[UNDECIDED]:
        line += f", {count[UNDECIDED]} undecided (rounds too far apart: this is not a pass)"
    return line


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """
    0 if every verdict is a pass (one at least), 1 if one failed, 4 if all are skipped, 3 if none failed but
    some stay open.
    """
    if not verdicts or any(v.status == FAIL for v in verdicts):
        return EXIT_FAILED
    if all(v.status == SKIPPED for v in verdicts):
        return EXIT_NOTHING
    return EXIT_PASSED if all(v.status == PASS for v in verdicts) else EXIT_OPEN
