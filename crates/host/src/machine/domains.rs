// SPDX-License-Identifier: GPL-2.0-only
//! The host's CPUs as guests see them: capacities, operating points, clusters.
//!
//! CPUs that guests cannot distinguish form a [`Cluster`]. These are either CPUs that share a
//! frequency, or equal CPUs that each have their own frequency. The first domain in a region's
//! table is "any CPU", the domain of a vCPU that may run on every CPU. It has the capacity of the
//! largest CPU, and the operating points of all CPUs, scaled to the largest CPU. The domains of the
//! clusters follow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use paracord_abi::{DOMAIN_BYTES, Domain, layout, table_id};
use paracord_sys::affinity::CpuMask;
use paracord_sys::sysfs::{CAPACITY_MAX, CpuFiles, Policy};

/// The shared region uses the same scale as the kernel.
const _: () = assert!(layout::PARACORD_SCALE as u16 == CAPACITY_MAX);
/// Maximum number of clusters that fit into the table after "any CPU".
const CLUSTERS_MAX: usize = layout::PARACORD_DOMAINS_MAX as usize - 1;
/// Number of operating points for a driver that accepts any frequency (`intel_pstate`). A guest's
/// governor does not need finer steps.
const STEPS: u32 = 32;

/// CPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The CPUs; never empty.
    pub cpus: BTreeSet<u32>,
    /// Capacity at the highest frequency, 1..=1024.
    pub capacity: u16,
    /// Frequencies of the operating points, in ascending order; empty without cpufreq.
    pub khz: Vec<u32>,
    /// Whether all CPUs always have the same frequency.
    pub shared: bool,
}

impl Cluster {
    /// ID of the cluster for guests: the number of its first CPU.
    pub fn id(&self) -> u32 {
        self.cpus.first().copied().unwrap_or(u32::MAX)
    }

    /// Highest frequency; 0: not known.
    pub fn max_khz(&self) -> u32 {
        self.khz.last().copied().unwrap_or(0)
    }
}

/// All CPUs, and the domains that they form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCpus {
    /// The clusters, in order of their first CPUs. Each CPU is in at most one cluster.
    clusters: Vec<Cluster>,
    table: Vec<Domain>,
}

impl HostCpus {
    /// Reads the CPUs below `root` (`/`).
    pub fn read(root: &Path) -> HostCpus {
        let host = CpuFiles::below(&root.join("sys"));
        let numbers = host.numbers();
        // If the kernel shows no capacities, all CPUs count as equal.
        let capacity = |cpu: u32| (cpu, host.capacity_or_full(cpu));
        let capacities: BTreeMap<u32, u16> = numbers.into_iter().map(capacity).collect();
        let mut policies = policies(&host, &capacities);
        if policies.is_empty() {
            policies = capacities.iter().map(|(&cpu, &capacity)| single(cpu, capacity)).collect();
        }
        let mut clusters = fold(policies.clone(), |one| !one.shared);
        if clusters.len() > CLUSTERS_MAX {
            clusters = fold(policies, |_| true);
        }
        let table = table(&clusters);
        HostCpus { clusters, table }
    }

    /// The clusters, in order of their first CPUs.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The domains for a guest; empty without cpufreq.
    pub fn table(&self) -> &[Domain] {
        &self.table
    }

    /// The ID of the table for guests without a device ([`table_id`]).
    pub fn table_id(&self) -> u32 {
        table_id(&self.table)
    }

    /// The domains for guests without a device, as bytes.
    pub fn images(&self) -> Vec<[u8; DOMAIN_BYTES]> {
        let id = self.table_id();
        self.table.iter().map(|domain| domain.in_table(id)).collect()
    }

    /// The cluster of a CPU.
    pub fn cluster_of(&self, cpu: u32) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.cpus.contains(&cpu))
    }

    /// Index of the domain of a vCPU that may run only on the CPUs in `allowed`. If all existing
    /// CPUs in `allowed` are in one cluster, and the table contains the domain of this cluster,
    /// returns this domain. Otherwise, returns "any CPU". `None` without a table.
    pub fn domain_of(&self, allowed: &CpuMask) -> Option<u16> {
        if self.table.is_empty() {
            return None;
        }
        let reaches = |cluster: &Cluster| cluster.cpus.iter().any(|cpu| allowed.contains(*cpu));
        let mut reached = (0..).zip(&self.clusters).filter(|(_, cluster)| reaches(cluster));
        let index = match (reached.next(), reached.next()) {
            (Some((index, _)), None) => index + 1,
            _ => 0,
        };
        Some(if usize::from(index) < self.table.len() { index } else { 0 })
    }

    /// Describes in one line what guests are not told; `None` if nothing is missing.
    pub fn lacking(&self) -> Option<String> {
        if self.table.is_empty() {
            return Some(
                "this host shows no CPU frequencies (no cpufreq driver): the guest is told no performance domains and \
                 cannot ask for performance"
                    .into(),
            );
        }
        let left_out = self.clusters.len().saturating_sub(CLUSTERS_MAX);
        (left_out > 0).then(|| {
            format!(
                "{left_out} of {} kinds of CPUs have no performance domain of their own: a vCPU that is placed there has \
                 that of any CPU",
                self.clusters.len()
            )
        })
    }
}

fn single(cpu: u32, capacity: u16) -> Cluster {
    Cluster { cpus: BTreeSet::from([cpu]), capacity, khz: Vec::new(), shared: false }
}

/// Merges equal clusters if `may` is true for both of them.
fn fold(clusters: Vec<Cluster>, may: impl Fn(&Cluster) -> bool) -> Vec<Cluster> {
    let mut folded: Vec<Cluster> = Vec::new();
    for cluster in clusters {
        let same = |other: &&mut Cluster| {
            other.khz == cluster.khz && other.capacity == cluster.capacity && may(other)
        };
        match folded.iter_mut().find(same).filter(|_| may(&cluster)) {
            Some(other) => {
                other.cpus.extend(cluster.cpus);
                other.shared = false;
            }
            None => folded.push(cluster),
        }
    }
    folded
}

fn table(clusters: &[Cluster]) -> Vec<Domain> {
    // If several clusters have the largest capacity, take the one with the highest frequency,
    // because this frequency is shown to people.
    let largest = clusters.iter().max_by_key(|c| (c.capacity, c.max_khz()));
    let Some(largest) = largest.filter(|largest| largest.max_khz() > 0) else { return Vec::new() };
    let scale = u64::from(largest.max_khz());
    let everywhere: Vec<u32> = clusters
        .iter()
        .filter(|cluster| cluster.max_khz() > 0)
        .flat_map(|cluster| {
            let top = u64::from(cluster.max_khz()) * u64::from(largest.capacity);
            let share = u64::from(cluster.capacity) * scale;
            cluster.khz.iter().map(move |&khz| u64::from(khz) * share / top)
        })
        .filter_map(|khz| u32::try_from(khz).ok())
        .collect();
    let Ok(any) = Domain::from_frequencies(&everywhere, largest.capacity, false) else {
        return Vec::new();
    };
    let own = clusters.iter().map_while(|cluster| {
        Domain::from_frequencies(&cluster.khz, cluster.capacity, cluster.shared).ok()
    });
    let mut table = vec![any];
    table.extend(own.take(CLUSTERS_MAX));
    // If all CPUs are of one kind and do not share a frequency, omit their domain: it equals "any
    // CPU".
    if table.len() == 2 && table[0] == table[1] {
        table.pop();
    }
    table
}

/// The cpufreq policies that have frequencies, as clusters, in order of their first CPUs.
fn policies(host: &CpuFiles, capacities: &BTreeMap<u32, u16>) -> Vec<Cluster> {
    let mut policies: Vec<Cluster> = host
        .policies()
        .into_values()
        .filter_map(|policy| {
            // The related CPUs include those that are offline now.
            let cpus: BTreeSet<u32> = policy.related_cpus().ok()?.iter().collect();
            let capacity = cpus.first().and_then(|cpu| capacities.get(cpu)).copied()?;
            let khz = frequencies(&policy);
            let shared = cpus.len() > 1;
            (!khz.is_empty()).then_some(Cluster { cpus, capacity, khz, shared })
        })
        .collect();
    policies.sort_by_key(Cluster::id);
    policies
}

/// The frequencies of a policy, in ascending order. Frequencies above the limit of the hardware are
/// omitted, because they are boost frequencies that are switched off.
fn frequencies(policy: &Policy) -> Vec<u32> {
    let max = policy.max_khz().ok().flatten().unwrap_or(u32::MAX);
    let mut khz = policy.listed_khz().unwrap_or_default();
    khz.extend(policy.boost_khz().unwrap_or_default());
    khz.retain(|khz| (1..=max).contains(khz));
    if khz.is_empty() && max < u32::MAX {
        let min = policy.min_khz().ok().flatten().unwrap_or(max).min(max);
        let step = |n: u32| u64::from(max - min) * u64::from(n) / u64::from(STEPS - 1);
        khz = (0..STEPS).map(|n| min + step(n) as u32).filter(|khz| *khz > 0).collect();
    }
    khz.sort_unstable();
    khz.dedup();
    khz
}

#[cfg(test)]
#[path = "domains_tests.rs"]
mod tests;
