// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! SIGIO for a thread that waits for it where it chooses: blocked elsewhere, so that none is missed.

use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Blocks SIGIO for the calling thread.
pub fn block_sigio() {
    let set = sigio();
    // SAFETY: a set that is valid for the call, and no place for another. With these arguments the call does not fail.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut()) };
}

/// What the calling thread blocks, but for SIGIO, as the kernel's 64 bits: signal n is bit n - 1.
pub fn blocked_but_sigio() -> u64 {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: no set, and a place for one. With these arguments the call does not fail.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, null(), set.as_mut_ptr()) };
    // SAFETY: a set begins with the kernel's bits, and any are a u64.
    let bits = unsafe { set.as_ptr().cast::<u64>().read_unaligned() };
    bits & !(1 << (libc::SIGIO - 1))
}

/// Takes a blocked SIGIO. Return: there was one.
pub fn take_sigio() -> bool {
    let (set, now) = (sigio(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: a set and a time that are valid for the call; nobody wants to know who sent it.
    unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const now) == libc::SIGIO }
}

fn sigio() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a place for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: a set, and a signal that exists.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGIO) };
    // SAFETY: the calls above made it a set.
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
        // SAFETY: to this thread itself, which has blocked it.
        unsafe { libc::raise(libc::SIGIO) };
        assert!(take_sigio());
        assert!(!take_sigio());
    }
}
