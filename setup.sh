#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
#
# Installs what building and testing paracord needs on a Debian-like machine.
# Safe to run again at any time: looks first, installs only what is missing.
# The emulated hosts' images are not made here (`make lab-setup` makes them).
# With an architecture (setup.sh aarch64): what building paracord for it needs too.
set -euo pipefail
cd "$(dirname "$0")"

rust_min_minor=85 # rust-version in Cargo.toml
python_min_minor=11

say() { printf 'setup: %s\n' "$*"; }
die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	elif command -v sudo >/dev/null; then
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	else
		die "needs root to install packages and there is no sudo: run as root, or install by hand: $*"
	fi
}

apt_updated=
apt_install() {
	command -v apt-get >/dev/null || die "no apt-get on this machine; install these by hand: $*"
	if [ -z "$apt_updated" ]; then
		as_root apt-get update -qq || say "apt-get update failed; going on with the package lists at hand"
		apt_updated=1
	fi
	say "installing: $*"
	as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
		die "apt-get could not install: $* (look above; is the network up, the disk full?)"
}

packages() {
	local missing=() package
	for package in "$@"; do
		dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
}

rust_minor() { rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p'; }
apt_rust_minor() { apt-cache policy rustc 2>/dev/null | sed -n 's/.*Candidate: 1\.\([0-9]*\)\..*/\1/p'; }

rust() {
	[ -d "$HOME/.cargo/bin" ] && PATH="$HOME/.cargo/bin:$PATH"
	[ "$(rust_minor || true)" ] && [ "$(rust_minor)" -ge "$rust_min_minor" ] && command -v cargo >/dev/null && return
	if [ "$(apt_rust_minor)" ] && [ "$(apt_rust_minor)" -ge "$rust_min_minor" ]; then
		apt_install cargo rustc rustfmt rust-clippy
	elif apt-cache show rustup >/dev/null 2>&1; then
		apt_install rustup
		rustup default stable
	else
		die "needs Rust >= 1.$rust_min_minor and this distribution has none: install it with rustup, then run this again"
	fi
}

cross() {
	case $1 in
	aarch64) packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
	*) die "cannot build for $1; known: aarch64" ;;
	esac
	[ -d "$(rustc --print sysroot)/lib/rustlib/$1-unknown-linux-gnu" ] && return
	command -v rustup >/dev/null ||
		die "building for $1 needs Rust's library for it: install Rust with rustup, then run this again"
	say "installing Rust's library for $1"
	rustup -q target add "$1-unknown-linux-gnu"
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
		python3 -m venv .venv
		.venv/bin/pip install -q --require-hashes -r lab/requirements.lock
		printf '%s\n' "$want" >.venv/lock.sha256
	fi
}

# build: C, BPF (clang), libbpf's vendored libelf and zlib; lab: images; lint
packages build-essential pkg-config autoconf automake autopoint flex bison gawk gettext libtool \
	clang libclang-dev mmdebstrap e2fsprogs cpio kmod zstd xz-utils python3 python3-venv git ca-certificates \
	shellcheck
rust
python
[ -z "${1-}" ] || cross "$1"
say "ready"
