# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Determines the Debian mirror, and the kernel versions that it has now.

The mirror is the one in this machine's own apt configuration ($PARACORD_MIRROR overrides it).
Kernel metapackages (`linux-image-amd64`) are resolved to the versioned package that they depend on.
apt itself does this in a private directory, so the machine's proxies and credentials apply, and no
version is ever pinned.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from functools import cache as memoize
from pathlib import Path

from . import cache
from .errors import LabError
from .progress import Progress

# How long a resolved version is used before the mirror is asked again.
INDEX_FRESH_S = 24 * 3600
KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)
APT_OPTIONS = (
    "-oAcquire::Check-Valid-Until=false",
    "-oAcquire::Languages=none",
    "-oAPT::Install-Recommends=false",
)


class MirrorUnreachable(LabError):
    """The mirror did not answer. A cached entry may still be usable."""


@memoize
def site() -> str:
    """The base address of the Debian mirror."""
    override = os.environ.get("PARACORD_MIRROR")
    if override:
        return override.rstrip("/")
    try:
        targets = subprocess.run(
            [
                "apt-get",
                "indextargets",
                "--format",
                "$(SITE) $(RELEASE) $(COMPONENT)",
                "Created-By: Packages",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        raise LabError("apt-get indextargets failed: the lab needs a Debian-like machine with apt") from None
    for line in targets:
        address, _, rest = line.partition(" ")
        release = rest.split(" ")[0]
        if re.fullmatch(r"https?://\S+/debian/?", address) and "security" not in release:
            return address.rstrip("/")
    raise LabError(
        "apt knows no Debian mirror on this machine: set PARACORD_MIRROR to one (http://HOST/debian)"
    )


def sources(suites: tuple[str, ...]) -> list[str]:
    """Lines for sources.list."""
    return [f"deb {site()} {suite} main" for suite in suites]


def resolve(suite: str, metapackage: str, debian_arch: str) -> str:
    """The versioned package on which a kernel metapackage of a suite depends now.

    Raises MirrorUnreachable if the mirror cannot be asked and was never asked before.
    """
    config = _updated(suite, debian_arch)
    shown = subprocess.run(
        ["apt-cache", *config, "show", "--no-all-versions", metapackage], capture_output=True, text=True
    ).stdout
    prefix = metapackage.split("-")[1]  # linux-image-amd64 -> linux-image-6.12.0-amd64
    depends = re.search(r"^Depends:(.*)$", shown, re.MULTILINE)
    found = re.search(rf"\blinux-{prefix}-\d\S*", depends.group(1)) if depends else None
    if not found:
        raise LabError(f"{suite} has no {metapackage} on {site()}")
    return found.group(0).rstrip(",")


def download(suite: str, package: str, upstream_version: str, debian_arch: str, directory: Path) -> Path:
    """
    Downloads the file of this upstream version of a package into a directory, and returns its path.

    Raises MirrorUnreachable if the mirror cannot be asked and was never asked before. Raises
    LabError if the mirror has only another version.
    """
    config = _updated(suite, debian_arch)
    listed = subprocess.run(
        ["apt-cache", *config, "madison", package], capture_output=True, text=True
    ).stdout.splitlines()
    versions = [line.split("|")[1].strip() for line in listed]
    found = next((v for v in versions if v.split("-")[0] == upstream_version), None)
    if not found:
        raise LabError(f"{suite} has no {package} of version {upstream_version} on {site()}")
    fetched = subprocess.run(
        ["apt-get", *config, "-qq", "download", f"{package}={found}"],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    if fetched.returncode != 0:
        reason = next(iter(fetched.stderr.strip().splitlines()), "no reason given")
        raise LabError(f"{package} {found} could not be fetched: {reason}")
    (file,) = directory.glob(f"{package}_*.deb")
    return file


def _updated(suite: str, debian_arch: str) -> list[str]:
    """
    apt options for package lists of a suite. The lists are new. If the mirror does not answer, the
    lists of an earlier call are used.
    """
    state = cache.root() / "apt" / f"{suite}-{debian_arch}"
    config = _private_apt(state, suite, debian_arch)
    stamp = state / "updated"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > INDEX_FRESH_S:
        with Progress(f"asking the mirror for {suite}'s kernel version"):
            update = subprocess.run(
                ["apt-get", *config, "-qq", "-oAPT::Update::Error-Mode=any", "update"],
                capture_output=True,
                text=True,
            )
        if update.returncode == 0:
            stamp.touch()
        elif not stamp.exists():
            reason = next(iter(update.stderr.strip().splitlines()), "no reason given")
            raise MirrorUnreachable(f"{suite}: the mirror {site()} did not answer ({reason})")
    return config


def _private_apt(state: Path, suite: str, debian_arch: str) -> list[str]:
    """apt options that use separate package lists, not those of this machine."""
    for sub in ("lists/partial", "archives/partial"):
        (state / sub).mkdir(parents=True, exist_ok=True)
    keyring = next((k for k in KEYRINGS if Path(k).exists()), None)
    signed = f"[signed-by={keyring}] " if keyring and not _machine_keys() else ""
    (state / "sources.list").write_text(f"deb {signed}{site()} {suite} main\n")
    (state / "status").touch()
    return [
        *APT_OPTIONS,
        f"-oAPT::Architecture={debian_arch}",
        f"-oAPT::Architectures={debian_arch}",
        f"-oDir::Etc::SourceList={state}/sources.list",
        "-oDir::Etc::SourceParts=-",
        "-oDir::Etc::Preferences=-",
        "-oDir::Etc::PreferencesParts=-",
        f"-oDir::State={state}",
        f"-oDir::State::status={state}/status",
        f"-oDir::Cache={state}",
        "-oAPT::Sandbox::User=root",
    ]


def _machine_keys() -> bool:
    return any(Path("/etc/apt/trusted.gpg.d").glob("debian-archive-*"))
