// SPDX-License-Identifier: GPL-2.0-only
//! The handling of an event on a stack of its own, which can be left in the middle of an operation: another CPU goes on
//! there, and this one later.
//!
//! # What makes switches sound
//!
//! There is one kernel, and each fiber's stack has references to it. A switch is, on either side, a call that is lent
//! the kernel: [`Fiber::resume`] and [`pause`] take `&mut K` and pass it, as a pointer, through the assembly of the switch,
//! which the compiler cannot look into. So no side may take a field of the kernel to be after the call what it was before it,
//! and none has a reference to a part of it that outlives the call. Between two switches one stack runs; all others wait
//! in such a call. A fiber that begins makes its reference from the pointer that it was resumed with.
//!
//! Miri's models of aliasing are stricter: there, the arguments of functions that wait on one stack would forbid
//! another stack's writes. The compiler makes no use of that, as it cannot tell one stack's pointer from another's.

use std::cell::Cell;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{interface::Kfuncs, lend, native, objects::TaskId};

/// Why a fiber was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A point at which another CPU may come between.
    Point,
    /// A run queue's lock is another fiber's.
    Lock(usize),
    /// A task is still a CPU's, which is about to switch away from it.
    OnCpu {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: TaskId,
    },
}

/// The kernel as it is passed from stack to stack.
type Lent = *mut ();
/// What a fiber leaves with: why, and the kernel, which is lent back.
type Left = (Pause, Lent);

thread_local! {
    /// The fiber that runs, as its own code sees it.
    static RUNNING: Cell<*const Yielder<Lent, Left>> = const { Cell::new(std::ptr::null()) };
}

/// What belongs to the operation that a fiber is in.
struct Place {
    lent: Option<std::ptr::NonNull<dyn Kfuncs>>,
    context: native::SimContext,
}

/// Puts a fiber's place, and gives back the one that was there.
fn exchange(place: Place) -> Place {
    let lent = &raw mut lend::LENT;
    let context = &raw mut native::sim_context;
    // SAFETY: this thread alone runs operations.
    let lent = unsafe { lent.replace(place.lent) };
    // SAFETY: as above.
    let context = unsafe { context.replace(place.context) };
    Place { lent, context }
}

/// The handling of an event.
pub struct Fiber<K> {
    coroutine: Coroutine<Lent, Left, ()>,
    place: Option<Place>,
    /// Where its kernel is; null: it has not begun.
    kernel: *mut K,
}

impl<K: 'static> Fiber<K> {
    /// A fiber that will handle an event by `body`, of the kernel that it is resumed with.
    pub fn new(body: impl FnOnce(&mut K) + 'static) -> Self {
        let coroutine = Coroutine::new(move |yielder: &Yielder<Lent, Left>, kernel: Lent| {
            RUNNING.set(yielder);
            // SAFETY: `resume()` was lent this K. Whoever has a reference to it, there or in other fibers, waits in a
            // call to which it has lent the kernel (above).
            body(unsafe { &mut *kernel.cast::<K>() });
        });
        let context =
            native::SimContext { now_ns: 0, current: std::ptr::null(), cpu: 0, watched: 0 };
        Self { coroutine, place: Some(Place { lent: None, context }), kernel: std::ptr::null_mut() }
    }

    /// Goes on with it, up to a pause; `None`: it has ended.
    ///
    /// # Panics
    /// The kernel is another one than before.
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

/// One that will not be ended, as the run was stopped: its stack is given back as it is. To unwind it would go through
/// compiled C.
impl<K> Drop for Fiber<K> {
    fn drop(&mut self) {
        if self.coroutine.started() && !self.coroutine.done() {
            // SAFETY: nothing refers to that stack but itself; what it owns is leaked.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

/// Leaves the fiber that runs, whose kernel this is: others change it meanwhile. Nothing, outside of fibers.
pub fn pause<K: 'static>(kernel: &mut K, why: Pause) {
    let yielder = RUNNING.get();
    if yielder.is_null() {
        return;
    }
    // SAFETY: the fiber's own, which runs.
    let yielder = unsafe { &*yielder };
    let lent: Lent = std::ptr::from_mut(kernel).cast();
    // The switch sees the pointer, and with it all that it leads to.
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

    /// The field is read on both sides of the switch, as `Kernel::lock_rq()` does.
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
