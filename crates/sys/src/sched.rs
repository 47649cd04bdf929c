// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Scheduling attributes of a thread: sched_getattr(2), sched_setattr(2).
//!
//! [`get`] and [`set`] handle policy, nice value, priority, and the deadline parameters or the
//! slice. They do not change utilisation clamps, because they do not pass the flags that would set
//! clamps. Clamps have functions of their own.

use std::io;

/// Scheduling policies (include/uapi/linux/sched.h).
pub mod policy {
    /// SCHED_OTHER.
    pub const OTHER: u32 = 0;
    /// SCHED_FIFO.
    pub const FIFO: u32 = 1;
    /// SCHED_RR.
    pub const RR: u32 = 2;
    /// SCHED_BATCH.
    pub const BATCH: u32 = 3;
    /// SCHED_IDLE.
    pub const IDLE: u32 = 5;
    /// SCHED_DEADLINE.
    pub const DEADLINE: u32 = 6;
    /// SCHED_EXT.
    pub const EXT: u32 = 7;
}

/// Children of the thread start with a normal policy.
pub const FLAG_RESET_ON_FORK: u64 = 0x01;
/// Flags that are attributes of the thread (reset-on-fork, and deadline's reclaim and overrun), as
/// opposed to flags that only control the call.
const FLAGS_KEPT: u64 = 0x01 | 0x02 | 0x04;

/// `struct sched_attr` of include/uapi/linux/sched/types.h, second version. The kernel reads and
/// writes the first `size` bytes. The first version does not have the clamps.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    util_min: u32,
    util_max: u32,
}

const FIRST_BYTES: u32 = 48;
const CLAMPED_BYTES: u32 = 56;
const _: () = assert!(size_of::<RawAttr>() == CLAMPED_BYTES as usize);

/// Reads the first `bytes` bytes of the attributes of thread `tid`.
fn get_raw(tid: u32, bytes: u32) -> io::Result<RawAttr> {
    let mut raw = RawAttr::default();
    debug_assert!(bytes <= CLAMPED_BYTES);
    // SAFETY: `raw` is valid for writing CLAMPED_BYTES, which is at least the size that is passed,
    // and all of its bit patterns are valid. The kernel keeps no reference.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            libc::c_long::from(tid),
            &raw mut raw,
            libc::c_long::from(bytes),
            libc::c_long::from(0),
        )
    };
    if rc == 0 { Ok(raw) } else { Err(io::Error::last_os_error()) }
}

fn set_raw(tid: u32, raw: &RawAttr) -> io::Result<()> {
    debug_assert!(raw.size <= CLAMPED_BYTES);
    // SAFETY: `raw` is valid for reading CLAMPED_BYTES, which is at least the size that it
    // declares. The kernel keeps no reference.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            libc::c_long::from(tid),
            std::ptr::from_ref(raw),
            libc::c_long::from(0),
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// SCHED_FLAG_KEEP_POLICY, SCHED_FLAG_KEEP_PARAMS.
const FLAGS_KEEP_ALL: u64 = 0x08 | 0x10;
const FLAG_UTIL_MIN: u64 = 0x20;
const FLAG_UTIL_MAX: u64 = 0x40;
/// Value that resets a clamp (Linux >= 5.11).
const UTIL_RESET: u32 = u32::MAX;

/// The scheduling attributes of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAttr {
    /// Scheduling policy: [`policy`].
    pub policy: u32,
    /// [`FLAG_RESET_ON_FORK`] and the flags of deadline.
    pub flags: u64,
    /// Nice value of the normal policies, -20..=19.
    pub nice: i32,
    /// Priority of FIFO and RR, 1..=99.
    pub priority: u32,
    /// Deadline: runtime. Normal policies: slice; setting 0 selects the default slice.
    pub runtime_ns: u64,
    /// Deadline: relative deadline.
    pub deadline_ns: u64,
    /// Deadline: period.
    pub period_ns: u64,
}

impl SchedAttr {
    /// Attributes of SCHED_RR or SCHED_FIFO that children do not inherit.
    pub fn realtime(policy: u32, priority: u32) -> SchedAttr {
        SchedAttr { policy, priority, flags: FLAG_RESET_ON_FORK, ..SchedAttr::default() }
    }

    /// Whether the policy is FIFO, RR or deadline.
    pub fn is_realtime(&self) -> bool {
        matches!(self.policy, policy::FIFO | policy::RR | policy::DEADLINE)
    }
}

/// Reads the attributes of thread `tid` (0: the calling thread).
///
/// # Errors
/// ESRCH if there is no such thread; EPERM under some security modules.
pub fn get(tid: u32) -> io::Result<SchedAttr> {
    let raw = get_raw(tid, FIRST_BYTES)?;
    Ok(SchedAttr {
        policy: raw.policy,
        flags: raw.flags & FLAGS_KEPT,
        nice: raw.nice,
        priority: raw.priority,
        runtime_ns: raw.runtime_ns,
        deadline_ns: raw.deadline_ns,
        period_ns: raw.period_ns,
    })
}

/// Sets the attributes of thread `tid` (0: the calling thread).
///
/// # Errors
/// ESRCH if there is no such thread, EPERM without CAP_SYS_NICE, EINVAL if a value is out of range,
/// EBUSY if deadline admission fails.
pub fn set(tid: u32, attr: &SchedAttr) -> io::Result<()> {
    let raw = RawAttr {
        size: FIRST_BYTES,
        policy: attr.policy,
        flags: attr.flags & FLAGS_KEPT,
        nice: attr.nice,
        priority: attr.priority,
        runtime_ns: attr.runtime_ns,
        deadline_ns: attr.deadline_ns,
        period_ns: attr.period_ns,
        ..RawAttr::default()
    };
    set_raw(tid, &raw)
}

/// A change of one utilisation clamp of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Util {
    /// Keeps the clamp.
    Keep,
    /// Resets the clamp, as if none had ever been requested.
    Reset,
    /// Sets the clamp to this value, 0..=1024.
    To(u32),
}

/// The utilisation clamps (minimum, maximum) that thread `tid` has requested from the kernel; 0 and
/// 1024 if it has requested none.
///
/// # Errors
/// As for [`get`]. A kernel without clamps reports 0 and 0.
pub fn util_clamps(tid: u32) -> io::Result<(u32, u32)> {
    let raw = get_raw(tid, CLAMPED_BYTES)?;
    Ok((raw.util_min, raw.util_max))
}

/// Changes the utilisation clamps of thread `tid`, and nothing else.
///
/// # Errors
/// As for [`set`]; EOPNOTSUPP on kernels without clamps.
pub fn set_util_clamps(tid: u32, min: Util, max: Util) -> io::Result<()> {
    let change = |util, flag| match util {
        Util::Keep => (0, 0),
        Util::Reset => (flag, UTIL_RESET),
        Util::To(value) => (flag, value),
    };
    let (min_flag, util_min) = change(min, FLAG_UTIL_MIN);
    let (max_flag, util_max) = change(max, FLAG_UTIL_MAX);
    let flags = FLAGS_KEEP_ALL | min_flag | max_flag;
    set_raw(tid, &RawAttr { size: CLAMPED_BYTES, flags, util_min, util_max, ..RawAttr::default() })
}

/// Makes the calling thread a SCHED_FIFO thread that requests no frequency. (With the kernel's
/// default clamp, kernel.sched_util_clamp_min_rt_default, each wakeup of the thread would set its
/// CPU to the highest frequency.) The thread's children do not inherit the policy.
///
/// # Errors
/// As for [`set`]. A kernel without clamps has no such default, so failing to set the clamp is not
/// an error.
pub fn become_realtime(priority: u32) -> io::Result<()> {
    set(0, &SchedAttr::realtime(policy::FIFO, priority))?;
    let _ = set_util_clamps(0, Util::To(0), Util::Keep);
    Ok(())
}

/// The default slice of threads of the normal policies: the slice of the calling thread, which must
/// not have requested one. Used to distinguish a requested slice from the default.
///
/// 0 if the calling thread is real-time, and on kernels without slices (before 6.12).
pub fn default_slice_ns() -> u64 {
    match get(0) {
        Ok(attr) if !attr.is_realtime() => attr.runtime_ns,
        _ => 0,
    }
}

/// How often the calling thread has waited for something other than a CPU: the number of its
/// voluntary context switches.
pub fn waits() -> u64 {
    // SAFETY: all bit patterns of rusage are valid, including all zeros.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing, and the kernel keeps no reference. The call cannot fail
    // with these arguments; if it did, `usage` would stay zero.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nvcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_thread_is_normal_and_can_lower_itself() {
        std::thread::spawn(|| {
            let before = get(0).unwrap();
            assert_eq!(before.policy, policy::OTHER);
            let after = SchedAttr { nice: 7, runtime_ns: 0, ..before };
            set(0, &after).unwrap();
            assert_eq!(get(0).unwrap().nice, 7);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn only_what_waits_counts_as_waiting() {
        let before = waits();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(waits() > before);
        let before = waits();
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(20) {}
        assert_eq!(waits(), before);
    }

    #[test]
    fn missing_thread_and_bad_value_are_errors() {
        // This is above the kernel's limit on thread IDs (PID_MAX_LIMIT).
        let missing = get(1 << 23).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ESRCH));
        let bad = set(0, &SchedAttr { policy: 77, ..SchedAttr::default() }).unwrap_err();
        assert_eq!(bad.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn clamps_are_set_and_taken_back_or_refused_by_name() {
        std::thread::spawn(|| {
            let before = get(0).unwrap();
            match set_util_clamps(0, Util::Keep, Util::To(200)) {
                Ok(()) => assert_eq!(util_clamps(0).unwrap(), (0, 200)),
                // The kernel has no clamps.
                Err(error) => {
                    return assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
                }
            }
            set_util_clamps(0, Util::Reset, Util::Reset).unwrap();
            assert_eq!(util_clamps(0).unwrap(), (0, 1024));
            assert_eq!(get(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
