# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Subcommands about machines: `setup`, `tree`, `agent`, `kernel`, `exec`, `shell`. cli.py registers them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import agent, boards, cache, kernel_build, machine, tree, tree_specs
from .emulator import ARCHITECTURES
from .progress import clock

DEFAULT_OUT = Path("out/lab")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """
    Adds the subcommands. Each of them sets `run`, a function of the parsed arguments that returns
    an exit code.
    """
    command = commands.add_parser(
        "setup", help="make the images of hosts and guests; quick if they exist already"
    )
    _architecture(command)
    command.set_defaults(run=_setup, needs_root=True)

    command = commands.add_parser("tree", help="make one tree of the cache and print its directory")
    command.add_argument(
        "name", choices=sorted(tree_specs.SPECS), help="matrix: headers of all kernels, and a list of them"
    )
    _architecture(command)
    command.set_defaults(run=_tree, needs_root=True)

    command = commands.add_parser("agent", help="compile the agent that runs commands, and print its path")
    _architecture(command)
    command.set_defaults(run=_agent, needs_root=True)

    command = commands.add_parser(
        "kernel", help="compile a kernel that Debian does not build and print its directory, for LAB_KERNEL"
    )
    command.add_argument("name", choices=kernel_build.CONFIGURATIONS)
    command.set_defaults(run=_kernel, needs_root=True)

    command = commands.add_parser("exec", help="boot a host, run one shell command in it, power off")
    command.add_argument("command")
    command.add_argument("--guest", action="store_true", help="run the command in a guest of the host")
    command.add_argument("--region", action="store_true", help="give the guest a shared region")
    command.add_argument("--vcpus", type=int, default=1, help="vCPUs of the guest (default: 1)")
    command.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds (default: 600)")
    _host_options(command)
    command.set_defaults(run=_exec, needs_root=True)

    command = commands.add_parser(
        "shell", help="boot a host with a shell on this terminal; `exit` powers it off"
    )
    _host_options(command)
    command.set_defaults(run=_shell, needs_root=True)


def _architecture(command: argparse.ArgumentParser) -> None:
    command.add_argument("--arch", default="x86_64", choices=sorted(ARCHITECTURES))


def _host_options(command: argparse.ArgumentParser) -> None:
    _architecture(command)
    command.add_argument("--cpus", type=int, default=2, help="CPUs of the host (default: 2)")
    command.add_argument(
        "--board", default="", choices=sorted(boards.ALL), help="hardware with CPU frequencies"
    )
    command.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, help=f"/share and logs (default: {DEFAULT_OUT})"
    )


def _setup(options: argparse.Namespace) -> int:
    machine.setup(options.arch)
    print(f"lab: images are in {cache.root()}")
    return 0


def _agent(options: argparse.Namespace) -> int:
    print(agent.ensure(options.arch))
    return 0


def _tree(options: argparse.Namespace) -> int:
    directory = tree.ensure(options.name, options.arch)
    print(directory)
    if options.name == "matrix":
        for release, headers in tree.header_dirs(options.arch):
            print(f"{release} {headers}")
    return 0


def _kernel(options: argparse.Namespace) -> int:
    print(kernel_build.ensure(options.name))
    return 0


def _exec(options: argparse.Namespace) -> int:
    with machine.host(
        arch=options.arch, cpus=options.cpus, logs=options.out / "logs", board=options.board
    ) as host:
        where = host.guest("vm1", vcpus=options.vcpus, region=options.region) if options.guest else host
        result = where.run(options.command, timeout=options.timeout, check=False)
    sys.stdout.write(result.out)
    sys.stderr.write(result.err)
    print(f"lab: exit code {result.rc} after {clock(result.seconds)}", file=sys.stderr)
    return result.rc if result.rc >= 0 else 128 - result.rc


def _shell(options: argparse.Namespace) -> int:
    with machine.host(
        arch=options.arch, cpus=options.cpus, logs=options.out / "logs", shell=True, board=options.board
    ) as host:
        print(f"lab: {host.kernel}, /share is {host.share}; `exit` powers off", file=sys.stderr)
        host.wait_for_end()
    return 0
