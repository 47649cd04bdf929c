# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""`make lint` fails on a circle between the modules of a crate. No file of crates/host is long."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# docs/design/0011-the-house.md
LINES_MAX = 400


def found(*crates):
    """Exit status and words of the check."""
    command = [sys.executable, ROOT / "setup/module-circles", *crates]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not result.stderr, result.stderr
    return result.returncode, result.stdout


def crate(directory, **modules):
    (directory / "src").mkdir()
    for name, code in modules.items():
        (directory / "src" / f"{name}.rs").write_text(code)
    return directory


def test_no_crate_has_one():
    assert found(*(ROOT / "crates").iterdir()) == (0, "")


def test_no_file_of_the_host_is_too_long():
    lines = {file: file.read_text().count("\n") for file in (ROOT / "crates/host").rglob("*.rs")}
    assert lines
    assert {file.name: n for file, n in lines.items() if n > LINES_MAX} == {}


A_CIRCLE = [
    pytest.param("use crate::b::B;", "use crate::a::A;", id="use"),
    pytest.param("use crate::{b::{self, B as Other}};", "fn f() -> super::a::A {}", id="path"),
    pytest.param("use super::B;", "use crate::a;", id="through-a-re-export"),
    pytest.param(
        "const Q: char = '\"'; use crate::b::B;", "use crate::a::A; const R: char = '\"';", id="quotes"
    ),
]


@pytest.mark.parametrize(("a", "b"), A_CIRCLE)
def test_a_circle_is_named_with_its_edges(tmp_path, a, b):
    lib = "mod a; mod b;\npub use b::B;\n"
    status, said = found(crate(tmp_path, lib=lib, a=f"{a}\npub struct A;", b=f"{b}\npub struct B;"))
    assert (status, said.splitlines()[1:]) == (1, ["  a uses b", "  b uses a"])


NO_CIRCLE = [
    pytest.param("use crate::b::B;", "#[cfg(test)]\nmod tests { use crate::a::A; }", id="tests"),
    pytest.param("use crate::b::B;", "// crate::a::A\n", id="comment"),
    pytest.param("use crate::b::B;", 'const S: &str = "crate::a::A";', id="string"),
    pytest.param("use crate::b::B;", "use other::a::A;", id="another-crate"),
]


@pytest.mark.parametrize(("a", "b"), NO_CIRCLE)
def test_what_is_none_is_not_called_one(tmp_path, a, b):
    status, said = found(
        crate(tmp_path, lib="mod a; mod b;\n", a=f"{a}\npub struct A;", b=f"{b}\npub struct B;")
    )
    assert (status, said) == (0, "")
