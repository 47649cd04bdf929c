// SPDX-License-Identifier: GPL-2.0-only
//! The kernel is lent to an operation for as long as it runs, so that what programs call arrives there.

use std::ptr::NonNull;

#[cfg(feature = "traced")]
use super::cost;
use super::{
    interface::{At, Kfuncs, Operation},
    native,
};

/// The kernel that was lent to the operation that runs.
pub(super) static mut LENT: Option<NonNull<dyn Kfuncs>> = None;

/// Runs `operation`, in which programs may call the kernel back. `_name`: whose cost it is, where costs are counted.
pub(super) fn lend<R>(
    kernel: &mut dyn Kfuncs,
    at: At,
    _name: Operation,
    operation: impl FnOnce() -> R,
) -> R {
    let current = kernel.native().task_pointer(at.current);
    let watched = u32::from(kernel.native().watched);
    let context = native::SimContext { now_ns: at.now_ns, current, cpu: at.cpu as u32, watched };
    // SAFETY: a pointer with its lifetime left out, put back before this function ends.
    let lent: NonNull<dyn Kfuncs> = unsafe {
        std::mem::transmute::<NonNull<dyn Kfuncs + '_>, NonNull<dyn Kfuncs>>(NonNull::from(kernel))
    };
    let place = &raw mut LENT;
    let contexts = &raw mut native::sim_context;
    // SAFETY: this thread alone runs operations (`Running`).
    let outer = unsafe { place.replace(Some(lent)) };
    // SAFETY: as above.
    let outer_context = unsafe { contexts.replace(context) };
    #[cfg(feature = "traced")]
    let begun = cost::begin();
    let result = operation();
    #[cfg(feature = "traced")]
    cost::end(_name, &begun);
    // SAFETY: as above.
    unsafe { contexts.write(outer_context) };
    // SAFETY: as above.
    unsafe { place.write(outer) };
    result
}

/// The kernel, for a function that an operation has called. Two calls may not overlap.
pub(super) fn lent<'a>() -> &'a mut dyn Kfuncs {
    let place = &raw const LENT;
    // SAFETY: this thread alone runs operations.
    let mut kernel = unsafe { place.read() }.expect("programs run in operations");
    // SAFETY: programs run inside `lend()` only, whose caller waits; helpers do not nest.
    unsafe { kernel.as_mut() }
}

/// Before each helper and kfunc that another CPU's could come between. Those that C defines, and atomics, call
/// `sim_point()`.
pub(super) fn point() {
    let context = &raw const native::sim_context;
    // SAFETY: written by this thread alone.
    if unsafe { (*context).watched } != 0 {
        lent().at_point();
    }
}
