# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Computes results from raw outputs. This is pure, so it can be repeated without any machine."""

from collections.abc import Sequence
from dataclasses import replace

from .results import Results, Series, unit_of
from .scenario import Raw, Scenario
from .store import Meta
from .verdicts import PASS, UNDECIDED, PartialRound, Verdict


def judge(scenario: Scenario, meta: Meta, rounds: Sequence[dict[str, Raw]]) -> Results:
    """Results of the complete `rounds` (configuration -> raw outputs)."""
    measured = [
        PartialRound({c: scenario.metrics(c, raw) for c, raw in one.items()}, meta.left_out) for one in rounds
    ]
    if meta.skipped:
        verdicts = [check.skip(meta.skipped) for check in scenario.checks]
    else:
        verdicts = [check.judge(measured) for check in scenario.checks]
    if not meta.skipped and len(rounds) < meta.rounds:
        verdicts = [_incomplete(v, len(rounds), meta.rounds) for v in verdicts]
    return Results(
        scenario=meta.scenario,
        arch=meta.arch,
        kernel=meta.kernel,
        host=meta.host,
        results=tuple(_series(scenario, measured)),
        verdicts=tuple(verdicts),
        left_out=dict(meta.left_out),
    )


def _incomplete(verdict: Verdict, done: int, wanted: int) -> Verdict:
    if verdict.status != PASS:
        return verdict
    return replace(verdict, status=UNDECIDED, reason=f"only {done} of {wanted} rounds were completed")


def _series(scenario: Scenario, measured: Sequence[dict[str, dict[str, float]]]) -> list[Series]:
    if not measured:
        return []
    return [
        Series(c.name, metric, unit_of(metric), tuple(one[c.name][metric] for one in measured))
        for c in scenario.configurations
        for metric in measured[0].get(c.name, {})
        if all(metric in one[c.name] for one in measured)
    ]
