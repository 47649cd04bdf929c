// SPDX-License-Identifier: GPL-2.0-only
//! Lends the kernel to an operation for as long as the operation runs, so that the functions that
//! programs call reach the kernel.

use std::ptr::NonNull;

#[cfg(feature = "traced")]
use super::cost;
use super::{
    interface::{At, Kfuncs, Operation},
    native,
};

/// The kernel that is lent to the running operation.
pub(super) static mut LENT: Option<NonNull<dyn Kfuncs>> = None;

/// Runs `operation`, in which programs may call the kernel. `_name` is the operation whose cost is
/// counted, if costs are counted.
pub(super) fn lend<R>(
    kernel: &mut dyn Kfuncs,
    at: At,
    _name: Operation,
    operation: impl FnOnce() -> R,
) -> R {
    let current = kernel.native().task_pointer(at.current);
    let watched = u32::from(kernel.native().watched);
    let context = native::SimContext { now_ns: at.now_ns, current, cpu: at.cpu as u32, watched };
    // SAFETY: this only removes the lifetime of the pointer. The pointer is removed before this
    // function returns.
    let lent: NonNull<dyn Kfuncs> = unsafe {
        std::mem::transmute::<NonNull<dyn Kfuncs + '_>, NonNull<dyn Kfuncs>>(NonNull::from(kernel))
    };
    let place = &raw mut LENT;
    let contexts = &raw mut native::sim_context;
    // SAFETY: only this thread runs operations (`Running`).
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

/// The kernel, for a function that an operation has called. Two such calls must not overlap.
pub(super) fn lent<'a>() -> &'a mut dyn Kfuncs {
    let place = &raw const LENT;
    // SAFETY: only this thread runs operations.
    let mut kernel = unsafe { place.read() }.expect("programs run in operations");
    // SAFETY: programs run only inside `lend()`, whose caller waits. Helpers do not nest.
    unsafe { kernel.as_mut() }
}

/// Called before each helper and kfunc at which another CPU may continue. Atomic operations, and
/// helpers that C defines, call `sim_point()`.
pub(super) fn point() {
    let context = &raw const native::sim_context;
    // SAFETY: only this thread writes the variable.
    if unsafe { (*context).watched } != 0 {
        lent().at_point();
    }
}
