# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""`python -m paracord_lab`: lists and runs scenarios, makes reports again, prepares images, runs commands."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from . import cache, machine_cli, native, privilege, report, results, runner, scenario, selection, store
from .emulator import ARCHITECTURES
from .errors import LabError
from .session import Options
from .verdicts import EXIT_PASSED, Verdict, exit_code, summary

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
DEFAULT_OUT = Path("out")
ROUNDS_MAX = 100


def main(arguments: Sequence[str] | None = None) -> int:
    # If a CI system stops the lab, the emulators must end as they do after Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    if getattr(options, "needs_root", False):
        privilege.ask_root(arguments)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print(
            "interrupted; machines are stopped, complete rounds stay in out/<scenario>/raw", file=sys.stderr
        )
        return EXIT_INTERRUPTED
    except (LabError, results.ResultsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        print(f"error: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    finally:
        if privilege.user():
            cache.give_back()
            privilege.give_back_clone()


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paracord_lab", description=__doc__.split(":", 1)[1].strip())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="the scenarios")
    command.set_defaults(run=_list)

    command = commands.add_parser("run", help="run scenarios and judge them")
    command.add_argument("scenario", nargs="+", help="a name that `list` prints")
    command.add_argument("--rounds", type=_rounds, help="number of rounds, instead of the scenario's")
    command.add_argument("--quick", action="store_true", help="make the measurements half as long")
    command.add_argument(
        "--without", default="", metavar="M", help="switch a mechanism off: a verdict must fail"
    )
    command.add_argument(
        "--arch",
        default="",
        choices=sorted(ARCHITECTURES),
        help="architecture of host and guest, instead of the scenario's",
    )
    command.add_argument("--out", type=Path, default=DEFAULT_OUT, help="directory of results (default: out)")
    command.set_defaults(run=_run, needs_root=True)

    command = commands.add_parser("report", help="judge a finished run again and write its report")
    command.add_argument("directory", type=Path, help="out/<scenario>")
    command.set_defaults(run=_report)

    machine_cli.register(commands)
    return parser


def _rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= ROUNDS_MAX:
        raise argparse.ArgumentTypeError(f"{value} is not in 1..{ROUNDS_MAX}")
    return value


def _list(_options) -> int:
    facts = native.facts()
    for name in scenario.names():
        one = scenario.load(name)
        without = f"  [--without {'|'.join(one.without)}]" if one.without else ""
        print(f"{name:16} {one.summary}{without}")
        for line in selection.select(one, facts).lines():
            print(f"{'':16} {line}")
    return EXIT_PASSED


def _load(name: str) -> scenario.Scenario:
    try:
        return scenario.load(name)
    except KeyError as error:
        raise LabError(error.args[0]) from error


def _run(options) -> int:
    chosen = [_load(name) for name in options.scenario]
    for one in chosen:
        if options.without and options.without not in one.without:
            known = ", ".join(one.without) or "none"
            raise LabError(f"{one.name}: --without {options.without}: mechanisms of this scenario: {known}")
        if options.arch and one.board and options.arch != one.arch:
            raise LabError(f"{one.name} runs on the board {one.board} only: leave --arch out")
    verdicts: list[Verdict] = []
    broken = False
    for one in chosen:
        run_options = Options(options.rounds, options.quick, options.without, options.arch)
        try:
            judged = runner.run(one, run_options, options.out)
        except LabError as error:
            print(f"error: {one.name}: {error}", file=sys.stderr)
            broken = True
            continue
        print(report.text(one, runner.output_directory(options.out, one, run_options), judged))
        verdicts += judged.verdicts
    print(summary(verdicts) + (", and a scenario could not be run (above)" if broken else ""))
    return EXIT_ERROR if broken else exit_code(verdicts)


def _report(options) -> int:
    one = _load(store.meta(options.directory).scenario)
    judged = report.make(one, options.directory)
    print(report.text(one, options.directory, judged))
    print(summary(judged.verdicts))
    return exit_code(judged.verdicts)
