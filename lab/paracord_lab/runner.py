# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Runs scenarios: boots machines, measures configurations in interleaved rounds, stores raw outputs,
and judges them.
"""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import ftrace, judge, machine, native, other_work, post_mortem, report, serial_log, store
from .errors import ChannelClosed, CommandTimeout, LabError
from .plan import Plan
from .results import Results
from .scenario import Scenario
from .selection import select
from .session import Options, Session

# Length of the recording for Perfetto. It contains a few hundred wakeups, and the trace stays
# small.
TRACE_S = 2.0
# Emulated guests die now and then, with the module and without. The emulator is the suspected
# cause, but this is not proven. This many deaths without a measurement in between are no accident,
# and neither are as many as the following number in one run.
DEATHS_IN_A_ROW_MAX = 3
DEATHS_MAX = 12


@dataclass
class Progress:
    """Prints one line per measured configuration, with elapsed and remaining time."""

    scenario: str
    left: int
    started_s: float = 0.0
    measuring_s: float = 0.0
    left_then: int = 0

    def start(self) -> None:
        self.started_s = time.monotonic()

    def say(self, what: str) -> None:
        now = time.monotonic()
        line = f"{self.scenario}: {clock(now - self.started_s)} elapsed"
        done = self.left_then - self.left
        if done > 0:
            line += f", about {clock((now - self.measuring_s) / done * self.left)} left"
        print(f"{line}: {what}", file=sys.stderr, flush=True)

    def measuring(self, steps: int) -> None:
        """Called when measuring starts, or starts again, with this many steps to do."""
        self.measuring_s = time.monotonic()
        self.left = self.left_then = steps


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def output_directory(base: Path, scenario: Scenario, options: Options) -> Path:
    """`base`/<scenario>. The name is followed by what differs from the scenario's own values."""
    parts = [scenario.name]
    if options.without:
        parts += ["without", options.without]
    if options.arch and options.arch != scenario.arch:
        parts.append(options.arch)
    return base / "-".join(parts)


def run(scenario: Scenario, options: Options, base: Path) -> Results:
    """
    Runs one scenario. Results and report are in `base`/<scenario> afterwards.

    If an emulated machine dies, it is started again and the round is repeated, a limited number of
    times. A line reports each case. There is one exception: if the kernel has ejected the scheduler
    before, the death is not an accident. Raises LabError (one line) if the lab cannot continue. The
    measurements until then stay in raw/.
    """
    out = output_directory(base, scenario, options)
    rounds = options.rounds or scenario.rounds
    selection = select(scenario, native.facts())
    progress = Progress(scenario.name, rounds * len(selection.configurations))
    progress.start()
    for line in selection.lines():
        progress.say(line)
    plan = Plan(scenario, selection, rounds, may_extend=options.rounds is None and not options.quick)
    deaths = in_a_row = 0
    while True:
        before = plan.steps_done
        try:
            _run_plan(plan, options, out, progress)
            break
        except (ChannelClosed, CommandTimeout) as error:
            ejected = serial_log.ejection(out / "logs" / "host.serial.log")
            if ejected:
                raise LabError(f"{error}, after the kernel has ejected the scheduler: {ejected}") from error
            deaths += 1
            in_a_row = in_a_row + 1 if plan.steps_done == before else 1
            hopeless = in_a_row > DEATHS_IN_A_ROW_MAX or deaths > DEATHS_MAX
            if hopeless or native.is_host():
                raise
            plan.back_to_round_start()
            if plan.started:
                store.put_death(out, str(error))
            progress.say(f"{error}: starting the emulated machines again; the round is repeated")
    progress.say("writing the report")
    return report.make(scenario, out)


def _run_plan(plan: Plan, options: Options, out: Path, progress: Progress) -> None:
    scenario = plan.scenario
    progress.say("booting the host")
    with machine.host(
        arch=options.arch or scenario.arch,
        cpus=scenario.cpus,
        logs=out / "logs",
        board=scenario.board,
        counted=scenario.counted,
        spare=scenario.spare,
    ) as host:
        missing = plan.selection.skipped or scenario.missing(host)
        if not plan.started:
            meta = store.Meta(
                scenario=scenario.name,
                arch=host.arch,
                kernel=host.kernel,
                host=host.kind,
                rounds=plan.rounds,
                without=options.without,
                skipped=missing,
                left_out=plan.selection.left_out,
            )
            store.start(out, meta)
            plan.started = True
        if missing:
            return
        session = Session(host, options).open()
        try:
            progress.say("booting guests, starting loads")
            before = other_work.look()
            scenario.setup(session)
            # Warn for the first time while the run is still short.
            disturbed = _disturbed(scenario, before)
            if disturbed:
                progress.say(f"other work on this machine makes the figures unreliable: {disturbed}")
            _measure(plan, session, out, progress)
            while plan.extra_left and _needs_rounds(scenario, out):
                plan.extend()
                store.set_rounds(out, plan.rounds)
                _measure(plan, session, out, progress)
            _trace(plan, session, out, progress)
        except BaseException as error:
            if isinstance(error, ChannelClosed | CommandTimeout):
                post_mortem.write(host, str(error))
            with suppress(LabError):  # `error` is what is reported
                session.close()
            raise
        session.close()


def _needs_rounds(scenario: Scenario, out: Path) -> bool:
    rounds = store.rounds(out, [c.name for c in scenario.configurations])
    verdicts = judge.judge(scenario, store.meta(out), rounds).verdicts
    return any(check.needs_rounds(v) for check, v in zip(scenario.checks, verdicts, strict=True))


def first_of(error: LabError) -> LabError:
    """The error that came first. If a machine has died, the clean-up raises further errors."""
    first = error
    while isinstance(error.__context__, LabError) and not error.__cause__:
        # An error that was raised `from None` replaces the error that it hides, but not the error
        # before that one.
        hides, error = error.__suppress_context__, error.__context__
        if not hides:
            first = error
    return first


def _disturbed(scenario: Scenario, before: other_work.Look) -> str:
    """What else the machine has done since then. Empty if this has no effect on the figures."""
    return "" if scenario.counted else other_work.line(before, other_work.look())


def _measure(plan: Plan, session: Session, out: Path, progress: Progress) -> None:
    progress.measuring(len(plan.steps))
    while plan.steps:
        index, configuration = plan.steps[0]
        where = f"round {index + 1} of {plan.rounds}, {configuration.name}"
        progress.say(where)
        try:
            with session.applied(configuration):
                before = other_work.look()
                raw = plan.scenario.measure(session, configuration)
                disturbed = _disturbed(plan.scenario, before)
                status = session.daemon.status(check=False) if session.daemon else None
        except LabError as error:
            first = first_of(error)
            raise type(first)(f"{where}: {first}") from error
        store.put(out, index + 1, configuration.name, raw)
        store.put_disturbance(out, index + 1, configuration.name, disturbed)
        if status:
            store.put_status(out, index + 1, configuration.name, status)
        plan.steps.pop(0)
        plan.steps_done += 1
        progress.left -= 1


def _trace(plan: Plan, session: Session, out: Path, progress: Progress) -> None:
    while plan.traces:
        configuration = plan.scenario.configuration(plan.traces[0])
        progress.say(f"recording {TRACE_S:.0f} s of {configuration.name} for Perfetto")
        with session.applied(configuration), ftrace.recording(session.host) as recorded:
            plan.scenario.trace(session, configuration)
        store.put_trace(out, configuration.name, ftrace.header(session.vcpu_tids()) + recorded.text)
        plan.traces.pop(0)
        plan.steps_done += 1
