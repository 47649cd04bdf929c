#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
#
# Installs what building and testing paracord needs on a Debian-like machine.
# Safe to run again at any time: looks first, installs only what is missing.
# The emulated hosts' images are not made here (`make lab-setup` makes them).
# With an architecture (setup.sh aarch64): what building paracord for it needs too.
set -euo pipefail
cd "$(dirname "$0")"

python_min_minor=11
# The lab's trees and images, Python, lint.
lab_packages=(mmdebstrap e2fsprogs cpio kmod zstd xz-utils python3 python3-venv git ca-certificates shellcheck)
# C, BPF (clang), libbpf's vendored libelf and zlib. lab/paracord_lab/tree_specs.py has them for the tree with Rust.
build_packages=(build-essential pkg-config autoconf automake autopoint flex bison gawk gettext libtool clang libclang-dev)

say() { printf 'setup: %s\n' "$*"; }
die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

packages() {
	local missing=() package
	for package in "$@"; do
		dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} = 0 ] && return
	command -v apt-get >/dev/null || die "no apt-get on this machine; install these by hand: ${missing[*]}"
	setup/as-root "installing the packages ${missing[*]}" "$PWD/setup/apt-install" "${missing[@]}"
}

apt_rust_minor() { apt-cache policy rustc 2>/dev/null | sed -n 's/.*Candidate: 1\.\([0-9]*\)\..*/\1/p'; }

rust() {
	if [ "$(setup/cargo --where)" = tree ]; then
		local minor min_minor
		minor=$(apt_rust_minor)
		min_minor=$(sed -n 's/^rust-version = "1\.\([0-9]*\)"/\1/p' Cargo.toml)
		if [ "${minor:-0}" -lt "$min_minor" ]; then
			say "no Rust >= 1.$min_minor here: it is used from Debian, in a tree of the lab's (or install it with rustup)"
			return
		fi
		packages cargo rustc rustfmt rust-clippy
	fi
	packages "${build_packages[@]}"
}

cross() {
	[ "$(setup/cargo --where)" = here ] ||
		die "building for $1 needs Rust's library for it: install Rust with rustup, then run this again"
	case $1 in
	aarch64) packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
	*) die "cannot build for $1; known: aarch64" ;;
	esac
	[ -d "$(setup/as-user rustc --print sysroot)/lib/rustlib/$1-unknown-linux-gnu" ] && return
	setup/as-user rustup --version >/dev/null 2>&1 ||
		die "building for $1 needs Rust's library for it: install Rust with rustup, then run this again"
	say "installing Rust's library for $1"
	setup/as-user rustup -q target add "$1-unknown-linux-gnu"
}

python() {
	local minor
	minor=$(python3 -c 'import sys; print(sys.version_info.minor)')
	[ "$minor" -ge "$python_min_minor" ] || die "needs Python >= 3.$python_min_minor, found 3.$minor"
	local want have=
	want=$(cat lab/requirements.lock <(python3 --version) | sha256sum)
	[ -f .venv/lock.sha256 ] && have=$(cat .venv/lock.sha256)
	if [ "$want" != "$have" ]; then
		say "making .venv from lab/requirements.lock"
		rm -rf .venv
		setup/as-user python3 -m venv .venv
		# Not .venv/bin/pip: the first line of a script cannot name a path with a space.
		setup/as-user .venv/bin/python -m pip install -q --require-hashes -r lab/requirements.lock
		printf '%s\n' "$want" | setup/as-user tee .venv/lock.sha256 >/dev/null
	fi
}

packages "${lab_packages[@]}"
rust
setup/as-user setup/target >/dev/null
python
[ -z "${1-}" ] || cross "$1"
say "ready"
