# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""`make install` copies what `make build` has built, as root may do; `make uninstall` removes it again."""

import subprocess

import pytest

from paracord_lab.rust import REPOSITORY


def make(*words):
    return subprocess.run(["make", *words], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_nothing_is_built_or_set_up():
    commands = make("-n", "install", "DESTDIR=/nowhere")
    assert "install -Dm755 target/release/paracord" in commands
    assert not [word for word in ("cargo", "setup/", "setup.sh", "apt") if word in commands]


@pytest.mark.lab
def test_what_is_installed_is_removed_but_for_the_configuration(tmp_path):
    make("-s", "install", f"DESTDIR={tmp_path}")
    installed = files(tmp_path)
    assert {
        "usr/bin/paracord",
        "usr/lib/systemd/system/paracord.service",
        "usr/share/man/man1/paracord.1",
        "usr/share/man/man1/paracord-vm-place.1",
        "usr/share/bash-completion/completions/paracord",
        "usr/share/zsh/site-functions/_paracord",
        "usr/share/fish/vendor_completions.d/paracord.fish",
        "usr/share/doc/paracord/commands.md",
        "etc/paracord/paracord.toml",
    } <= installed
    make("-s", "uninstall", f"DESTDIR={tmp_path}")
    assert files(tmp_path) == {"etc/paracord/paracord.toml"}
