# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The raw outputs of a run under out/<scenario>/raw/, from which reports and verdicts are made."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from .errors import LabError
from .scenario import Raw

# Directory of the logs of machines that died. The number of the death is appended.
LOGS_OF_DEATH = "logs-of-death-"


class StoreError(LabError):
    """A directory does not contain a run. The text names the file."""


@dataclass(frozen=True)
class Meta:
    """What was run, and on which machine."""

    scenario: str
    arch: str
    kernel: str
    host: str
    rounds: int
    without: str
    # The reason if nothing could be measured here. Usually empty.
    skipped: str = ""
    # Configurations that this host cannot measure, each with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict)


def start(out: Path, meta: Meta) -> None:
    """Removes an older run from `out`, and notes what runs now."""
    names = ("raw", "results.json", "report.html", "trace.pftrace", "post-mortem.txt")
    for path in (*(out / name for name in names), *out.glob(f"{LOGS_OF_DEATH}*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (out / "raw").mkdir(parents=True)
    (out / "raw" / "meta.json").write_text(json.dumps(asdict(meta), indent=1) + "\n")


def put(out: Path, round_number: int, configuration: str, raw: Raw) -> None:
    path = out / "raw" / f"round-{round_number}-{configuration}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(raw) + "\n")
    temporary.replace(path)


def put_status(out: Path, round_number: int, configuration: str, status: dict) -> None:
    """
    Stores the output of `paracord status --json` after a measurement. It helps to find out why a
    round differed from the others.
    """
    path = out / "raw" / f"status-{round_number}-{configuration}.json"
    path.write_text(json.dumps(status) + "\n")


def put_trace(out: Path, configuration: str, text: str) -> None:
    (out / "raw" / f"trace-{configuration}.txt").write_text(text)


def put_death(out: Path, reason: str) -> None:
    """
    Notes that a machine died and that its round is repeated, because a report must not hide this.
    The logs are moved, because the next machines write their own.
    """
    reasons = [*deaths(out), reason]
    (out / "raw" / "deaths.json").write_text(json.dumps(reasons, indent=1) + "\n")
    if (out / "logs").is_dir():
        (out / "logs").replace(out / f"{LOGS_OF_DEATH}{len(reasons)}")


def deaths(out: Path) -> list[str]:
    """Why machines died during the run, one line each."""
    return _lines(out / "raw" / "deaths.json")


def _lines(path: Path) -> list[str]:
    try:
        return [str(line) for line in json.loads(path.read_text())] if path.exists() else []
    except ValueError as error:
        raise StoreError(f"{path}: not JSON: {error}") from error


def put_disturbance(out: Path, round_number: int, configuration: str, line: str) -> None:
    """Notes what else the machine did during a measurement. Does nothing if `line` is empty."""
    path = out / "raw" / f"disturbed-{round_number}-{configuration}.txt"
    if line:
        path.write_text(line + "\n")
    else:
        path.unlink(missing_ok=True)


def disturbances(out: Path) -> list[str]:
    """One line for each measurement that was disturbed."""
    paths = sorted((out / "raw").glob("disturbed-*.txt"))
    return [f"{path.stem.removeprefix('disturbed-')}: {path.read_text().strip()}" for path in paths]


def meta(out: Path) -> Meta:
    path = out / "raw" / "meta.json"
    try:
        return Meta(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"{path}: not a run of the lab: {error}") from error


def set_rounds(out: Path, number: int) -> None:
    """Sets the number of rounds of the run."""
    changed = replace(meta(out), rounds=number)
    (out / "raw" / "meta.json").write_text(json.dumps(asdict(changed), indent=1) + "\n")


def rounds(out: Path, configurations: Sequence[str]) -> list[dict[str, Raw]]:
    """The complete rounds, in order: configuration -> raw outputs, without what is left out on the host."""
    complete = []
    run = meta(out)
    measured = [c for c in configurations if c not in run.left_out]
    for number in range(1, run.rounds + 1):
        paths = {c: out / "raw" / f"round-{number}-{c}.json" for c in measured}
        if not all(path.exists() for path in paths.values()):
            continue
        try:
            complete.append({c: json.loads(path.read_text()) for c, path in paths.items()})
        except ValueError as error:
            raise StoreError(f"{out / 'raw'}: round {number}: not JSON: {error}") from error
    return complete


def traces(out: Path, configurations: Sequence[str]) -> dict[str, str]:
    """The text of the recording for each configuration that has one."""
    paths = {c: out / "raw" / f"trace-{c}.txt" for c in configurations}
    return {c: path.read_text(errors="replace") for c, path in paths.items() if path.exists()}
