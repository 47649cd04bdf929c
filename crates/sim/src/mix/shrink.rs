// SPDX-License-Identifier: GPL-2.0-only
//! Finds smaller mixes that still fail. [`steps`] removes halves of lists before it removes single
//! parts, so that a large mix needs few runs. [`shrink()`] repeats this until no part can be
//! removed.
//!
//! Every step makes the mix smaller: fewer parts, shorter times, or more defaults. Therefore every
//! chain of steps ends.

use super::{Change, FOREVER, Mix, Phase, Policy, Span, Timed, programs};
use crate::machine::{Costs, Machine};
use crate::time::Ns;

/// Runs are not made shorter than this, because a run of only a few ticks of the slowest clock
/// shows nothing.
const RUN_MIN_NS: Ns = 100_000_000;

/// The lists of which a mix consists.
#[derive(Clone, Copy)]
enum List {
    Vms,
    Tasks,
    Groups,
    Irqs,
    Changes,
    Queues,
    Locks,
}

const LISTS: [List; 7] =
    [List::Vms, List::Tasks, List::Groups, List::Changes, List::Irqs, List::Queues, List::Locks];

impl List {
    fn len(self, mix: &Mix) -> usize {
        match self {
            List::Vms => mix.vms.len(),
            List::Tasks => mix.tasks.len(),
            List::Groups => mix.groups.len(),
            List::Irqs => mix.irqs.len(),
            List::Changes => mix.changes.len(),
            List::Queues => mix.queues.len(),
            List::Locks => mix.locks.len(),
        }
    }

    fn without_one(self, mix: &Mix, index: usize) -> Mix {
        let mut less = match self {
            List::Tasks => return mix.without_task(index),
            List::Groups => return mix.without_group(index),
            List::Changes => return mix.without_change(index),
            List::Queues => return mix.without_queue(index),
            List::Locks => return mix.without_lock(index),
            List::Vms | List::Irqs => mix.clone(),
        };
        match self {
            List::Vms => drop(less.vms.remove(index)),
            _ => drop(less.irqs.remove(index)),
        }
        less
    }

    /// Removes entries `from..to`. Removing an entry may also remove other entries of its list, but
    /// none that come before it and are outside the range. Entries are removed from last to first,
    /// so that indices stay correct.
    fn without(self, mix: &Mix, from: usize, to: usize) -> Mix {
        let mut less = mix.clone();
        for index in (from..to).rev() {
            if index < self.len(&less) {
                less = self.without_one(&less, index);
            }
        }
        less
    }
}

/// Mixes that are simpler by one step, the largest steps first. All of them pass [`Mix::check`].
pub fn steps(mix: &Mix) -> impl Iterator<Item = Mix> + '_ {
    candidates(mix).filter(move |less| less != mix && less.check().is_ok())
}

type Candidates<'m> = Box<dyn Iterator<Item = Mix> + 'm>;

/// Candidates for [`steps`], which may be invalid or unchanged. They are made one at a time,
/// because each one is a whole mix.
fn candidates(mix: &Mix) -> impl Iterator<Item = Mix> + '_ {
    let parts: [Candidates; 7] = [
        Box::new(LISTS.into_iter().flat_map(move |list| dropped(mix, list))),
        Box::new(machines(mix)),
        Box::new(times(mix)),
        Box::new((0..mix.tasks.len()).flat_map(move |index| task(mix, index))),
        Box::new((0..mix.vms.len()).flat_map(move |index| vm(mix, index))),
        Box::new((0..mix.groups.len()).flat_map(move |index| group(mix, index))),
        Box::new((0..mix.tasks.len()).flat_map(move |index| program(mix, index))),
    ];
    parts.into_iter().flatten()
}

/// A copy with one change.
fn with(mix: &Mix, change: impl FnOnce(&mut Mix)) -> Mix {
    let mut less = mix.clone();
    change(&mut less);
    less
}

/// Removes half of a list, a quarter, …, one entry.
fn dropped(mix: &Mix, list: List) -> impl Iterator<Item = Mix> + '_ {
    let length = list.len(mix);
    let sizes = std::iter::successors(Some(length), |size| Some(size / 2).filter(|half| *half > 0));
    sizes.filter(|size| *size > 0).flat_map(move |size| {
        (0..length).step_by(size).map(move |from| list.without(mix, from, from + size))
    })
}

fn machines(mix: &Mix) -> impl Iterator<Item = Mix> + '_ {
    let cpus = mix.machine.cpus;
    let fewer = [cpus / 2, cpus - 1].into_iter().filter(|cpus| *cpus > 0);
    let fewer = fewer.map(|cpus| mix.with_cpus(cpus));
    let plainer: [fn(&mut Machine); 6] = [
        |machine| machine.nodes = 1,
        |machine| {
            machine.caches = 1;
            machine.nodes = 1;
        },
        |machine| machine.smt = 1,
        |machine| machine.capacities.fill(1024),
        |machine| machine.costs = Costs::default(),
        |machine| machine.hz = 250,
    ];
    fewer.chain(plainer.into_iter().map(|plain| with(mix, |less| plain(&mut less.machine))))
}

fn times(mix: &Mix) -> impl Iterator<Item = Mix> + '_ {
    let half_ns = (mix.run_ns / 2).max(RUN_MIN_NS).min(mix.run_ns);
    // Halves the run. Either changes after the new end are removed, or all changes happen in half
    // of the time.
    let cut = move || {
        with(mix, |less| {
            less.run_ns = half_ns;
            less.warmup_ns = less.warmup_ns.min(half_ns / 2);
            less.changes.retain(|timed| timed.at_ns < half_ns);
            less.tasks.iter_mut().for_each(|task| task.start_ns = task.start_ns.min(half_ns / 2));
        })
    };
    let scaled = move || {
        with(mix, |less| {
            less.run_ns = half_ns;
            less.warmup_ns /= 2;
            less.changes.iter_mut().for_each(|timed| timed.at_ns /= 2);
            less.tasks.iter_mut().for_each(|task| task.start_ns /= 2);
        })
    };
    let shorter = half_ns < mix.run_ns;
    let shortened = std::iter::once_with(cut).chain(std::iter::once_with(scaled));
    shortened
        .filter(move |_| shorter)
        .chain(std::iter::once_with(move || with(mix, |less| less.warmup_ns = 0)))
        .chain((0..mix.changes.len()).filter_map(move |index| {
            // A change of a quota becomes one without a burst.
            match mix.changes[index].change {
                Change::GroupQuota(group, Some(mut quota)) => Some(with(mix, |less| {
                    quota.burst_ns = 0;
                    let at_ns = less.changes[index].at_ns;
                    let change = Change::GroupQuota(group, Some(quota));
                    less.changes[index] = Timed { at_ns, change };
                })),
                _ => None,
            }
        }))
}

fn task(mix: &Mix, index: usize) -> impl Iterator<Item = Mix> + '_ {
    let count = mix.tasks[index].count;
    let counts =
        [1, count / 2, count - 1].into_iter().filter(move |less| (1..count).contains(less));
    let fewer = counts.map(move |count| with(mix, |less| less.tasks[index].count = count));
    let plainer: [fn(&mut super::Task); 6] = [
        |task| task.policy = Policy::Other,
        |task| task.nice = 0,
        |task| task.cookie = 0,
        |task| task.cpus = None,
        |task| task.group = None,
        |task| task.start_ns = 0,
    ];
    fewer.chain(
        plainer.into_iter().map(move |plain| with(mix, |less| plain(&mut less.tasks[index]))),
    )
}

fn vm(mix: &Mix, index: usize) -> impl Iterator<Item = Mix> + '_ {
    let plainer: [fn(&mut super::Vm); 8] = [
        |vm| vm.count = 1,
        |vm| vm.count = (vm.count / 2).max(1),
        |vm| vm.vcpus = 1,
        |vm| vm.vcpus = (vm.vcpus / 2).max(1),
        |vm| vm.cpus = None,
        |vm| vm.group = None,
        |vm| vm.guest = super::Guest::Spin,
        |vm| vm.exits_per_s = 1000,
    ];
    plainer.into_iter().map(move |plain| with(mix, |less| plain(&mut less.vms[index])))
}

fn group(mix: &Mix, index: usize) -> impl Iterator<Item = Mix> + '_ {
    let plainer: [fn(&mut super::Group); 4] = [
        |group| group.quota = None,
        |group| group.idle = false,
        |group| group.weight = 100,
        |group| group.quota.iter_mut().for_each(|quota| quota.burst_ns = 0),
    ];
    plainer.into_iter().map(move |plain| with(mix, |less| plain(&mut less.groups[index])))
}

/// Replaces the phases of a task with a loop, removes one phase, or replaces random times with
/// fixed ones.
fn program(mix: &Mix, index: usize) -> impl Iterator<Item = Mix> + '_ {
    let phases = &mix.tasks[index].phases;
    let replaced = move |phases: Vec<Phase>| {
        with(mix, |less| less.tasks[index].phases = phases).without_leftovers()
    };
    let forever = Phase::Run(Span { min_ns: FOREVER, max_ns: FOREVER });
    let ends = programs::end(&mix.tasks[index]) == programs::End::Exit;
    let looped = (!ends).then_some(()).into_iter().map(move |()| replaced(vec![forever]));
    let fewer = (0..phases.len()).map(move |position| {
        let mut fewer = phases.clone();
        fewer.remove(position);
        replaced(fewer)
    });
    let fixed = (0..phases.len()).filter_map(move |position| {
        let fixed = |span: Span| Span { min_ns: span.min_ns, max_ns: span.min_ns };
        let phase = match phases[position] {
            Phase::Run(span) => Phase::Run(fixed(span)),
            Phase::Sleep(span) => Phase::Sleep(fixed(span)),
            Phase::Post { queue, sync: true } => Phase::Post { queue, sync: false },
            _ => return None,
        };
        let mut same = phases.clone();
        same[position] = phase;
        Some(replaced(same))
    });
    looped.chain(fewer).chain(fixed)
}

/// The simplest mix for which `fails` is true and that single steps reach with at most `budget`
/// calls of `fails`. `mix` itself is assumed to fail.
pub fn shrink(mix: &Mix, mut fails: impl FnMut(&Mix) -> bool, budget: usize) -> Mix {
    let mut smallest = mix.clone();
    let mut left = budget;
    // The position of the last success. The steps before it have just failed, so they are tried
    // last.
    let mut resume = 0;
    loop {
        match next_failing(&smallest, &mut fails, resume, &mut left) {
            Some((position, less)) => {
                smallest = less;
                resume = position;
            }
            // A whole pass from the first step found nothing, or the budget is used up.
            None if resume == 0 || left == 0 => return smallest,
            None => resume = 0,
        }
    }
}

/// The first step from a position that still fails.
fn next_failing(
    mix: &Mix,
    fails: &mut impl FnMut(&Mix) -> bool,
    from: usize,
    left: &mut usize,
) -> Option<(usize, Mix)> {
    let mut tried = steps(mix).enumerate().skip(from).take(*left);
    tried.find(|(_, less)| {
        *left -= 1;
        fails(less)
    })
}
