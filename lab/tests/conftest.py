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
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from paracord_lab import cache, loads, machine, native, needs, privilege
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


class SharedHosts:
    """Ordinary hosts for one module after the other: a boot takes longer than most tests."""

    directory = Path("out/test-hosts")

    def __init__(self):
        self._booted = {}
        self._count = 0
        shutil.rmtree(self.directory, ignore_errors=True)

    def _boot(self, arch, board):
        self._count += 1
        logs = self.directory / f"{self._count}-{board or arch}/logs"
        with ExitStack() as stack:
            host = stack.enter_context(machine.host(arch=arch, board=board, logs=logs))
            stack.enter_context(loads.without_autogroups(host))
            return host, stack.pop_all()

    @contextmanager
    def lent(self, request, arch="x86_64", board=""):
        """The host while a module uses it. One on which a test failed is not used again."""
        kind = arch, board
        host, stack = self._booted.get(kind) or self._booted.setdefault(kind, self._boot(arch, board))
        failed = request.session.testsfailed
        yield host
        self._keep_logs(host, request.module.__name__)
        # What a module leaves on a native host is removed when its agent ends.
        if request.session.testsfailed > failed or host.kind == "native":
            del self._booted[kind]
            stack.close()

    def _keep_logs(self, host, module):
        """The next module may give its guests the same names."""
        kept = host.logs / module
        kept.mkdir(exist_ok=True)
        for log in [path for path in host.logs.glob("*.log") if not path.name.startswith("host.")]:
            log.rename(kept / log.name)

    def end(self):
        for _, stack in self._booted.values():
            stack.close()


@pytest.fixture(scope="session")
def shared_hosts():
    hosts = SharedHosts()
    yield hosts
    hosts.end()


@pytest.fixture(scope="module")
def shared_host(request, shared_hosts):
    """A function that gives the module a host which others use before and after: it leaves nothing in it."""
    with ExitStack() as stack:
        yield lambda **kind: stack.enter_context(shared_hosts.lent(request, **kind))


@pytest.fixture(scope="module")
def host(shared_host):
    """Modules that want another one have a fixture of the same name."""
    return shared_host()


@pytest.fixture(scope="module", params=[pytest.param("aarch64", marks=pytest.mark.arm64), "x86_64"])
def host_of_each_architecture(request, shared_host):
    """For a module that runs on both, one after the other."""
    if os.environ.get("LAB_HOST") == "native" and request.param != platform.machine():
        pytest.skip("a native host has its own architecture only")
    return shared_host(arch=request.param)


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


def errors(raised):
    """Each of a group: several fixtures may find at their end that the machine died."""
    if not isinstance(raised, BaseExceptionGroup):
        return [raised]
    return [error for one in raised.exceptions for error in errors(one)]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        emulated = os.environ.get("LAB_HOST") != "native" and item.get_closest_marker("lab")
        died = emulated and all(isinstance(e, ChannelClosed) for e in errors(call.excinfo.value))
        # What a fixture finds afterwards, as a complaint of the guest's kernel, is no measurement.
        measured = call.when == "call" and item.get_closest_marker("measures")
        _failures["repeat" if died or measured else "final"] += 1


def pytest_sessionfinish(session):
    if _failures["repeat"] and not _failures["final"]:
        session.exitstatus = EXIT_TRY_AGAIN
    if privilege.user():
        cache.give_back()
        privilege.give_back_clone()
