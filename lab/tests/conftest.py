# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Hosts and guests for modules that want ordinary ones.

Also tells a test that failed from a test whose emulated machine died under it.

Emulated guests die now and then, with the module and without; the emulator is suspected, not convicted. A
test that compares times or shares (marker `measures`) may fail because other work disturbs the real machine.
When every failure of a run is of these kinds, the run ends with exit code 75 (try again) instead of 1, and
lab/run-tests repeats those tests on fresh machines. A native host has no such excuse for a machine that died,
nor has a command that does not end on a machine that runs others.

On a native host, tests whose marker `needs` names something that this machine lacks are skipped.
"""

import os
import platform
from pathlib import Path

import pytest

from paracord_lab import cache, machine, native, needs, privilege
from paracord_lab.daemon import COUNTERS_UNLIMITED, Daemon
from paracord_lab.errors import ChannelClosed

EXIT_TRY_AGAIN = 75
_failures = {"repeat": 0, "final": 0}


def pytest_report_header():
    facts = native.facts()
    if facts is None:
        return []
    lacks = [(need, needs.lacking([need], facts)) for need in needs.ALL.values()]
    return [f"LAB_HOST=native: tests that need {n.name} are skipped: {lack}" for n, lack in lacks if lack]


def pytest_collection_modifyitems(items):
    skip_what_lacks(items, native.facts())


def skip_what_lacks(items, facts):
    """facts: of this machine if it is the host, otherwise None: an emulated host has everything."""
    for item in items:
        names = [name for marker in item.iter_markers("needs") for name in marker.args]
        unknown = set(names) - set(needs.ALL)
        if unknown:
            known = ", ".join(needs.ALL)
            raise pytest.UsageError(f"{item.nodeid}: needs {', '.join(unknown)}: there are {known}")
        lack = needs.lacking([needs.ALL[name] for name in names], facts)
        if lack:
            item.add_marker(pytest.mark.skip(reason=lack))


@pytest.fixture(scope="module", params=[pytest.param("aarch64", marks=pytest.mark.arm64), "x86_64"])
def host_of_each_architecture(request):
    """For a module that runs on both, one after the other; its logs lie under the module's name."""
    if os.environ.get("LAB_HOST") == "native" and request.param != platform.machine():
        pytest.skip("a native host has its own architecture only")
    name = request.module.__name__.replace("_", "-")
    with machine.host(arch=request.param, logs=Path(f"out/{name}-{request.param}/logs")) as booted:
        yield booted


@pytest.fixture(scope="module")
def daemon(host):
    """Its guests may count as much as they want."""
    with Daemon(host, COUNTERS_UNLIMITED) as running:
        yield running.start()


@pytest.fixture(scope="module")
def guest(host):
    """One vCPU, and paracord's module in its kernel."""
    with host.guest("guest", vcpus=1) as booted:
        booted.load_module()
        yield booted


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        emulated = os.environ.get("LAB_HOST") != "native" and item.get_closest_marker("lab")
        died = emulated and call.excinfo.errisinstance(ChannelClosed)
        # What a fixture finds afterwards, as a complaint of the guest's kernel, is no measurement.
        measured = call.when == "call" and item.get_closest_marker("measures")
        _failures["repeat" if died or measured else "final"] += 1


def pytest_sessionfinish(session):
    if _failures["repeat"] and not _failures["final"]:
        session.exitstatus = EXIT_TRY_AGAIN
    if privilege.user():
        cache.give_back()
        privilege.give_back_clone()
