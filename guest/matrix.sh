#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# matrix.sh [HEADERS...]: builds the module against each kernel's headers, with warnings as errors.
# Without arguments, HEADERS is every /lib/modules/*/build. A copy of the sources is built, so that nothing
# is left beside the sources. Prints one line per kernel. Exit code: 1 if any build failed, 2 if there were no
# headers to build against.
set -u
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d) || exit 2
trap 'rm -rf "$copy"' EXIT

[ $# -gt 0 ] || set -- /lib/modules/*/build
status=2
for headers in "$@"; do
	if [ ! -e "$headers/Makefile" ]; then
		echo "matrix: no kernel headers at $headers" >&2
		continue
	fi
	[ $status -ne 2 ] || status=0
	rm -rf "$copy/guest"
	mkdir "$copy/guest" "$copy/guest/abi"
	cp "$here"/*.[ch] "$here/Kbuild" "$copy/guest/"
	cp "$here"/../abi/paracord_abi.h "$copy/guest/abi/" 2>/dev/null || cp "$here"/abi/paracord_abi.h "$copy/guest/abi/"
	release=$(cat "$headers/include/config/kernel.release" 2>/dev/null || echo "$headers")
	# BTF of the module needs pahole and the kernel's vmlinux; neither is under test here.
	if make -C "$headers" M="$copy/guest" W=1 KCFLAGS=-Werror CONFIG_DEBUG_INFO_BTF_MODULES= modules >"$copy/log" 2>&1 &&
		! grep -q 'warning:' "$copy/log"; then
		strip -g -o "$copy/stripped.ko" "$copy/guest/paracord_guest.ko"
		echo "ok $release $(size -A "$copy/stripped.ko" | awk '/^\.(text|data|rodata|bss|noinstr\.text|init\.text|exit\.text)/ { n += $2 } END { print n }') bytes"
	else
		echo "FAILED $release"
		tail -n 20 "$copy/log"
		status=1
	fi
done
[ $status -ne 2 ] || echo "matrix: no kernel headers: install linux-headers-\$(uname -r) or name header directories" >&2
exit $status
