# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: the Rust tests that need root and a kernel with BTF (marked #[ignore]), run in the emulated host."""

import re
from pathlib import Path

import pytest

from paracord_lab import rust

# Some of them have limits in time, so other work on this machine can disturb them.
pytestmark = [pytest.mark.lab, pytest.mark.measures, pytest.mark.needs("btf")]
# Package, test target.
SUITES = (
    ("paracord-sensor", "kernel"),
    ("paracord-sensor", "pelt"),
    ("paracord-host", "actuator"),
    ("paracord-host", "daemon"),
    ("paracord-stand-in", "kills"),
)
# Nothing else needs an exact estimate of a load. Other tests kill the daemon, too, though not at each step.
LONG = {"pelt", "kills"}
STAND_IN = "paracord-stand-in"


def executables():
    """Test target or program -> its executable, built with the same profile as `cargo test` does."""
    chosen = [word for package, target in SUITES for word in ("-p", package, "--test", target)]
    return rust.test_executables(*chosen)


def marked(package, target):
    """Number of tests that the source marks: one that cargo does not build is noticed by it."""
    tests = Path("crates", package.removeprefix("paracord-"), "tests")
    sources = [*tests.glob(f"{target}.rs"), *tests.glob(f"{target}/*.rs")]
    return sum(len(re.findall(r"^#\[ignore\b", one.read_text(), re.MULTILINE)) for one in sources)


@pytest.fixture(scope="module")
def suites():
    return executables()


@pytest.mark.parametrize(
    ("package", "target"),
    [pytest.param(*suite, marks=[pytest.mark.long] if suite[1] in LONG else []) for suite in SUITES],
    ids=lambda v: str(v),
)
def test_as_root_on_the_lab_kernel(host, suites, package, target):
    program = host.put(suites[target], target)
    stand_in = host.put(suites[STAND_IN], STAND_IN)
    result = host.run(
        f"PARACORD_STAND_IN={stand_in} {program} --ignored --test-threads=1 --nocapture 2>&1",
        timeout=300,
        check=False,
    )
    print(result.out)
    assert result.rc == 0, result.out[-3000:]
    passed = re.search(r"test result: ok\. (\d+) passed", result.out)
    assert passed and int(passed.group(1)) == marked(package, target) > 0
