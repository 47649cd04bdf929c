// SPDX-License-Identifier: GPL-2.0-only
//! Runs a mix in steps, so that the run can be watched and interrupted. Dividing a run into steps
//! does not change its result.

use paracord_sim::kernel::Observer;
use paracord_sim::mix::{Mix, Scheduler};
use paracord_sim::run::Simulation;
use paracord_sim::time::Ns;

use super::exit::Failure;
use super::interrupt::Interrupt;
use super::progress::Progress;
use crate::report::{End, Finished};

/// Simulated time of a step.
const STEP_NS: Ns = 10_000_000;

/// Runs a mix to its end, or until the user interrupts. `races`: operations of several CPUs
/// overlap.
///
/// # Errors
/// There is not enough memory, or `races` is used with the stock scheduler, whose model does not
/// support it.
pub fn drive(
    mix: &Mix,
    races: bool,
    observer: Option<Box<dyn Observer>>,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Finished, Failure> {
    if races && mix.scheduler == Scheduler::Stock {
        return Err(Failure::new(
            "--races: only paracord's scheduler has races, not the model of the stock one",
        ));
    }
    let no_memory = |e| Failure::new(format!("no memory for the machine: {e}"));
    let mut simulation = Simulation::new(mix.clone()).map_err(no_memory)?;
    simulation.with(|kernel| {
        kernel.observer = observer;
        if races {
            kernel.race();
        }
    });
    let mut reached_ns = 0;
    let end = loop {
        if simulation.stopped() {
            break End::Stopped;
        }
        if reached_ns == mix.run_ns {
            break End::Complete;
        }
        if interrupt.raised() {
            break End::Interrupted;
        }
        reached_ns = (reached_ns + STEP_NS).min(mix.run_ns);
        simulation.run_until(reached_ns);
        progress.show(reached_ns, mix.run_ns, || simulation.with(|k| k.events.taken()));
    };
    if end == End::Complete {
        simulation.end();
    }
    let reached_ns = simulation.with(|kernel| {
        if let Some(mut observer) = kernel.observer.take() {
            observer.ended(kernel.now);
        }
        kernel.now
    });
    Ok(Finished::new(mix, simulation.outcome(), reached_ns, end))
}
