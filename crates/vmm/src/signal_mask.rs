// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! SIGIO is blocked in a vCPU's thread, except while its guest runs. If a SIGIO arrives just before
//! the guest runs, KVM_RUN returns immediately.

use kvm_ioctls::VcpuFd;
use paracord_sys::signal;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::error::Error;

/// `struct kvm_signal_mask` (Documentation/virt/kvm/api.rst, 4.11), and the set that follows it.
#[repr(C)]
struct SignalMask {
    bytes: u32,
    set: [u8; size_of::<u64>()],
}

/// The type whose size the request's number encodes: the structure without the set.
type Header = u32;
const KVMIO: u32 = 0xae;
ioctl_iow_nr!(KVM_SET_SIGNAL_MASK, KVMIO, 0x8b, Header);

/// Sets the signal mask for the calling thread, which runs the vCPU.
///
/// # Errors
/// [`Error::System`].
pub fn run_ends_with_sigio(vcpu: &VcpuFd) -> Result<(), Error> {
    let set = signal::blocked_but_sigio().to_ne_bytes();
    let mask = SignalMask { bytes: set.len() as u32, set };
    // SAFETY: the request reads the structure, and after it as many bytes as the structure
    // declares. Both are valid for the call.
    match unsafe { ioctl_with_ref(vcpu, KVM_SET_SIGNAL_MASK(), &mask) } {
        0 => Ok(()),
        _ => Err(Error::System {
            what: "set the signals of a vCPU's thread",
            source: std::io::Error::last_os_error(),
        }),
    }
}
