// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's energy model (in debugfs), for the placement of tasks (policy/energy.h).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use paracord_policy::energy::domain;
use paracord_policy::{
    PC_CAPACITY, PC_DOMAINS_MAX, PC_PLACE_CPUS_MAX, PC_POINTS_MAX, pc_domain, pc_energy, pc_point,
};
use paracord_sys::affinity::CpuMask;
use paracord_sys::sysfs::{CpuFiles, cpu_list, number};

/// Where the kernel shows the energy model, below the root.
const MODEL: &str = "sys/kernel/debug/energy_model";

/// Why tasks are not placed by energy, as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnergyError {
    /// Placement by energy would gain nothing.
    #[error("all CPUs are equal")]
    Equal,
    /// The kernel shows no model.
    #[error(
        "the kernel shows no energy model ({0}: is debugfs mounted, does the CPU's frequency driver have a model?)"
    )]
    Absent(String),
    /// The model cannot be used.
    #[error("the kernel's energy model is not usable: {0}")]
    Inconsistent(String),
}

/// The energy model, and the place of each CPU in it.
#[derive(Clone)]
pub struct Model {
    /// The model in the form that the scheduler reads.
    pub energy: pc_energy,
    /// For each CPU, the index of its domain, and its capacity, 1..=1024.
    pub cpus: Vec<(u32, u32)>,
}

fn bad(what: String) -> EnergyError {
    EnergyError::Inconsistent(what)
}

fn capacities(host: &CpuFiles) -> BTreeMap<u32, u32> {
    let shown = |cpu| Some((cpu, host.capacity(cpu).ok().flatten()?));
    host.numbers().into_iter().filter_map(shown).collect()
}

/// Returns the operating points of a domain, in ascending order of frequency. Each point consists
/// of the frequency in kHz, the performance at this frequency (0: the kernel does not show it) and
/// the cost.
fn points(domain: &Path) -> Vec<(u64, u64, u64)> {
    let mut points: Vec<_> = fs::read_dir(domain)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"ps:"))
        .filter_map(|entry| {
            let read = |file: &str| number(&entry.path().join(file)).ok().flatten();
            Some((read("frequency")?, read("performance").unwrap_or(0), read("cost")?))
        })
        .collect();
    points.sort_unstable();
    points
}

/// Reads the points and the CPUs of a domain.
fn domain_at(
    path: &Path,
    capacities: &BTreeMap<u32, u32>,
) -> Result<(pc_domain, CpuMask), EnergyError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let list = cpu_list(&path.join("cpus")).ok().flatten();
    let is_small = |cpus: &CpuMask| cpus.iter().all(|cpu| cpu < PC_PLACE_CPUS_MAX);
    let members = list.filter(is_small).ok_or_else(|| {
        bad(format!("{name}/cpus is not a list of CPUs below {PC_PLACE_CPUS_MAX}"))
    })?;
    if let Some(cpu) = members.iter().find(|cpu| !capacities.contains_key(cpu)) {
        return Err(bad(format!("{name} has CPU {cpu}, which has no capacity")));
    }
    let capacity = members.iter().next().and_then(|cpu| capacities.get(&cpu)).copied().unwrap_or(0);
    let states = points(path);
    let highest = states.last().map_or(0, |state| state.0);
    if states.is_empty() || states.len() > PC_POINTS_MAX as usize || highest == 0 {
        return Err(bad(format!("{name} has {} states, not 1 to {PC_POINTS_MAX}", states.len())));
    }
    let point = |&(khz, work, cost): &(u64, u64, u64)| {
        let scaled = if work > 0 { work } else { u64::from(capacity) * khz / highest };
        let done = u32::try_from(scaled.min(u64::from(PC_CAPACITY))).unwrap_or(0);
        pc_point { cost, capacity: done, reserved: 0 }
    };
    let states: Vec<_> = states.iter().map(point).collect();
    if states.windows(2).any(|pair| pair[0].capacity >= pair[1].capacity) {
        return Err(bad(format!("{name}: a higher frequency does not do more")));
    }
    Ok((domain(&states), members))
}

/// Reads the energy model below `root` (`/`).
///
/// # Errors
/// [`EnergyError`]: why tasks cannot be placed by energy.
pub fn read(root: &Path) -> Result<Model, EnergyError> {
    let capacities = capacities(&CpuFiles::below(&root.join("sys")));
    let small = capacities.values().copied().min().unwrap_or(0);
    if capacities.values().all(|capacity| *capacity == small) {
        return Err(EnergyError::Equal);
    }
    if small == 0 || capacities.values().any(|capacity| *capacity > PC_CAPACITY) {
        return Err(bad(format!("capacities of CPUs must be in 1..={PC_CAPACITY}")));
    }
    let shown = fs::read_dir(root.join(MODEL))
        .map_err(|error| EnergyError::Absent(format!("/{MODEL}: {error}")))?;
    let mut domains: Vec<_> = shown.flatten().map(|entry| entry.path()).collect();
    domains.retain(|path| path.join("cpus").exists());
    domains.sort();
    if domains.is_empty() {
        return Err(EnergyError::Absent(format!("/{MODEL} is empty")));
    }
    if domains.len() > PC_DOMAINS_MAX as usize {
        let count = domains.len();
        return Err(bad(format!("{count} domains, at most {PC_DOMAINS_MAX} can be used")));
    }
    let mut energy = pc_energy { small, ..pc_energy::default() };
    let mut cpus: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (index, (path, slot)) in (0..).zip(domains.iter().zip(energy.domain.iter_mut())) {
        let (domain, members) = domain_at(path, &capacities)?;
        *slot = domain;
        for cpu in members.iter() {
            if cpus.insert(cpu, (index, capacities[&cpu])).is_some() {
                return Err(bad(format!("CPU {cpu} is in two domains")));
            }
        }
    }
    if let Some(cpu) = capacities.keys().find(|cpu| !cpus.contains_key(*cpu)) {
        return Err(bad(format!("CPU {cpu} is in no domain")));
    }
    // The scheduler's table has no gaps, so the numbers of the CPUs must be consecutive and start
    // at 0.
    if (0..).zip(cpus.keys()).any(|(n, cpu): (u32, _)| n != *cpu) {
        return Err(bad("the CPUs' numbers have gaps".into()));
    }
    energy.cpus = u32::try_from(cpus.len()).unwrap_or(0);
    Ok(Model { energy, cpus: cpus.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A root directory with two domains like those of the Juno r2 board.
    fn juno(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("paracord-energy-{name}-{}", std::process::id()));
        for cpu in 0..6 {
            let directory = root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cpu_capacity"), if cpu < 4 { "383\n" } else { "1024\n" })
                .unwrap();
        }
        for (domain, cpus, points) in [
            ("cpu0", "0-3\n", [(450_000, 181, 2_340), (950_000, 383, 3_472)]),
            ("cpu4", "4,5\n", [(600_000, 512, 3_545), (1_200_000, 1024, 5_273)]),
        ] {
            for (khz, work, cost) in points {
                let directory = root.join(MODEL).join(domain).join(format!("ps:{khz}"));
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("frequency"), format!("{khz}\n")).unwrap();
                fs::write(directory.join("performance"), format!("{work}\n")).unwrap();
                fs::write(directory.join("cost"), format!("{cost}\n")).unwrap();
            }
            fs::write(root.join(MODEL).join(domain).join("cpus"), cpus).unwrap();
        }
        root
    }

    fn after(name: &str, change: impl Fn(&Path)) -> Result<Model, EnergyError> {
        let root = juno(name);
        change(&root);
        let model = read(&root);
        fs::remove_dir_all(root).unwrap();
        model
    }

    #[test]
    fn a_model_of_two_domains() {
        let model = after("good", |_| ()).unwrap();
        assert_eq!((model.energy.cpus, model.energy.small), (6, 383));
        assert_eq!(model.cpus, [(0, 383), (0, 383), (0, 383), (0, 383), (1, 1024), (1, 1024)]);
        let domain = &model.energy.domain[1];
        assert_eq!(
            (domain.points, domain.point[0].capacity, domain.point[1].cost),
            (2, 512, 5_273)
        );
    }

    #[test]
    fn work_from_frequencies_where_the_kernel_does_not_say() {
        let model = after("old", |root| {
            for point in ["cpu0/ps:450000", "cpu0/ps:950000"] {
                fs::remove_file(root.join(MODEL).join(point).join("performance")).unwrap();
            }
        });
        assert_eq!(model.unwrap().energy.domain[0].point[0].capacity, 181);
    }

    #[test]
    fn every_defect_has_its_line() {
        let write = |root: &Path, file: &str, text: &str| fs::write(root.join(file), text).unwrap();
        type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);
        let cases: [Case<'_>; 8] = [
            (
                "absent",
                &|root| fs::remove_dir_all(root.join(MODEL)).unwrap(),
                "shows no energy model",
            ),
            (
                "twice",
                &|root| write(root, &format!("{MODEL}/cpu4/cpus"), "3-5"),
                "CPU 3 is in two domains",
            ),
            (
                "missing",
                &|root| write(root, &format!("{MODEL}/cpu4/cpus"), "5"),
                "CPU 4 is in no domain",
            ),
            (
                "list",
                &|root| write(root, &format!("{MODEL}/cpu4/cpus"), "4-x"),
                "cpu4/cpus is not a list",
            ),
            (
                "many",
                &|root| write(root, &format!("{MODEL}/cpu4/cpus"), "4-99999999"),
                "not a list",
            ),
            (
                "above",
                &|root| write(root, &format!("{MODEL}/cpu4/cpus"), "4-64"),
                "cpu4/cpus is not a list of CPUs below 64",
            ),
            (
                "order",
                &|root| write(root, &format!("{MODEL}/cpu0/ps:450000/performance"), "500"),
                "a higher frequency does not do more",
            ),
            (
                "states",
                &|root| {
                    for state in ["ps:450000", "ps:950000"] {
                        fs::remove_dir_all(root.join(MODEL).join("cpu0").join(state)).unwrap();
                    }
                },
                "cpu0 has 0 states",
            ),
        ];
        for (name, change, line) in cases {
            let error = after(name, change).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(line), "{name}: {error}");
        }
    }

    #[test]
    fn equal_cpus_need_no_model() {
        let model = after("equal", |root| {
            for cpu in 0..6 {
                let file = format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
                fs::write(root.join(file), "1024\n").unwrap();
            }
        });
        assert_eq!(model.map(|_| ()).unwrap_err(), EnergyError::Equal);
        assert_eq!(read(Path::new("/nowhere")).map(|_| ()).unwrap_err(), EnergyError::Equal);
    }
}
