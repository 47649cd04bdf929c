// SPDX-License-Identifier: GPL-2.0-only
//! Mixes of weights drawn from a seed, and what each of their tasks should have.

use std::fmt::Write;

use paracord_sim::rng::Rng;

use super::ideal::Node;

/// nice values that are drawn, and the kernel's weights of them (`sched_prio_to_weight`).
const NICE: [(i8, f64); 6] =
    [(0, 1024.0), (0, 1024.0), (5, 335.0), (-5, 3121.0), (10, 110.0), (3, 526.0)];
const GROUP_WEIGHTS: [u32; 5] = [100, 100, 50, 200, 400];

/// A mix without its machine, and its tasks in the order of their kinds.
pub struct Drawn {
    /// Lines of groups and tasks; each task is a kind of its own.
    pub text: String,
    /// The same, as a tree.
    pub nodes: Vec<Node>,
}

/// Loops, and sleepers that want little, in the root group and up to two levels of groups, one and a half to four for each CPU.
pub fn mix(seed: u64, cpus: usize) -> Drawn {
    let mut rng = Rng::new(seed);
    let (mut groups, mut tasks, mut number) = (String::new(), String::new(), 0);
    let per_cpu_halves = rng.between(3, 8);
    let wanted = (cpus as u64 * per_cpu_halves).div_ceil(2);
    let mut nodes = Vec::new();
    let tops = rng.below(4);
    for top in 0..tops {
        let weight = pick(&mut rng, &GROUP_WEIGHTS);
        let _ = writeln!(groups, "group g{top} weight={weight}");
        let count = wanted / (2 * tops);
        let of = if rng.chance(500) {
            // Groups of version 2 have tasks or groups in them, not both.
            let mut inner = |name: &str| {
                let weight = pick(&mut rng, &GROUP_WEIGHTS);
                let path = format!("g{top}/{name}");
                let _ = writeln!(groups, "group {path} weight={weight}");
                let of = some(&mut rng, &mut tasks, &mut number, &path, count);
                Node::Group { weight: f64::from(weight) * 10.24, of }
            };
            vec![inner("in"), inner("out")]
        } else {
            some(&mut rng, &mut tasks, &mut number, &format!("g{top}"), count)
        };
        nodes.push(Node::Group { weight: f64::from(weight) * 10.24, of });
    }
    let rest = wanted.saturating_sub(number).max(1);
    nodes.extend(some(&mut rng, &mut tasks, &mut number, "/", rest));
    Drawn { text: groups + &tasks, nodes }
}

fn some(rng: &mut Rng, text: &mut String, number: &mut u64, group: &str, count: u64) -> Vec<Node> {
    let one = |_| {
        let (nice, weight) = pick(rng, &NICE);
        let sleeps = rng.chance(200);
        // Runs as soon as it wakes, or nearly: the part that it wants is small.
        let (phases, demand) = match sleeps {
            true => ("run 500us, sleep 9500us", 0.05),
            false => ("run forever", 1.0),
        };
        let _ = writeln!(text, "task t{number} group={group} nice={nice} : {phases}");
        *number += 1;
        Node::Task { weight, demand }
    };
    (0..count.max(1)).map(one).collect()
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[usize::try_from(rng.below(of.len() as u64)).unwrap_or(0)]
}
