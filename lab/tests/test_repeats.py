# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""conftest.py ends a run with code 75 if lab/run-tests shall repeat what failed, and with 1 otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HEAD = """
import pytest
from paracord_lab.errors import ChannelClosed

@pytest.fixture
def complaint():
    yield
    raise AssertionError("the guest's kernel complains")

@pytest.fixture
def gone():
    yield
    raise ChannelClosed("gone")

@pytest.fixture
def also_gone():
    yield
    raise ChannelClosed("gone")
"""
PASSES = "def test_passes(): pass"
MEASURES = "@pytest.mark.lab\n@pytest.mark.measures\ndef test_measures(): assert 3 < 2"
COMPLAINS = "@pytest.mark.lab\n@pytest.mark.measures\ndef test_complains(complaint): pass"
DIES = "@pytest.mark.lab\ndef test_dies(): raise ChannelClosed('gone')"
DIES_UNDER_TWO_FIXTURES = "@pytest.mark.lab\ndef test_dies_twice(gone, also_gone): pass"
DIES_AND_COMPLAINS = "@pytest.mark.lab\ndef test_dies_and_complains(gone, complaint): pass"
FAILS = "@pytest.mark.lab\ndef test_fails(): assert False"

TRY_AGAIN, FINAL = 75, 1


def ends_with(directory: Path, tests: tuple[str, ...], host: str) -> int:
    shutil.copy(HERE / "conftest.py", directory)
    (directory / "test_some.py").write_text("\n".join((HEAD, *tests)))
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  lab\n  measures\n  needs\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)],
        env=os.environ | {"PYTHONPATH": str(HERE.parent), "LAB_HOST": host},
        capture_output=True,
        text=True,
    )
    print(run.stdout, run.stderr)
    return run.returncode


@pytest.mark.parametrize(
    ("tests", "host", "code"),
    [
        ((PASSES,), "", 0),
        ((PASSES, MEASURES), "", TRY_AGAIN),
        ((DIES,), "", TRY_AGAIN),
        ((MEASURES, DIES), "", TRY_AGAIN),
        ((DIES_UNDER_TWO_FIXTURES,), "", TRY_AGAIN),
        ((DIES_AND_COMPLAINS,), "", FINAL),
        ((FAILS,), "", FINAL),
        ((MEASURES, FAILS), "", FINAL),
        ((COMPLAINS,), "", FINAL),
        ((DIES,), "native", FINAL),
        ((MEASURES,), "native", TRY_AGAIN),
    ],
)
def test_measurements_and_dead_machines_are_repeated_and_nothing_else(
    tmp_path: Path, tests: tuple[str, ...], host: str, code: int
) -> None:
    assert ends_with(tmp_path, tests, host) == code
