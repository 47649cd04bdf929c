# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Disks of guests whose I/O is measured. QEMU's main loop serves /dev/vda, and an I/O thread serves
/dev/vdb.
"""


def make_disks(host) -> None:
    """Makes the contents of the disks on the host. The disks are read-only, so all guests can share them."""
    host.run("for d in first second; do dd if=/dev/urandom of=/tmp/io-$d.img bs=1M count=4; done")


def disks() -> tuple[str, ...]:
    """QEMU's arguments for the disks."""
    return (
        *("-object", "iothread,id=io0"),
        *_drive("first", ""),
        *_drive("second", ",iothread=io0"),
    )


def _drive(name: str, device: str) -> tuple[str, ...]:
    return (
        *("-drive", f"if=none,id={name},format=raw,readonly=on,file=/tmp/io-{name}.img"),
        *("-device", f"virtio-blk-pci,drive={name}{device}"),
    )
