# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Runs scenarios: boots, measures configurations interleaved over rounds, stores raw outputs, judges."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import ftrace, machine, report, store
from .errors import LabError
from .results import Results
from .scenario import Configuration, Scenario
from .session import Options, Session

# Length of the piece that is recorded for Perfetto: a few hundred wakeups, and a trace that stays small.
TRACE_S = 2.0


def rotated(configurations: Sequence[Configuration], round_index: int) -> list[Configuration]:
    """Each round starts with another configuration, so that none always runs first on a fresh machine."""
    start = round_index % len(configurations)
    return [*configurations[start:], *configurations[:start]]


@dataclass
class Progress:
    """One line per measured configuration, with elapsed and remaining time."""

    scenario: str
    steps: int
    started_s: float = 0.0
    measuring_s: float = 0.0
    done: int = 0

    def start(self) -> None:
        self.started_s = time.monotonic()

    def say(self, what: str) -> None:
        now = time.monotonic()
        line = f"{self.scenario}: {clock(now - self.started_s)} elapsed"
        if self.done:
            line += f", about {clock((now - self.measuring_s) / self.done * (self.steps - self.done))} left"
        print(f"{line}: {what}", file=sys.stderr, flush=True)

    def measuring(self) -> None:
        self.measuring_s = time.monotonic()


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def output_directory(base: Path, scenario: Scenario, options: Options) -> Path:
    return base / (scenario.name + (f"-without-{options.without}" if options.without else ""))


def run(scenario: Scenario, options: Options, base: Path) -> Results:
    """
    Runs one scenario; results and report lie in `base`/<scenario> then.

    LabError (one line) when the lab cannot go on; what was measured until then stays in raw/.
    """
    out = output_directory(base, scenario, options)
    rounds = options.rounds or scenario.rounds
    progress = Progress(scenario.name, rounds * len(scenario.configurations))
    progress.start()
    progress.say("booting the host")
    with machine.host(arch=scenario.arch, cpus=scenario.cpus, logs=out / "logs") as host:
        missing = scenario.missing(host)
        store.start(
            out,
            store.Meta(scenario.name, host.arch, host.kernel, host.kind, rounds, options.without, missing),
        )
        if not missing:
            session = Session(host, options).open()
            try:
                progress.say("booting guests, starting loads")
                scenario.setup(session)
                _measure(scenario, session, rounds, out, progress)
                _trace(scenario, session, out, progress)
            finally:
                session.close()
    progress.say("writing the report")
    return report.make(scenario, out)


def _measure(scenario: Scenario, session: Session, rounds: int, out: Path, progress: Progress) -> None:
    progress.measuring()
    for index in range(rounds):
        for configuration in rotated(scenario.configurations, index):
            progress.say(f"round {index + 1} of {rounds}, {configuration.name}")
            try:
                with session.applied(configuration):
                    raw = scenario.measure(session, configuration)
            except LabError as error:
                raise LabError(f"round {index + 1}, {configuration.name}: {error}") from error
            store.put(out, index + 1, configuration.name, raw)
            progress.done += 1


def _trace(scenario: Scenario, session: Session, out: Path, progress: Progress) -> None:
    for name in scenario.traced:
        configuration = scenario.configuration(name)
        progress.say(f"recording {TRACE_S:.0f} s of {name} for Perfetto")
        with session.applied(configuration), ftrace.recording(session.host) as recorded:
            scenario.trace(session, configuration)
        store.put_trace(out, name, ftrace.header(session.vcpu_tids()) + recorded.text)
