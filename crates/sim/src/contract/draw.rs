// SPDX-License-Identifier: GPL-2.0-only
//! Random mixes with weights, and the share that each task should get.

use std::fmt::Write;

use paracord_sim::rng::Rng;

use super::ideal::Node;

/// Nice values, and their weights in the kernel (`sched_prio_to_weight`).
const NICE: [(i8, f64); 6] =
    [(0, 1024.0), (0, 1024.0), (5, 335.0), (-5, 3121.0), (10, 110.0), (3, 526.0)];
const GROUP_WEIGHTS: [u32; 5] = [100, 100, 50, 200, 400];

/// A mix without its machine line, and its tasks in the order of their kinds.
pub struct Drawn {
    /// The lines of groups and tasks. Each task is a kind of its own.
    pub text: String,
    /// The same tasks as a tree.
    pub nodes: Vec<Node>,
}

/// Draws loops, and sleepers that need little, in the root group and in up to two levels of groups.
/// There are one and a half to four tasks per CPU.
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
            // A group of cgroup v2 contains tasks or groups, but not both.
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
        // A sleeper runs almost as soon as it wakes, because it needs only a small share.
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
