// SPDX-License-Identifier: GPL-2.0-only
//! The handling of an event on a stack of its own, which can be left in the middle of an operation: another CPU goes on
//! there, and this one later.

use std::cell::Cell;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{Kfuncs, native};

/// Why a fiber was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A point at which another CPU may come between.
    Point,
    /// A run queue's lock is another fiber's.
    Lock(usize),
}

thread_local! {
    /// The fiber that runs, as its own code sees it.
    static RUNNING: Cell<*const Yielder<(), Pause>> = const { Cell::new(std::ptr::null()) };
}

/// What belongs to the operation that a fiber is in.
struct Place {
    lent: Option<std::ptr::NonNull<dyn Kfuncs>>,
    context: native::SimContext,
}

/// Puts a fiber's place, and gives back the one that was there.
fn exchange(place: Place) -> Place {
    let lent = &raw mut super::LENT;
    let context = &raw mut native::sim_context;
    // SAFETY: this thread alone runs operations.
    let lent = unsafe { lent.replace(place.lent) };
    // SAFETY: as above.
    let context = unsafe { context.replace(place.context) };
    Place { lent, context }
}

/// The handling of an event.
pub struct Fiber {
    coroutine: Coroutine<(), Pause, ()>,
    place: Option<Place>,
}

impl Fiber {
    /// A fiber that will handle an event by `body`. The kernel stays where it is until the fiber has ended, and is used by
    /// one fiber at a time: all of them are resumed from one loop, which does nothing meanwhile.
    pub fn new<K: 'static>(kernel: &mut K, body: impl FnOnce(&mut K) + 'static) -> Self {
        let kernel = std::ptr::from_mut(kernel);
        let coroutine = Coroutine::new(move |yielder: &Yielder<(), Pause>, ()| {
            RUNNING.set(yielder);
            // SAFETY: the caller's promise. Whoever holds the kernel further up, here or in other fibers, waits in a
            // call of foreign code to which it has given the pointer.
            body(unsafe { &mut *kernel });
        });
        let context =
            native::SimContext { now_ns: 0, current: std::ptr::null(), cpu: 0, watched: 0 };
        Self { coroutine, place: Some(Place { lent: None, context }) }
    }

    /// Goes on with it, up to a pause; `None`: it has ended.
    pub fn resume(&mut self) -> Option<Pause> {
        let outer_fiber = RUNNING.get();
        let outer = self.place.take().map(exchange);
        let result = self.coroutine.resume(());
        self.place = outer.map(exchange);
        RUNNING.set(outer_fiber);
        match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

/// One that will not be ended, as the run was stopped: its stack is given back as it is. To unwind it would go through
/// compiled C.
impl Drop for Fiber {
    fn drop(&mut self) {
        if self.coroutine.started() && !self.coroutine.done() {
            // SAFETY: nothing refers to that stack but itself; what it owns is leaked.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

/// Leaves the fiber that runs. Nothing, outside of fibers.
pub fn pause(why: Pause) {
    let yielder = RUNNING.get();
    if yielder.is_null() {
        return;
    }
    // SAFETY: the fiber's own, which runs.
    let yielder = unsafe { &*yielder };
    yielder.suspend(why);
    RUNNING.set(yielder);
}
