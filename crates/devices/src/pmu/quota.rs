// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Limits of what a VM's counters may cost the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paracord_policy::pmu::{self, Allowed};
use paracord_policy::{PC_PMU_SLICE_NS, pc_pmu_quota};
use paracord_sys::clock::now_ns;

/// The length of a slice. [`Pool::end_slice`](super::Pool::end_slice) is called at least this
/// often, even if the vCPU's thread is never switched out.
pub const SLICE: Duration = Duration::from_nanos(PC_PMU_SLICE_NS as u64);

/// What the counters of a VM may cost the host. A vCPU that would exceed these limits is not served
/// until the next period of 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Events opened per second.
    pub opens_per_sec: u32,
    /// Time in system calls per second.
    pub calls_per_sec: Duration,
}

impl Default for Quota {
    fn default() -> Quota {
        let quota = pmu::default_quota();
        Quota {
            opens_per_sec: quota.opens_per_sec,
            calls_per_sec: Duration::from_nanos(quota.calls_ns_per_sec),
        }
    }
}

/// The budget of a VM, which the pools of its vCPUs share. The default is the budget of the default
/// [`Quota`].
#[derive(Debug)]
pub struct Budget {
    budget: pmu::Budget,
    spent_ns: AtomicU64,
}

impl Budget {
    /// Makes a full budget.
    pub fn new(quota: Quota) -> Budget {
        let calls_ns_per_sec = u64::try_from(quota.calls_per_sec.as_nanos()).unwrap_or(u64::MAX);
        let opens_per_sec = quota.opens_per_sec;
        let budget =
            pmu::Budget::new(pc_pmu_quota { calls_ns_per_sec, opens_per_sec, reserved: 0 });
        Budget { budget, spent_ns: AtomicU64::new(0) }
    }

    /// Time spent in system calls so far.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    pub(super) fn allowed(&self, now_ns: u64) -> Allowed {
        self.budget.allowed(now_ns)
    }

    pub(super) fn charge_opening(&self) {
        self.budget.charge(1, 0);
    }

    /// Charges time that was spent in system calls.
    pub fn charge(&self, used: Duration) {
        let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.budget.charge(0, used_ns);
        self.spent_ns.fetch_add(used_ns, Ordering::Relaxed);
    }

    /// Whether the budget is used up. Nothing is then served for a while.
    pub fn is_over(&self) -> bool {
        self.allowed(now_ns()) == Allowed::Nothing
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Quota::default())
    }
}
