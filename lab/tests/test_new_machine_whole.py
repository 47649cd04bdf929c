# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The README's two commands, whole, as each kind of user runs them on fresh Debian 12 and 13; the clone's path
has a space. All is downloaded, compiled and made anew on each machine. `make test-new-machine`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from paracord_lab import new_machine
from paracord_lab.new_machine import USER

pytestmark = [pytest.mark.lab, pytest.mark.new_machine]
LIMIT_S = 3 * 3600
SUITES = ("bookworm", "trixie")


def run(machine, command):
    """To its end, which must be a good one. All that it says is in the report of a failure."""
    result = machine.run(command, timeout_s=LIMIT_S)
    print(result.stdout)
    assert result.returncode == 0, f"{command}: exit code {result.returncode}"
    assert machine.foreign_files() == []
    return result.stdout


@pytest.fixture(params=SUITES)
def machine(request):
    with new_machine.started(request.param) as started:
        yield started


@pytest.fixture
def rustup(machine):
    """The user has a toolchain in the home directory, as rustup installs it: this machine's own."""
    home = Path.home()
    toolchain = Path(os.environ.get("RUSTUP_HOME") or home / ".rustup")
    programs = Path(os.environ.get("CARGO_HOME") or home / ".cargo") / "bin"
    if not (toolchain / "toolchains").is_dir() or not (programs / "rustup").exists():
        pytest.skip("this machine has no Rust of rustup's that could be lent")
    own = machine.root / "home" / USER
    (own / ".cargo").mkdir(exist_ok=True)
    for source, target in ((toolchain, own / ".rustup"), (programs, own / ".cargo/bin")):
        subprocess.run(["cp", "-a", source, target], check=True)
    machine.run(f"chown -R {USER}: /home/{USER}/.cargo /home/{USER}/.rustup", "root")


def test_a_user_with_sudo_and_no_toolchain(machine):
    demo = run(machine, "make demo")
    assert demo.count("asking sudo for root rights") == 1
    assert "vanilla" in demo and " 0 failed" in demo
    out = run(machine, "make test")
    assert "test result: ok" in out and "test result: FAILED" not in out


def test_sudo_make_of_a_user_with_a_toolchain(machine, rustup):
    demo = run(machine, "sudo make demo")
    assert machine.run("setup/cargo --where").stdout == "here\n"
    assert "asking sudo" not in demo and "vanilla" in demo and " 0 failed" in demo
    assert "test result: ok" in run(machine, "sudo make test")


def test_a_user_with_a_toolchain(machine, rustup):
    demo = run(machine, "make demo")
    assert demo.count("asking sudo for root rights") == 1
    assert machine.run("setup/cargo --where").stdout == "here\n"
    name = f"linux-headers-{'arm64' if os.uname().machine == 'aarch64' else 'amd64'}"
    machine.run(f"setup/apt-install {name}", "root", timeout_s=LIMIT_S)
    run(machine, "make guest KDIR=$(ls -d /usr/lib/modules/*/build | tail -n 1)")
    assert (machine.root / f"home/{USER}" / new_machine.PLACE / "guest/paracord_guest.ko").exists()
