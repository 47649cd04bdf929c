// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! SIGIO for a thread that takes the signal only at a point of its choice. Everywhere else, the
//! signal is blocked and stays pending, so that it is not missed.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Blocks SIGIO for the calling thread.
pub fn block_sigio() {
    let set = sigio();
    // SAFETY: the set is valid for the call, and the old set is not requested. With these arguments
    // the call does not fail.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut()) };
}

/// The signals that the calling thread blocks, except SIGIO, in the kernel's 64-bit form: signal n
/// is bit n - 1.
pub fn blocked_but_sigio() -> u64 {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: no new set is passed, and there is room for the old one. With these arguments the
    // call does not fail.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), set.as_mut_ptr()) };
    // SAFETY: a set begins with the kernel's 64 bits, and any bits are a valid u64.
    let bits = unsafe { set.as_ptr().cast::<u64>().read_unaligned() };
    bits & !(1 << (libc::SIGIO - 1))
}

/// Consumes a pending SIGIO, which must be blocked. Returns whether there was one.
pub fn take_sigio() -> bool {
    let (set, now) = (sigio(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: the set and the time are valid for the call, and no information about the sender is
    // requested.
    unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const now) == libc::SIGIO }
}

fn sigio() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer has room for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the pointer is to an initialised set, and the signal exists.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGIO) };
    // SAFETY: the calls above have initialised the set.
    unsafe { set.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_waits_until_it_is_taken() {
        let before = blocked_but_sigio();
        block_sigio();
        assert_eq!(blocked_but_sigio(), before);
        assert!(!take_sigio());
        // SAFETY: the signal goes to this thread, which blocks it.
        unsafe { libc::raise(libc::SIGIO) };
        assert!(take_sigio());
        assert!(!take_sigio());
    }
}
