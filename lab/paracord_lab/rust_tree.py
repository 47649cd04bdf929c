# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
`python -m paracord_lab.rust_tree ARGUMENTS` runs cargo in a Debian tree, on machines without a
recent Rust.

setup/cargo calls it. The tree has the C library of the emulated hosts, so programs that are built
in it run on these hosts. cargo runs as the user, with the machine's network (name servers,
certificates, proxies) and with the user's cargo settings for registries. In the tree, the clone
always has the same path, wherever it is on the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import cache, privilege, tree
from .errors import LabError

SOURCE = "/mnt/src"
TARGET = "/mnt/target"
CARGO_HOME = "/mnt/cargo"
CERTIFICATES = "/mnt/certificates.crt"
# The files in which distributions keep the certificates that they trust.
CERTIFICATE_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
PASSED_ON = ("CARGO_", "RUST", "PROPTEST_", "PARACORD_", "TERM", "NO_COLOR")
# Variables with directories of this machine, which have other paths in the tree.
NOT_PASSED_ON = ("CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME", "PARACORD_PATH", "PARACORD_CACHE")


def cargo_home() -> Path:
    """
    The user's own cargo home, because of its registry and configuration. If there is none, a
    directory of the cache.
    """
    own = Path(os.environ.get("CARGO_HOME") or privilege.home() / ".cargo")
    return own if own.is_dir() else cache.root() / "cargo"


def target_directory() -> Path:
    """The directory in which cargo builds. It is outside of the tree."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or privilege.CLONE / "target")
    return (privilege.CLONE / target).resolve()


def outside(path: str) -> Path:
    """The path on this machine of a file that cargo has named, whether cargo ran in the tree or not."""
    below = path.removeprefix(f"{TARGET}/")
    return target_directory() / below if below != path else Path(path)


def certificates() -> Path | None:
    named = (os.environ.get("CARGO_HTTP_CAINFO"), os.environ.get("SSL_CERT_FILE"))
    return next((Path(p) for p in (*named, *CERTIFICATE_FILES) if p and Path(p).is_file()), None)


def environment(inherited: dict[str, str]) -> dict[str, str]:
    """The environment of cargo in the tree."""
    kept = {
        name: value
        for name, value in inherited.items()
        if (name.startswith(PASSED_ON) and name not in NOT_PASSED_ON) or name.lower().endswith("_proxy")
    }
    kept |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    kept |= {"CARGO_HOME": CARGO_HOME, "CARGO_TARGET_DIR": TARGET}
    if certificates():
        kept |= {"CARGO_HTTP_CAINFO": CERTIFICATES, "SSL_CERT_FILE": CERTIFICATES}
    return kept


def command(arguments: list[str]) -> list[str]:
    """The command line of cargo in the tree. Makes the tree if it does not exist."""
    rust = tree.ensure("rust")
    binds = {SOURCE: privilege.CLONE, TARGET: target_directory(), CARGO_HOME: cargo_home()}
    for directory in (binds[TARGET], binds[CARGO_HOME]):
        privilege.make_directory(directory)
    bundle = certificates()
    if bundle:
        binds[CERTIFICATES] = bundle
    cache.give_back()
    return tree.enter(
        rust,
        ["cargo", *arguments],
        binds,
        cwd=SOURCE,
        user=privilege.user(),
        network=True,
        capabilities=os.environ.get("PARACORD_CAPABILITIES", ""),
    )


def main(arguments: list[str]) -> int:
    try:
        argv = command(arguments)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.execvpe(argv[0], argv, environment(dict(os.environ)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
