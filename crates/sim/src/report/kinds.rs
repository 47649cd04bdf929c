// SPDX-License-Identifier: GPL-2.0-only
//! Sums over all tasks of a kind.

use std::collections::HashMap;

use paracord_sim::mix::Mix;
use paracord_sim::run::{Kind, Outcome};
use paracord_sim::time::Ns;

use super::units;

/// The sum over all tasks of a kind, after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct KindSum {
    /// Name of the kind in the mix.
    pub name: String,
    /// Number of tasks that exist at the end.
    pub there: u64,
    /// Number of tasks that have ended.
    pub ended: u64,
    /// CPU time of all of them.
    pub ran_ns: Ns,
    /// Least and most CPU time of a task that exists at the end.
    pub each_ns: Option<(Ns, Ns)>,
    /// Longest wait in a run queue, including the warm-up.
    pub longest_wait_ns: Ns,
    /// How often a task was put on a CPU.
    pub switches: u64,
    /// How often a task came from another CPU.
    pub migrations: u64,
    /// 99th percentile of the times from wakeup to running.
    pub wakeup_p99_ns: Option<Ns>,
    /// Times from a vCPU's timer until the vCPU runs: the average over the vCPUs, and the maximum.
    pub latency_ns: Option<(Ns, Ns)>,
}

/// The sums, in the order of the mix: tasks first, then VMs.
pub fn sums(mix: &Mix, outcome: &Outcome) -> Vec<KindSum> {
    let named = |name: &String| KindSum { name: name.clone(), ..KindSum::default() };
    let tasks = mix.tasks.iter().map(|task| named(&task.name));
    let mut all: Vec<KindSum> = tasks.chain(mix.vms.iter().map(|vm| named(&vm.name))).collect();
    for (sum, waits) in all.iter_mut().zip(&outcome.placement.wakeups) {
        sum.wakeup_p99_ns = waits.permille_ns(990);
    }
    let mut latencies: HashMap<usize, (Ns, u64)> = HashMap::new();
    for had in &outcome.tasks {
        let index = match had.kind {
            Kind::Task(index) => index,
            Kind::Vm(index) => mix.tasks.len() + index,
        };
        let Some(sum) = all.get_mut(index) else { continue };
        let account = had.account;
        sum.ran_ns += account.ran_ns;
        sum.longest_wait_ns = sum.longest_wait_ns.max(account.longest_wait_ns);
        sum.switches += account.switches;
        sum.migrations += account.migrations;
        if had.ended {
            sum.ended += 1;
        } else {
            sum.there += 1;
            let (least, most) = sum.each_ns.unwrap_or((account.ran_ns, account.ran_ns));
            sum.each_ns = Some((least.min(account.ran_ns), most.max(account.ran_ns)));
        }
        if let Some((average, longest)) = had.latency_ns {
            let (total, count) = latencies.entry(index).or_default();
            (*total, *count) = (*total + average, *count + 1);
            let before = sum.latency_ns.map_or(0, |(_, longest)| longest);
            sum.latency_ns = Some((*total / *count, longest.max(before)));
        }
    }
    all
}

impl KindSum {
    /// The 99th percentile of waits after wakeups.
    pub fn p99(&self) -> String {
        self.wakeup_p99_ns.map_or_else(|| "-".to_owned(), units::duration)
    }

    /// The number of tasks that exist at the end, and the number of tasks that have ended.
    pub fn number(&self) -> String {
        match self.ended {
            0 => self.there.to_string(),
            ended => format!("{}+{ended}", self.there),
        }
    }
}
