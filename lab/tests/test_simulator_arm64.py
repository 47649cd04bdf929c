# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
T1: a mix gives the same bytes on arm64 and on this machine: tables, results, traces, and the mix of a seed.

paracord-sim is built for both and runs on an emulated arm64 host. It is no part of the payload: no other test
needs it there, and each change of bpf/ would build it anew for every machine of the lab.
"""

import hashlib
import platform
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from paracord_lab import machine, rust

pytestmark = [pytest.mark.lab, pytest.mark.arm64, pytest.mark.needs("emulated")]
ARCH = "aarch64"
BINARY = "paracord-sim"
MIXES = rust.REPOSITORY / "crates/sim/mixes"
# Name -> length, if not its own: an emulated host is some twenty times slower.
LENGTHS = {
    "sleepers": "",
    "bound-quota": "",
    "fork-chain-1ms": "2s",
    "nested-weights": "",
    "boosted-pair": "",
    "large": "100ms",
}
# A seed whose mix has a line of each of these; if the source that draws mixes changes, another one.
DRAWN = ("group", "task", "vm", "irq", "at")
SEED, CPUS = 63, 8
TRACED = "large"
TIMEOUT_S = 120


@dataclass
class Ran:
    """What a command left: its exit code, its standard output, and the sha256 of the file that it wrote."""

    rc: int
    out: str
    file: str = ""


@pytest.fixture(scope="module")
def mixes(tmp_path_factory):
    """Directory of mixes of the repository, cut to their lengths."""
    directory = tmp_path_factory.mktemp("mixes")
    for name, length in LENGTHS.items():
        text = (MIXES / f"{name}.mix").read_text()
        if length:
            text, lines = re.subn(r"^run \S+.*$", f"run {length}", text, flags=re.MULTILINE)
            assert lines == 1
        (directory / f"{name}.mix").write_text(text)
    return directory


@pytest.fixture(scope="module")
def here(mixes):
    """Runs the simulator on this machine."""
    (binary,) = rust.binaries(platform.machine(), (BINARY,))

    def run(arguments, wrote=""):
        argv = [binary, *shlex.split(arguments)]
        done = subprocess.run(argv, cwd=mixes, capture_output=True, text=True, timeout=TIMEOUT_S)
        digest = hashlib.sha256((mixes / wrote).read_bytes()).hexdigest() if wrote else ""
        return Ran(done.returncode, done.stdout, digest)

    return run


@pytest.fixture(scope="module")
def there(mixes):
    """Runs it on the arm64 host."""
    (binary,) = rust.binaries(ARCH, (BINARY,))
    with machine.host(arch=ARCH, logs=Path("out/test-simulator-arm64/logs")) as host:
        assert host.run("uname -m").out.strip() == ARCH
        program, share = host.put(binary), host.put(mixes, "mixes")
        host.run(f"cp -r {program} {share} /tmp")

        def run(arguments, wrote=""):
            done = host.run(f"cd /tmp/mixes && ../{BINARY} {arguments}", TIMEOUT_S, check=False)
            digest = host.run(f"sha256sum /tmp/mixes/{wrote}").out.split()[0] if wrote else ""
            return Ran(done.rc, done.out, digest)

        yield run


def same(here, there, arguments, wrote=""):
    """What a command left, on both machines."""
    ours = here(arguments, wrote)
    assert ours.rc in (0, 1), "it ran: 1 says that the mix has faults"
    assert there(arguments, wrote) == ours
    return ours


@pytest.mark.parametrize("name", LENGTHS)
def test_results_are_the_same(here, there, name):
    ran = same(here, there, f"compare {name}.mix --json -")
    assert '"metric": "events_count"' in ran.out


def test_traces_are_the_same(here, there):
    same(here, there, f"compare {TRACED}.mix --trace {TRACED}.pftrace", f"{TRACED}.pftrace")


def test_seeds_draw_the_same_mix(here, there, mixes):
    same(here, there, f"random --seed {SEED} --cpus {CPUS} --write drawn.mix", "drawn.mix")
    text = (mixes / "drawn.mix").read_text()
    assert set(DRAWN) <= {line.partition(" ")[0] for line in text.splitlines()}, "choose another seed"
    same(here, there, "compare drawn.mix --json -")
