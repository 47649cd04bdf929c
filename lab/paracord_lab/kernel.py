# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Kernel files of a tree: boot image, modules with their dependencies, initramfs archives."""

from __future__ import annotations

import gzip
import lzma
import stat
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .errors import LabError

# Documentation/arch/x86/boot.rst: offsets in the header of a bzImage.
BZIMAGE_SETUP_SECTORS = 0x1F1
BZIMAGE_MAGIC = 0x202
BZIMAGE_PAYLOAD_OFFSET = 0x248
BZIMAGE_PAYLOAD_BYTES = 0x24C
# drivers/firmware/efi/libstub/zboot-header.S: the magic, then offset and length of the payload.
ZBOOT_MAGIC = 4
GZIP_MAGIC = b"\x1f\x8b"


def boot_image(tree: Path, release: str) -> Path:
    """The compressed kernel in a tree."""
    for path in (tree / f"boot/vmlinuz-{release}", tree / f"usr/lib/modules/{release}/vmlinuz"):
        if path.is_file():
            return path
    raise LabError(f"{tree} has no kernel image of {release}: remove the directory and try again")


def decompress(image: bytes) -> bytes:
    """Returns the kernel inside a compressed boot image. Returns other images unchanged.

    QEMU enters an x86 kernel through its PVH note. The emulated machine then need not decompress
    the kernel, which would take seconds.
    """
    if image[BZIMAGE_MAGIC : BZIMAGE_MAGIC + 4] == b"HdrS":
        return decompress_bzimage(image)
    if image[ZBOOT_MAGIC : ZBOOT_MAGIC + 4] == b"zimg":
        offset, length = struct.unpack_from("<II", image, ZBOOT_MAGIC + 4)
        return _unpack(image[offset : offset + length], trailer=False)
    return _unpack(image, trailer=False) if image[:2] == GZIP_MAGIC else image


def decompress_bzimage(image: bytes) -> bytes:
    """The ELF kernel inside an x86 bzImage.

    Source: Documentation/arch/x86/boot.rst, payload_offset and payload_length.
    """
    if image[BZIMAGE_MAGIC : BZIMAGE_MAGIC + 4] != b"HdrS":
        raise LabError("the kernel image is not an x86 bzImage")
    sectors = image[BZIMAGE_SETUP_SECTORS] or 4
    offset, length = struct.unpack_from("<II", image, BZIMAGE_PAYLOAD_OFFSET)
    start = (sectors + 1) * 512 + offset
    elf = _unpack(image[start : start + length], trailer=True)
    if elf[:4] != b"\x7fELF":
        raise LabError("the decompressed kernel is not an ELF file")
    return elf


def _unpack(payload: bytes, trailer: bool) -> bytes:
    """
    trailer: the uncompressed size follows in 4 bytes. This does not apply to gzip, whose format
    contains the size.
    """
    if payload[:4] == b"\x28\xb5\x2f\xfd":
        packed = payload[:-4] if trailer else payload
        return subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True, check=True).stdout
    if payload[:6] == b"\xfd7zXZ\x00":
        return lzma.decompress(payload[:-4] if trailer else payload)
    if payload[:2] == GZIP_MAGIC:
        return gzip.decompress(payload)
    raise LabError(f"the kernel is compressed in an unknown way (starts with {payload[:6].hex()})")


def modules_with_dependencies(modules: Path, wanted: Iterable[str]) -> list[Path]:
    """
    The module files to load, in order, so that every wanted module is loaded. Built-in modules need
    no file.

    modules: /usr/lib/modules/RELEASE of a tree. Raises LabError for a module that does not exist.
    """
    depends: dict[str, tuple[Path, list[str]]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        depends[_module_name(path)] = (modules / path, [_module_name(n) for n in needs.split()])
    builtin = {_module_name(line) for line in (modules / "modules.builtin").read_text().split()}
    order: list[Path] = []

    def add(name: str) -> None:
        if name not in depends:
            if name in builtin:
                return
            raise LabError(f"kernel {modules.name} has no module {name}")
        path, needs = depends[name]
        if path not in order:
            for need in reversed(needs):  # depmod writes the nearest dependency first
                add(need)
            order.append(path)

    for name in wanted:
        add(name.replace("-", "_"))
    return order


def read_module(path: Path) -> bytes:
    """A module in the form that insmod needs: uncompressed."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout
    return data


def _module_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_")


class Initramfs:
    """A newc cpio archive, written without root and without temporary files.

    Archives can be concatenated: the kernel unpacks one after the other.
    Source: Documentation/driver-api/early-userspace/buffer-format.rst.
    """

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._inode = 0
        self._directories: set[str] = set()

    def directory(self, path: str) -> None:
        for parent in [*reversed(Path(path).parents), Path(path)]:
            name = str(parent)
            if name not in (".", "/") and name not in self._directories:
                self._directories.add(name)
                self._entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, data: bytes, mode: int = 0o755) -> None:
        self.directory(str(Path(path).parent))
        self._entry(path, stat.S_IFREG | mode, data)

    def symlink(self, path: str, target: str) -> None:
        self.directory(str(Path(path).parent))
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int) -> None:
        self.directory(str(Path(path).parent))
        self._entry(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def archive(self) -> bytes:
        """The complete archive, padded so that another one can be appended."""
        self._entry("TRAILER!!!", 0, b"")
        data = b"".join(self._chunks)
        return data + b"\0" * (-len(data) % 512)

    def _entry(self, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        name = path.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._chunks += [header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)]
