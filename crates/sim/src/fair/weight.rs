// SPDX-License-Identifier: GPL-2.0-only
//! Weights and slices, and virtual time, which is running time divided by weight.

use crate::mix::Policy;

/// `NICE_0_LOAD`: the weight of nice 0, and of `cpu.weight` 100.
pub const NICE_0_LOAD: u64 = 1 << 20;
/// `SCHED_FIXEDPOINT_SHIFT`: number of fractional bits of a weight.
const SHIFT: u32 = 10;
/// `WEIGHT_IDLEPRIO`: the weight of SCHED_IDLE and of `cpu.idle`.
pub const WEIGHT_IDLE: u64 = 3 << SHIFT;
/// `MIN_SHARES`.
pub const MIN_SHARES: u64 = 2;

/// `sysctl_sched_base_slice`, before it is multiplied by a factor for the number of CPUs
/// (`get_update_sysctl_factor()`).
const BASE_SLICE_NS: i64 = 700_000;

/// `update_sysctl()`: `sysctl_sched_base_slice` on a machine with this many CPUs.
#[must_use]
pub fn base_slice_ns(cpus: usize) -> i64 {
    BASE_SLICE_NS * (1 + i64::from(cpus.clamp(1, 8).ilog2()))
}

/// `sched_prio_to_weight[]`: one nice level changes the weight by a quarter. If one of two loops
/// changes by one level, about a tenth of the CPU moves between them.
const PRIO_TO_WEIGHT: [u64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620,
    6_100, 4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272,
    215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// `set_load_weight()`.
#[must_use]
pub fn of_task(policy: Policy, nice: i8) -> u64 {
    if policy == Policy::Idle {
        return WEIGHT_IDLE;
    }
    let index = usize::try_from(i32::from(nice) + 20).unwrap_or(0).min(39);
    PRIO_TO_WEIGHT[index] << SHIFT
}

/// `sched_weight_from_cgroup()`, `scale_load()`.
#[must_use]
pub fn of_group(cgroup_weight: u32) -> u64 {
    ((u64::from(cgroup_weight) * 1024 + 50) / 100).max(1) << SHIFT
}

/// `scale_load_down()`.
#[must_use]
pub fn scaled_down(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight >> SHIFT).max(2) }
}

/// `calc_delta_fair()`: the virtual time of a running time.
#[must_use]
pub fn virtual_ns(ran_ns: i64, weight: u64) -> i64 {
    if weight == NICE_0_LOAD {
        return ran_ns;
    }
    rescaled(ran_ns, NICE_0_LOAD, weight)
}

/// The running time of a virtual time, as in `hrtick_start_fair()`.
#[must_use]
pub fn running_ns(virtual_ns: i64, weight: u64) -> i64 {
    rescaled(virtual_ns, weight, NICE_0_LOAD)
}

/// `value * from / to`, rounded towards zero.
#[must_use]
pub fn rescaled(value: i64, from: u64, to: u64) -> i64 {
    let wide = i128::from(value) * i128::from(from);
    match i64::try_from(wide) {
        Ok(narrow) => narrow / i64::try_from(to.max(1)).unwrap_or(i64::MAX),
        Err(_) => {
            let quotient = wide / i128::from(to.max(1));
            i64::try_from(quotient).unwrap_or(if quotient < 0 {
                i64::MIN / 4
            } else {
                i64::MAX / 4
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_kernels() {
        assert_eq!(of_task(Policy::Other, 0), NICE_0_LOAD);
        assert_eq!(of_task(Policy::Other, -20), 88_761 << 10);
        assert_eq!(of_task(Policy::Batch, 19), 15 << 10);
        assert_eq!(of_task(Policy::Idle, -20), WEIGHT_IDLE);
        assert_eq!(of_group(100), NICE_0_LOAD);
        assert_eq!(of_group(1), 10 << 10);
        assert_eq!(scaled_down(MIN_SHARES), 2);
    }

    #[test]
    fn virtual_time_runs_slower_for_heavier_ones() {
        assert_eq!(virtual_ns(1_000, NICE_0_LOAD), 1_000);
        assert_eq!(virtual_ns(1_000, 2 * NICE_0_LOAD), 500);
        assert_eq!(virtual_ns(3, MIN_SHARES), 3 << 19);
        assert_eq!(rescaled(-10, 2, 4), -5);
        assert_eq!(rescaled(i64::MAX / 2, 4, 8), i64::MAX / 4);
    }
}
