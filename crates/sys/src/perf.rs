// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Perf events of a thread: perf_event_open(2).

mod overflows;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Types of events (`enum perf_type_id`, include/uapi/linux/perf_event.h).
pub mod kind {
    /// PERF_TYPE_HARDWARE.
    pub const HARDWARE: u32 = 0;
    /// PERF_TYPE_SOFTWARE.
    pub const SOFTWARE: u32 = 1;
    /// PERF_TYPE_HW_CACHE.
    pub const HW_CACHE: u32 = 3;
}

/// `struct perf_event_attr`, first version. Every supported kernel accepts it. Its bit fields are
/// one word.
#[repr(C)]
#[derive(Default)]
struct RawAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// PERF_ATTR_SIZE_VER0.
const ATTR_BYTES: u32 = 64;
const _: () = assert!(size_of::<RawAttr>() == ATTR_BYTES as usize);

const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_EXCLUDE_USER: u64 = 1 << 4;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HOST: u64 = 1 << 19;
/// PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING.
const READ_TIMES: u64 = 1 << 0 | 1 << 1;
/// PERF_FLAG_FD_CLOEXEC.
const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;

/// `_IO('$', 0)`, `_IO('$', 1)`, `_IO('$', 2)`, `_IOW('$', 4, __u64)`.
const IOC_ENABLE: u32 = 0x2400;
const IOC_DISABLE: u32 = 0x2401;
const IOC_REFRESH: u32 = 0x2402;
const IOC_PERIOD: u32 = 0x4008_2404;

/// What an event counts, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfAttr {
    /// Type of the event: [`kind`].
    pub kind: u32,
    /// The event within its type.
    pub config: u64,
    /// The event overflows after every `sample_period` counts. 0: the event only counts, and cannot
    /// get a period later.
    pub sample_period: u64,
    /// Do not count in user mode.
    pub exclude_user: bool,
    /// Do not count in kernel mode.
    pub exclude_kernel: bool,
    /// Count only in KVM guests. Software events ignore this.
    pub exclude_host: bool,
}

/// The counts of an event since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfReading {
    /// The count.
    pub count: u64,
    /// Time that the thread ran while the event was enabled.
    pub enabled_ns: u64,
    /// The part of `enabled_ns` in which a hardware counter was assigned to the event. It is less
    /// than `enabled_ns` if the host had too few counters.
    pub running_ns: u64,
}

/// An open event. Dropping it closes it.
#[derive(Debug)]
pub struct PerfEvent(OwnedFd);

impl PerfEvent {
    /// Opens an event of thread `tid` (0: the calling thread) on all CPUs. The event is disabled.
    ///
    /// # Errors
    /// EACCES or EPERM if the host forbids the event (kernel.perf_event_paranoid, seccomp); ENOENT,
    /// EOPNOTSUPP or ENODEV if the host does not have the event; EINVAL if the event cannot be
    /// counted this way; ESRCH if there is no such thread; EMFILE if no file descriptor is left.
    pub fn open(tid: u32, attr: &PerfAttr) -> io::Result<PerfEvent> {
        let flag = |on: bool, flag: u64| if on { flag } else { 0 };
        let raw = RawAttr {
            kind: attr.kind,
            size: ATTR_BYTES,
            config: attr.config,
            sample_period: attr.sample_period,
            read_format: READ_TIMES,
            flags: FLAG_DISABLED
                | flag(attr.exclude_user, FLAG_EXCLUDE_USER)
                | flag(attr.exclude_kernel, FLAG_EXCLUDE_KERNEL)
                | flag(attr.exclude_host, FLAG_EXCLUDE_HOST),
            ..RawAttr::default()
        };
        let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
        // SAFETY: `raw` is valid for reading the ATTR_BYTES that it declares. The kernel keeps no
        // reference.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const raw,
                libc::c_long::from(tid),
                libc::c_long::from(any_cpu),
                libc::c_long::from(no_group),
                OPEN_CLOEXEC,
            )
        };
        match i32::try_from(fd) {
            // SAFETY: the call has just returned this descriptor, and nothing else owns it.
            Ok(fd) if fd >= 0 => Ok(PerfEvent(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Enables the event: it counts from then on.
    ///
    /// # Errors
    /// The error of ioctl(2).
    pub fn enable(&self) -> io::Result<()> {
        self.switch(IOC_ENABLE, 0)
    }

    /// Enables the event until its next overflow, which disables it.
    ///
    /// If the event was enabled in this way before, and was disabled before it overflowed, only the
    /// second overflow disables it.
    ///
    /// # Errors
    /// EINVAL if the event was opened without a period; otherwise the error of ioctl(2).
    pub fn enable_once(&self) -> io::Result<()> {
        self.switch(IOC_REFRESH, 1)
    }

    /// Disables the event. It keeps its count.
    ///
    /// # Errors
    /// The error of ioctl(2).
    pub fn disable(&self) -> io::Result<()> {
        self.switch(IOC_DISABLE, 0)
    }

    fn switch(&self, request: u32, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event, and the request takes no pointer.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the period: the event overflows after `period` more counts, and then after every
    /// `period` counts.
    ///
    /// # Errors
    /// EINVAL if the period is 0 or at least 2^63, or if the event was opened without a period.
    pub fn set_period(&self, period: u64) -> io::Result<()> {
        // SAFETY: the descriptor is an open perf event. The request reads one u64, which is valid
        // for the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_PERIOD as _, &raw const period) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// `UnexpectedEof` if the kernel has put the event into its error state; otherwise the error of
    /// read(2).
    pub fn read(&self) -> io::Result<PerfReading> {
        let mut words = [[0_u8; 8]; 3];
        if rustix::io::read(&self.0, words.as_flattened_mut())? != size_of_val(&words) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [count, enabled_ns, running_ns] = words.map(u64::from_ne_bytes);
        Ok(PerfReading { count, enabled_ns, running_ns })
    }
}

pub use overflows::{Listener, Overflows};

#[cfg(test)]
mod tests {
    use super::*;

    /// PERF_COUNT_SW_TASK_CLOCK.
    const TASK_CLOCK: PerfAttr = PerfAttr {
        kind: kind::SOFTWARE,
        config: 1,
        sample_period: 1 << 40,
        exclude_user: false,
        exclude_kernel: false,
        exclude_host: false,
    };

    /// Opens an event of this thread. Fails on machines that forbid perf events
    /// (kernel.perf_event_paranoid).
    fn open(attr: &PerfAttr) -> PerfEvent {
        PerfEvent::open(0, attr).unwrap()
    }

    #[test]
    fn an_event_counts_while_it_is_enabled_and_not_before_or_after() {
        let event = open(&TASK_CLOCK);
        assert_eq!(event.read().unwrap(), PerfReading::default());
        event.enable().unwrap();
        while event.read().unwrap().count < 1_000_000 {}
        event.disable().unwrap();
        let reading = event.read().unwrap();
        assert!(reading.enabled_ns >= reading.running_ns && reading.running_ns > 0, "{reading:?}");
        assert_eq!(event.read().unwrap(), reading);
    }

    #[test]
    fn bad_periods_and_events_are_refused() {
        let event = open(&TASK_CLOCK);
        event.set_period(1 << 41).unwrap();
        for period in [0, 1 << 63, u64::MAX] {
            assert_eq!(event.set_period(period).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let counts = open(&PerfAttr { sample_period: 0, ..TASK_CLOCK });
        assert_eq!(counts.set_period(7).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(PerfEvent::open(0, &PerfAttr { config: u64::MAX, ..TASK_CLOCK }).is_err());
        assert!(PerfEvent::open(0, &PerfAttr { kind: u32::MAX, ..TASK_CLOCK }).is_err());
    }
}
