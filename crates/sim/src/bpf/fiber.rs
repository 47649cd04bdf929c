// SPDX-License-Identifier: GPL-2.0-only
//! Handles an event on a stack of its own. The handling can be paused in the middle of an
//! operation. Another CPU then continues, and this one continues later.
//!
//! # What makes switches sound
//!
//! There is one kernel, and the stack of each fiber contains references to it. On either side, a
//! switch is a call to which the kernel is lent: [`Fiber::resume`] and [`pause`] take `&mut K` and
//! pass it, as a pointer, through the assembly of the switch, which the compiler cannot analyse.
//! Therefore, neither side may assume that a field of the kernel is the same after the call as
//! before, and neither side has a reference to a part of the kernel that outlives the call. Between
//! two switches, one stack runs, and all others wait in such a call. A fiber that begins makes its
//! reference from the pointer with which it was resumed.
//!
//! Miri's models of aliasing are stricter. With them, the arguments of functions that wait on one
//! stack would forbid writes by another stack. The compiler does not use this rule, because it
//! cannot tell the pointers of different stacks apart.

use std::cell::Cell;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{interface::Kfuncs, lend, native, objects::TaskId};

/// Why a fiber was paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It reached a point at which another CPU may continue.
    Point,
    /// Another fiber holds the lock of a run queue.
    Lock(usize),
    /// A task is still on a CPU, which is about to switch away from the task.
    OnCpu {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: TaskId,
    },
}

/// Pointer to the simulated kernel, which is passed from stack to stack.
type Lent = *mut ();
/// What a fiber returns when it pauses: the reason, and the kernel, which it gives back.
type Left = (Pause, Lent);

thread_local! {
    /// The running fiber, as its own code sees it.
    static RUNNING: Cell<*const Yielder<Lent, Left>> = const { Cell::new(std::ptr::null()) };
}

/// The state of the operation in which a fiber is.
struct Place {
    lent: Option<std::ptr::NonNull<dyn Kfuncs>>,
    context: native::SimContext,
}

/// Installs the state of a fiber, and returns the state that was installed before.
fn exchange(place: Place) -> Place {
    let lent = &raw mut lend::LENT;
    let context = &raw mut native::sim_context;
    // SAFETY: only this thread runs operations.
    let lent = unsafe { lent.replace(place.lent) };
    // SAFETY: as above.
    let context = unsafe { context.replace(place.context) };
    Place { lent, context }
}

/// The handling of an event by a fiber.
pub struct Fiber<K> {
    coroutine: Coroutine<Lent, Left, ()>,
    place: Option<Place>,
    /// The kernel of the fiber. Null: the fiber has not begun.
    kernel: *mut K,
}

impl<K: 'static> Fiber<K> {
    /// Makes a fiber that will handle an event by `body`, on the kernel with which it is resumed.
    pub fn new(body: impl FnOnce(&mut K) + 'static) -> Self {
        let coroutine = Coroutine::new(move |yielder: &Yielder<Lent, Left>, kernel: Lent| {
            RUNNING.set(yielder);
            // SAFETY: this K was lent to `resume()`. Every other code with a reference to it, there
            // or in other fibers, waits in a call to which it has lent the kernel (see above).
            body(unsafe { &mut *kernel.cast::<K>() });
        });
        let context =
            native::SimContext { now_ns: 0, current: std::ptr::null(), cpu: 0, watched: 0 };
        Self { coroutine, place: Some(Place { lent: None, context }), kernel: std::ptr::null_mut() }
    }

    /// Continues the fiber until it pauses. `None`: the fiber has ended.
    ///
    /// # Panics
    /// If the kernel is not the one with which the fiber began.
    pub fn resume(&mut self, kernel: &mut K) -> Option<Pause> {
        let kernel = std::ptr::from_mut(kernel);
        assert!(
            self.kernel.is_null() || self.kernel == kernel,
            "a fiber is resumed with its own kernel"
        );
        self.kernel = kernel;
        let outer_fiber = RUNNING.get();
        let outer = self.place.take().map(exchange);
        let result = self.coroutine.resume(kernel.cast());
        self.place = outer.map(exchange);
        RUNNING.set(outer_fiber);
        match result {
            CoroutineResult::Yield((pause, _)) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

/// A fiber that was not completed, because the run was stopped. Its stack is released without
/// unwinding, which would have to pass through compiled C code.
impl<K> Drop for Fiber<K> {
    fn drop(&mut self) {
        if self.coroutine.started() && !self.coroutine.done() {
            // SAFETY: nothing outside the fiber's stack refers to the stack. The values on the
            // stack are leaked.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

/// Pauses the running fiber, whose kernel this is. Other fibers change the kernel in the meantime.
/// Outside of fibers, this does nothing.
pub fn pause<K: 'static>(kernel: &mut K, why: Pause) {
    let yielder = RUNNING.get();
    if yielder.is_null() {
        return;
    }
    // SAFETY: the pointer is to the yielder of the running fiber.
    let yielder = unsafe { &*yielder };
    let lent: Lent = std::ptr::from_mut(kernel).cast();
    // The switch gets the pointer, and may change everything that the pointer leads to.
    let back = yielder.suspend((why, lent));
    debug_assert_eq!(lent, back);
    RUNNING.set(yielder);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counted {
        total: u64,
        seen: Vec<u64>,
    }

    /// Reads the field on both sides of the switch, as `Kernel::lock_rq()` does.
    #[inline(never)]
    fn add(counted: &mut Counted, amount: u64) {
        let before = counted.total;
        pause(counted, Pause::Point);
        counted.seen.push(counted.total - before);
        counted.total += amount;
    }

    #[test]
    fn what_others_change_during_a_pause_is_seen() {
        let mut counted = Counted { total: 1, seen: Vec::new() };
        let mut fibers = [10, 100].map(|amount| {
            Fiber::new(move |counted: &mut Counted| {
                add(counted, amount);
                add(counted, amount);
            })
        });
        let mut running = true;
        while running {
            running = false;
            for fiber in &mut fibers {
                if !fiber.coroutine.done() {
                    running |= fiber.resume(&mut counted).is_some();
                    counted.total += 1000;
                }
            }
        }
        assert_eq!(counted.total, 1 + 220 + 6 * 1000);
        assert_eq!(counted.seen, [2000, 2010, 2100, 2010]);
    }
}
