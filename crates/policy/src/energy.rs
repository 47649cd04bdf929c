// SPDX-License-Identifier: GPL-2.0-only
//! Placement by energy (policy/energy.h).

use crate::{PC_POINTS_MAX, pc_domain, pc_energy, pc_place, pc_point};

unsafe extern "C" {
    fn paracord_place_begin(place: *mut pc_place, request: u32, prev: i32);
    fn paracord_place_look(
        place: *mut pc_place,
        domain: u32,
        cpu: i32,
        sum: u32,
        capacity: u32,
        allowed: core::ffi::c_int,
    ) -> core::ffi::c_int;
    fn paracord_place_choose(model: *const pc_energy, place: *const pc_place) -> i32;
}

/// A domain with these frequencies, in ascending order. Points beyond [`PC_POINTS_MAX`] are
/// ignored.
#[must_use]
pub fn domain(points: &[pc_point]) -> pc_domain {
    let points = &points[..points.len().min(PC_POINTS_MAX as usize)];
    let mut domain =
        pc_domain { points: u32::try_from(points.len()).unwrap_or(0), ..pc_domain::default() };
    domain.point[..points.len()].copy_from_slice(points);
    domain
}

/// A CPU as a placement sees it.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// Index of the CPU's domain.
    pub domain: u32,
    /// Capacity at the highest frequency, 0..1024.
    pub capacity: u32,
    /// Sum of the requests of the CPU's tasks, without the task being placed.
    pub sum: u32,
    /// Whether the task being placed may run on this CPU.
    pub allowed: bool,
}

/// The CPU for a task that requests `request`; -1: no CPU is allowed.
///
/// `prev`: index in `cpus` of the task's current CPU; -1: the task has no CPU yet.
#[must_use]
pub fn place(model: &pc_energy, cpus: &[Cpu], request: u32, prev: i32) -> i32 {
    let mut place = pc_place::default();
    // SAFETY: the pointer is exclusive and valid for the length of the call.
    unsafe { paracord_place_begin(&raw mut place, request, prev) };
    for (index, cpu) in cpus.iter().enumerate() {
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let allowed = core::ffi::c_int::from(cpu.allowed);
        // SAFETY: as above.
        unsafe {
            paracord_place_look(&raw mut place, cpu.domain, index, cpu.sum, cpu.capacity, allowed)
        };
    }
    // SAFETY: both pointers are valid for the length of the call.
    unsafe { paracord_place_choose(model, &raw const place) }
}
