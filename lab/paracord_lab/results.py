# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""results.json, schema 1: what a scenario has measured, and how it was judged."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .verdicts import RELATIONS, SKIPPED, STATUSES, UNDECIDED, Verdict

SCHEMA = 1
# simulated: the results of crates/sim, which have no architecture.
HOST_KINDS = ("emulated", "native", "simulated")
# The ending of a metric's name, and how the unit is shown to a reader.
UNITS = {
    "ns": "ns",
    "us": "µs",
    "ms": "ms",
    "s": "s",
    "count": "number",
    "mhz": "MHz",
    "mhzps": "MHz/s",
    "mw": "mW",
    "share": "share of CPU time",
    "ratio": "ratio",
}
# The tolerance for a stored median, although it is written with full precision.
MEDIAN_TOLERANCE = 1e-9


class ResultsError(ValueError):
    """A results file does not follow schema 1. The text names the place."""


@dataclass(frozen=True)
class Series:
    """One metric of one configuration: one value per round, in `unit`."""

    config: str
    metric: str
    unit: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)


@dataclass(frozen=True)
class Results:
    scenario: str
    arch: str
    kernel: str
    host: str
    results: tuple[Series, ...]
    verdicts: tuple[Verdict, ...]
    # Why machines died during the run, one line each. Their rounds were repeated.
    died: tuple[str, ...] = ()
    # What else the machine did, one line for each measurement that was disturbed.
    disturbed: tuple[str, ...] = ()
    # Configurations that the host cannot measure, each with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict)

    def series(self, config: str, metric: str) -> Series | None:
        return next((s for s in self.results if (s.config, s.metric) == (config, metric)), None)

    def configs(self) -> list[str]:
        return list(dict.fromkeys(s.config for s in self.results))


def unit_of(metric: str) -> str:
    """The unit of a metric, which is the ending of its name (`_us`, `_count`, …)."""
    suffix = metric.rsplit("_", 1)[-1]
    if suffix not in UNITS:
        raise ResultsError(f"metric {metric!r} does not end in a unit ({', '.join(UNITS)})")
    return suffix


def to_json(results: Results) -> dict:
    return {
        "schema": SCHEMA,
        "scenario": results.scenario,
        "arch": results.arch,
        "kernel": results.kernel,
        "host": results.host,
        "results": [
            {
                "config": s.config,
                "metric": s.metric,
                "unit": s.unit,
                "median": s.median,
                "rounds": list(s.rounds),
            }
            for s in results.results
        ],
        "verdicts": [_verdict_to_json(v) for v in results.verdicts],
        **({"died": list(results.died)} if results.died else {}),
        **({"disturbed": list(results.disturbed)} if results.disturbed else {}),
        **({"left_out": _left_out_to_json(results)} if results.left_out else {}),
    }


def _left_out_to_json(results: Results) -> list[dict]:
    return [{"config": config, "reason": reason} for config, reason in results.left_out.items()]


def _verdict_to_json(verdict: Verdict) -> dict:
    data = {
        "name": verdict.name,
        "status": verdict.status,
        "value": verdict.value,
        "limit": verdict.limit,
        "unit": verdict.unit,
        "relation": verdict.relation,
        "rounds": list(verdict.rounds),
    }
    if verdict.reason:
        data["reason"] = verdict.reason
    if verdict.beside:
        data["beside"] = dict(verdict.beside)
    return data


def write(results: Results, path: Path) -> None:
    """Writes the file in one step, so that a reader never sees an incomplete file."""
    data = to_json(results)
    from_json(data, str(path))
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    temporary.replace(path)


def read(path: Path) -> Results:
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    return from_json(data, str(path))


def from_json(data: object, where: str) -> Results:
    """Reads and checks everything. An error names the file, the place and what was expected."""
    top = _object(data, where)
    if top.get("schema") != SCHEMA:
        raise ResultsError(f"{where}: schema is {top.get('schema')!r}, but this program reads {SCHEMA}")
    host = _string(top, "host", where)
    if host not in HOST_KINDS:
        raise ResultsError(f"{where}: host is {host!r}, expected one of {', '.join(HOST_KINDS)}")
    results = tuple(
        _series(item, f"{where}: results[{i}]") for i, item in enumerate(_list(top, "results", where))
    )
    seen = set()
    for i, series in enumerate(results):
        key = (series.config, series.metric)
        if key in seen:
            raise ResultsError(f"{where}: results[{i}]: {series.config}/{series.metric} occurs a second time")
        seen.add(key)
    verdicts = tuple(
        _verdict(item, f"{where}: verdicts[{i}]") for i, item in enumerate(_list(top, "verdicts", where))
    )
    names = {key: _string(top, key, where) for key in ("scenario", "arch", "kernel")}
    lines = {key: tuple(map(str, _list(top, key, where))) for key in ("died", "disturbed") if key in top}
    left_out = _left_out(_list(top, "left_out", where) if "left_out" in top else [], where)
    for i, series in enumerate(results):
        if series.config in left_out:
            raise ResultsError(f"{where}: results[{i}]: {series.config} is left out, but has values")
    return Results(host=host, results=results, verdicts=verdicts, left_out=left_out, **lines, **names)


def _left_out(items: Sequence, where: str) -> dict[str, str]:
    found = {}
    for i, item in enumerate(items):
        place = f"{where}: left_out[{i}]"
        data = _object(item, place)
        found[_string(data, "config", place)] = _string(data, "reason", place)
    return found


def _series(item: object, where: str) -> Series:
    data = _object(item, where)
    rounds = _numbers(data, "rounds", where)
    if not rounds:
        raise ResultsError(f"{where}: rounds is empty")
    series = Series(*(_string(data, key, where) for key in ("config", "metric", "unit")), rounds)
    stored = _number(data.get("median"), f"{where}: median")
    if not math.isclose(stored, series.median, rel_tol=MEDIAN_TOLERANCE, abs_tol=MEDIAN_TOLERANCE):
        raise ResultsError(f"{where}: median is {stored}, but the rounds give {series.median}")
    return series


def _verdict(item: object, where: str) -> Verdict:
    data = _object(item, where)
    status = _string(data, "status", where)
    if status not in STATUSES:
        raise ResultsError(f"{where}: status is {status!r}, expected one of {', '.join(STATUSES)}")
    relation = data.get("relation", "<=")
    if relation not in RELATIONS:
        raise ResultsError(f"{where}: relation is {relation!r}, expected one of {', '.join(RELATIONS)}")
    value = data.get("value")
    if value is None and status not in (SKIPPED, UNDECIDED):
        raise ResultsError(f"{where}: a verdict {status!r} needs a value")
    reason = data.get("reason", "")
    if status == SKIPPED and not reason:
        raise ResultsError(f"{where}: a skipped verdict needs a reason")
    beside = _object(data.get("beside", {}), f"{where}: beside")
    return Verdict(
        name=_string(data, "name", where),
        status=status,
        value=None if value is None else _number(value, f"{where}: value"),
        limit=_number(data.get("limit"), f"{where}: limit"),
        unit=_string(data, "unit", where),
        relation=relation,
        rounds=_numbers(data, "rounds", where) if "rounds" in data else (),
        reason=reason,
        beside={name: _number(v, f"{where}: beside.{name}") for name, v in beside.items()},
    )


def _object(data: object, where: str) -> dict:
    if not isinstance(data, dict):
        raise ResultsError(f"{where}: expected an object, found {type(data).__name__}")
    return data


def _list(data: dict, key: str, where: str) -> Sequence:
    if not isinstance(data.get(key), list):
        raise ResultsError(f"{where}: {key} is missing or not a list")
    return data[key]


def _string(data: dict, key: str, where: str) -> str:
    if not isinstance(data.get(key), str) or not data[key]:
        raise ResultsError(f"{where}: {key} is missing or not a text")
    return data[key]


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ResultsError(f"{where}: expected a finite number, found {value!r}")
    return float(value)


def _numbers(data: dict, key: str, where: str) -> tuple[float, ...]:
    return tuple(_number(value, f"{where}: {key}[{i}]") for i, value in enumerate(_list(data, key, where)))
