# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Which version of the kernel's source Linux' own driver is taken from."""

import subprocess

import pytest

from paracord_lab import mirror, upstream
from paracord_lab.errors import LabError

MADISON = """\
linux-source-7.3 | 7.3.5-1~bpo13+1 | http://debian/debian trixie-backports/main arm64 Packages
linux-source-7.3 | 7.3.4-1~bpo13+1 | http://debian/debian trixie-backports/main arm64 Packages
linux-source-7.3 | 7.3.40-1~bpo13+1 | http://debian/debian trixie-backports/main arm64 Packages
"""


@pytest.mark.parametrize(
    ("release", "found"),
    [("7.3.4+deb13-arm64", ("7.3", "7.3.4")), ("7.4+deb13-arm64", ("7.4", "7.4"))],
)
def test_source_package_of_a_kernel(release, found):
    assert upstream.series_and_version(release) == found


def test_the_kernels_own_version_is_fetched(tmp_path, monkeypatch):
    asked = []

    def apt(argv, **options):
        asked.append(argv[-1])
        if argv[0] == "apt-get":
            (options["cwd"] / "linux-source-7.3_7.3.4-1~bpo13+1_all.deb").touch()
        return subprocess.CompletedProcess(argv, 0, MADISON, "")

    monkeypatch.setattr(mirror, "_updated", lambda *_: [])
    monkeypatch.setattr(mirror, "site", lambda: "http://debian/debian")
    monkeypatch.setattr(mirror.subprocess, "run", apt)
    mirror.download("trixie-backports", "linux-source-7.3", "7.3.4", "arm64", tmp_path)
    assert asked == ["linux-source-7.3", "linux-source-7.3=7.3.4-1~bpo13+1"]
    with pytest.raises(LabError, match=r"no linux-source-7\.3 of version 7\.3\.3"):
        mirror.download("trixie-backports", "linux-source-7.3", "7.3.3", "arm64", tmp_path)
