// SPDX-License-Identifier: GPL-2.0-only
//! The cases of the contract.

use super::{Both, Figure, Setting, draw, ideal};
use crate::cli::Failure;

/// A function that runs a mix, given as text, under both schedulers.
pub type Runs<'a> = &'a mut dyn FnMut(&str) -> Result<Both, Failure>;

/// A case of the contract.
pub struct Case {
    /// Name of the case, as in the lab's verdicts.
    pub name: &'static str,
    /// The function that measures the case on a machine.
    pub run: fn(&Setting, Runs<'_>) -> Result<Vec<Figure>, Failure>,
}

/// All cases.
pub const CASES: [Case; 9] = [
    Case { name: "quota_error", run: quota_error },
    Case { name: "quota_ejections", run: quota_ejections },
    Case { name: "vm_quota_excess_ext", run: vm_quota_excess },
    Case { name: "idle_group_share", run: idle_group_share },
    Case { name: "fork_chain_share", run: fork_chain_share },
    Case { name: "group_ratio_error", run: group_ratio_error },
    Case { name: "fairness_vs_stock", run: fairness_vs_stock },
    Case { name: "topology", run: topology },
    Case { name: "faults", run: faults },
];

/// The figure for faults, which must be 0. `None` if faults were not counted.
fn no_faults(of: &str, both: &Both) -> Option<Figure> {
    let faults = both.ext.faults? as f64;
    Some(Figure::at_most(of, (faults, 0.0), faults, 0.0))
}

fn map(pair: (f64, f64), of: impl Fn(f64) -> f64) -> (f64, f64) {
    (of(pair.0), of(pair.1))
}

/// The difference between a group's CPU time and its quota, minus the same difference under the
/// kernel's scheduler. The group has loops that want more than the quota. All CPUs also have loops
/// without a quota.
fn quota_error(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let length = if setting.long { 60 } else { 9 };
    let free = format!("task free count={} : run forever\n", setting.cpus);
    let mut figures = Vec::new();
    for percent in [5u64, 30, 150, 250] {
        if percent > 100 * (setting.cpus as u64 - 1) {
            continue;
        }
        let quota = |percent: u64| format!("quota={}us/100ms", percent * 1000);
        let hungry = 4 * percent.div_ceil(100);
        let flat = format!(
            "group q weight=10000 {}\ntask hungry group=q count={hungry} : run forever\n",
            quota(percent)
        );
        let burst = format!(
            "group q weight=10000 {} burst={}us\ntask hungry group=q count={hungry} : run forever\n",
            quota(percent),
            percent * 500
        );
        let nested = format!(
            "group q weight=10000 {}\ngroup q/a {}\ngroup q/b {}\ntask hungry-a group=q/a count={hungry} : run forever\n\
             task hungry-b group=q/b count={hungry} : run forever\n",
            quota(percent),
            quota(percent * 3 / 4),
            quota(percent * 2),
        );
        let mut variants = vec![("flat", flat), ("burst", burst), ("nested", nested)];
        if percent < 100 {
            let text = format!(
                "group q weight=10000 {}\ntask hungry group=q cpus=0 count=2 : run forever\n",
                quota(percent)
            );
            variants.push(("bound", text));
        }
        for (name, text) in variants {
            // With a quota of 5 ms, the overrun of a tick and the debt for it are visible even
            // after seconds.
            let machine =
                if percent < 10 { setting.machine_whole(length) } else { setting.machine(length) };
            let both = run(&(machine + &text + &free))?;
            let wanted = percent as f64 / 100.0;
            let error = map(both.share("hungry"), |share| (share / wanted - 1.0).abs());
            figures.push(Figure::at_most(
                format!("{percent} %, {name}"),
                error,
                error.0 - error.1,
                0.05,
            ));
        }
    }
    Ok(figures)
}

/// 64 loops share a quota of a millisecond per second. The kernel must not unload the scheduler,
/// although each loop waits for a long time.
fn quota_ejections(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let length = if setting.long && setting.cpus <= 8 { 600 } else { 39 };
    let text = "group tight quota=1ms/1s\ntask many group=tight count=64 : run forever\n";
    let free = format!("task free count={} : run forever\n", setting.cpus);
    let both = run(&(setting.machine(length) + text + &free))?;
    let used = both.share("many");
    // The limit of a hundredth of a CPU is documented.
    let share = Figure::at_most("share of a CPU, of 0.001", used, used.0, 0.01);
    // The kernel unloads a scheduler after a task has waited for 30 s, so a shorter run shows
    // nothing.
    let ejections = no_faults("", &both).filter(|_| setting.measured(length) > 30);
    Ok(ejections.into_iter().chain([share]).collect())
}

/// VMs have a quota, and their guests compute all the time. One guest also claims all the time to
/// be urgent.
fn vm_quota_excess(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let free = format!("task free count={} : run forever\n", setting.cpus);
    let mut figures = Vec::new();
    for guest in ["spin", "hold"] {
        let text = format!("group q quota=20ms/100ms\nvm box group=q vcpus=2 guest={guest}\n");
        let both = run(&(setting.machine(if setting.long { 60 } else { 9 }) + &text + &free))?;
        let excess = map(both.share("box"), |share| share / 0.2 - 1.0);
        figures.push(Figure::at_most(guest, excess, excess.0, 0.05));
    }
    Ok(figures)
}

/// The share of a CPU that a `cpu.idle` group gets while all CPUs have loops.
fn idle_group_share(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let cpus = setting.cpus;
    let text = format!(
        "group idle idle\ngroup front\ntask behind group=idle count={cpus} : run forever\n\
         task front group=front count={cpus} : run forever\n"
    );
    let both = run(&(setting.machine(7) + &text))?;
    let share = map(both.share("behind"), |share| share / cpus as f64);
    Ok(vec![Figure::at_most("", share, share.0, 0.01)])
}

/// A loop shares a CPU with a chain of processes. Each process computes, forks the next one and
/// ends.
fn fork_chain_share(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for time in ["300us", "1ms", "4ms"] {
        let chain = |group: &str| {
            format!(
                "task first cpus=0{group} : fork link, exit\n\
                 task link template cpus=0{group} : run {time}, fork link, exit\n"
            )
        };
        let plain = format!("task loop cpus=0 : run forever\n{}", chain(""));
        let both = run(&(setting.machine(7) + &plain))?;
        figures.push(Figure::at_least(time, both.share("loop"), 0.45));
        let groups = format!(
            "group heavy weight=1000\ngroup light weight=100\n\
             task loop cpus=0 group=heavy : run forever\n{}",
            chain(" group=light")
        );
        let both = run(&(setting.machine(7) + &groups))?;
        figures.push(Figure::at_least(
            format!("{time}, weights 1000, 100"),
            both.share("loop"),
            0.85,
        ));
    }
    Ok(figures)
}

/// Half of the groups have weight 1000, the other half weight 100; there are 30 of each per 64
/// CPUs. Their ratio should be 10. The figure is the relative error of the ratio, minus the same
/// error under the kernel's scheduler.
fn group_ratio_error(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let groups = 30 * setting.cpus.div_ceil(64);
    let mut text = String::new();
    for (name, weight) in [("heavy", 1000), ("light", 100)] {
        for group in 0..groups {
            text += &format!(
                "group {name}{group} weight={weight}\ntask {name}{group} group={name}{group} count=4 : run forever\n"
            );
        }
    }
    let both = run(&(setting.machine_whole(29) + &text))?;
    let (heavy, light) = (both.share("heavy"), both.share("light"));
    let error = |heavy: f64, light: f64| (heavy / light / 10.0 - 1.0).abs();
    let error = (error(heavy.0, light.0), error(heavy.1, light.1));
    Ok(vec![Figure::at_most("", error, error.0 - error.1, 0.05)])
}

/// The largest difference between a task's share and its weighted max-min share, minus the same
/// difference under the kernel's scheduler, for each of several mixes.
fn fairness_vs_stock(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let count = if setting.long { 40 } else { 8 };
    let length = if setting.long { 14 } else { 6 };
    let mut figures = Vec::new();
    for seed in setting.seed..setting.seed + count {
        let drawn = draw::mix(seed, setting.cpus);
        let both = run(&(setting.machine(length) + &drawn.text))?;
        let worst = |shares: &[f64]| {
            let used = ideal::as_used(&drawn.nodes, &mut shares.iter().copied());
            let wanted = ideal::shares(&used, setting.cpus as f64);
            shares.iter().zip(&wanted).map(|(had, wanted)| (had - wanted).abs()).fold(0.0, f64::max)
        };
        let (ext, stock) = both.shares();
        let error = (worst(&ext), worst(&stock));
        figures.push(Figure::at_most(format!("seed {seed}"), error, error.0 - error.1, 0.03));
    }
    Ok(figures)
}

/// Where tasks are put on a machine with cores, caches and nodes: the moves between nodes, the
/// cores whose threads are both busy while other cores are idle, and the waits of tasks that wake.
fn topology(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let cpus = setting.cpus;
    let mixes = [
        ("light", format!("task worker count={} : run 1ms..3ms, sleep 1ms..3ms\n", cpus * 3 / 8)),
        ("short", format!("task worker count={cpus} : run 200us..1ms, sleep 1ms..3ms\n")),
        ("nearly full", format!("task worker count={} : run 1ms..4ms, sleep 1ms..8ms\n", cpus * 2)),
        (
            "full",
            format!(
                "task loop count={} : run forever\ntask worker count={cpus} : run 100us..500us, sleep 2ms..6ms\n",
                cpus * 3 / 2
            ),
        ),
        (
            "VMs",
            format!(
                "vm box count={} vcpus=4\nvm rt count={} vcpus=2 guest=periodic period=2ms busy=200us\n\
                 task loop count={} : run forever\n",
                cpus / 8,
                cpus / 8,
                cpus / 2
            ),
        ),
    ];
    let mut figures = Vec::new();
    for (name, text) in mixes {
        let Some(machine) = setting.shaped(if setting.long { 30 } else { 7 }) else { break };
        let both = run(&(machine + &text))?;
        let Some((ext, stock)) = both.placed() else { break };
        let moves = (ext.node_moves, stock.node_moves);
        figures.push(Figure::at_most(
            format!("{name}: moves between nodes/s"),
            moves,
            moves.0 - moves.1,
            10.0,
        ));
        let cores = (cpus / 2) as f64;
        let crowded = (ext.crowded / cores, stock.crowded / cores);
        figures.push(Figure::at_most(
            format!("{name}: cores shared beside idle ones"),
            crowded,
            crowded.0 - crowded.1,
            0.01,
        ));
        let p99 = (ext.wakeup_p99_us, stock.wakeup_p99_us);
        // A limit shorter than the way of an interrupt to another CPU would be meaningless.
        figures.push(Figure::at_most(
            format!("{name}: wakeup p99, us"),
            p99,
            p99.0.max(5.0) / p99.1.max(5.0),
            1.1,
        ));
    }
    Ok(figures)
}

/// CPUs go offline and come back while tasks wait for quotas. There must be no fault.
fn faults(setting: &Setting, run: Runs<'_>) -> Result<Vec<Figure>, Failure> {
    let (cpus, length) = (setting.cpus, setting.measured(9));
    let (goes, comes) = (length * 300, length * 700);
    let text = format!(
        "group wide quota=50ms/100ms\ngroup tight quota=1ms/1s\ntask wide group=wide count=6 : run forever\n\
         task bound group=wide cpus=1 count=2 : run forever\ntask tight group=tight count=8 : run forever\n\
         task free count={cpus} : run forever\nat {goes}ms offline 1\nat {comes}ms online 1\n"
    );
    let both = run(&(setting.machine(length) + &text))?;
    Ok(no_faults("hotplug with quotas", &both).into_iter().collect())
}
