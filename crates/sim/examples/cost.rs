// SPDX-License-Identifier: GPL-2.0-only
//! Measures the cost of the scheduler's operations, by the size of the machine and the number of
//! groups, and prints a table in Markdown: `cargo run --release -p paracord-sim --features traced
//! --example cost`.

use paracord_sim::{
    bpf::{Operation, cost},
    machine::Machine,
    mix::{self, Mix, Phase, Span},
    run,
};

const OPERATIONS: [(Operation, &str); 7] = [
    (Operation::SelectCpu, "select_cpu"),
    (Operation::Enqueue, "enqueue"),
    (Operation::Dispatch, "dispatch"),
    (Operation::Running, "running"),
    (Operation::Stopping, "stopping"),
    (Operation::Tick, "tick"),
    (Operation::Quiescent, "quiescent"),
];
const CPUS: [usize; 5] = [2, 8, 64, 256, 512];
const GROUPS: [usize; 3] = [1, 50, 400];

/// Each CPU has two loops and four tasks that sleep and wake. They are spread over groups on two
/// levels.
fn busy(cpus: usize, groups: usize) -> Result<Mix, mix::MixError> {
    let mut text = format!("machine cpus={cpus}\nrun 250ms warmup=100ms\ngroup all\n");
    for group in 0..groups {
        text += &format!("group all/g{group}\n");
    }
    let mut mix = Mix::parse("cost", &text)?;
    mix.machine = Machine::flat(cpus);
    let task = |name: &str, count: usize, group: usize, phases: Vec<Phase>| mix::Task {
        name: format!("{name}{group}"),
        count: u32::try_from(count).unwrap_or(1),
        group: Some(group + 1),
        policy: mix::Policy::Other,
        nice: 0,
        cpus: None,
        start_ns: 0,
        template: false,
        phases,
    };
    let span = |min_us: u64, max_us: u64| Span { min_ns: min_us * 1000, max_ns: max_us * 1000 };
    for group in 0..groups {
        let share = |tasks: usize| tasks / groups + usize::from(group < tasks % groups);
        let (loops, sleepers) = (share(2 * cpus), share(4 * cpus));
        let forever = Phase::Run(Span { min_ns: mix::FOREVER, max_ns: mix::FOREVER });
        if loops > 0 {
            mix.tasks.push(task("loop", loops, group, vec![forever]));
        }
        if sleepers > 0 {
            let phases = vec![Phase::Run(span(50, 400)), Phase::Sleep(span(500, 4000))];
            mix.tasks.push(task("sleeper", sleepers, group, phases));
        }
    }
    Ok(mix)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| CPUs | groups | {} |", OPERATIONS.map(|(_, name)| name).join(" | "));
    println!("|---|---|{}", "---|".repeat(OPERATIONS.len()));
    for groups in GROUPS {
        for cpus in CPUS {
            let mix = busy(cpus, groups)?;
            let (warmup_ns, run_ns) = (mix.warmup_ns, mix.run_ns);
            let mut simulation = run::Simulation::new(mix)?;
            // All tasks begin on one CPU. The cost of spreading them is not part of the usual cost
            // of an operation.
            simulation.run_until(warmup_ns);
            cost::reset();
            simulation.run_until(run_ns);
            let cells = OPERATIONS.map(|(operation, _)| {
                let (calls, sum) = cost::of(operation);
                let each = |value: u64| value as f64 / calls.max(1) as f64;
                format!(
                    "{:.0} / {:.1} / {:.1}",
                    each(sum.steps),
                    each(sum.remote_reads),
                    each(sum.remote_writes)
                )
            });
            println!("| {cpus} | {groups} | {} |", cells.join(" | "));
        }
    }
    Ok(())
}
