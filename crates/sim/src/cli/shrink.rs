// SPDX-License-Identifier: GPL-2.0-only
//! Reduces a failing mix to what its fault needs.

use paracord_sim::kernel::Fault;
use paracord_sim::mix::{Mix, shrink as steps};

use super::drive::drive;
use super::exit::Failure;
use super::interrupt::Interrupt;
use super::progress::Progress;
use crate::report::{Finished, Names, size};

/// Maximum number of runs for shrinking. Mixes with thousands of tasks need about as many runs.
const RUNS_MAX: usize = 600;

/// A smaller mix with the same fault.
pub struct Smaller {
    /// The mix.
    pub mix: Mix,
    /// Number of runs that were needed.
    pub tries: usize,
    /// The faults of the smaller mix.
    pub faults: Vec<Fault>,
}

/// Shrinks a mix as long as its first fault stays the same. (A smaller mix with another fault is a
/// different failure.) If the user interrupts, the result so far is returned.
///
/// # Errors
/// There is not enough memory.
pub fn shrink(
    mix: &Mix,
    races: bool,
    finished: &Finished,
    interrupt: &Interrupt,
) -> Result<Smaller, Failure> {
    let faults = finished.outcome.faults.clone();
    let wanted = faults.first().map(|fault| Names::of(mix).kind(fault));
    let mut smaller = Smaller { mix: mix.clone(), tries: 0, faults };
    let mut failure = None;
    let mut progress = Progress::new("shrinking: ");
    let fails = |less: &Mix| {
        if interrupt.raised() || failure.is_some() {
            return false;
        }
        smaller.tries += 1;
        progress.note(|| format!("run {}, {}", smaller.tries, size(&smaller.mix)));
        match drive(less, races, None, interrupt, &mut Progress::new("shrinking: ")) {
            Err(e) => {
                failure = Some(e);
                false
            }
            Ok(run) => {
                let names = Names::of(less);
                let same = |fault: &Fault| Some(names.kind(fault)) == wanted;
                let fails = run.outcome.faults.iter().any(same);
                if fails {
                    smaller.mix = less.clone();
                    smaller.faults = run.outcome.faults;
                }
                fails
            }
        }
    };
    let smallest = steps::shrink(mix, fails, RUNS_MAX);
    debug_assert!(failure.is_some() || smallest == smaller.mix);
    failure.map_or(Ok(smaller), Err)
}
