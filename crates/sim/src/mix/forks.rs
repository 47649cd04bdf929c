// SPDX-License-Identifier: GPL-2.0-only
//! Checks which task forks which: templates must be started, and chains must end or keep their
//! number of tasks.

use super::error::{Flaw, Part, at};
use super::limits::TASKS_MAX;
use super::programs::{End, end, takes_time};
use super::value::at_most;
use super::{Mix, Phase, Task};

/// Checks that the number of tasks stays bounded, and that each template is used.
pub(super) fn check(mix: &Mix) -> Result<(), Flaw> {
    for (index, task) in mix.tasks.iter().enumerate() {
        for child in children(task) {
            if !mix.tasks[child].template {
                let name = &mix.tasks[child].name;
                return Err(at(Part::Task(index))(format!(
                    "{name} is not a template; write task {name} template"
                )));
            }
        }
    }
    let graph = Graph::of(mix);
    if let Some(index) = unforked(mix).next() {
        let name = &mix.tasks[index].name;
        return Err(at(Part::Task(index))(format!(
            "no task forks the template {name}; write fork {name} in another task, or leave template out"
        )));
    }
    chains(mix, &graph)?;
    started_again(mix, &graph)?;
    at_once(mix, &graph)
}

/// The templates that a task forks in one pass of its phases.
fn children(task: &Task) -> impl Iterator<Item = usize> + '_ {
    task.phases.iter().filter_map(|phase| match phase {
        Phase::Fork(child) => Some(*child),
        _ => None,
    })
}

/// Templates that are never forked, because no task that begins by itself leads to them. All
/// indices must be valid.
pub(super) fn unforked(mix: &Mix) -> impl Iterator<Item = usize> {
    let mut reached: Vec<bool> = mix.tasks.iter().map(|task| !task.template).collect();
    let mut open: Vec<usize> = (0..reached.len()).filter(|index| reached[*index]).collect();
    while let Some(index) = open.pop() {
        for child in children(&mix.tasks[index]) {
            if !std::mem::replace(&mut reached[child], true) {
                open.push(child);
            }
        }
    }
    (0..reached.len()).filter(move |index| !reached[*index])
}

/// The cycles of forks. Tasks that lead to each other are in one cycle.
struct Graph {
    /// The cycle of each task. A task that forks has the same number as the forked task, or a lower
    /// one.
    circle_of: Vec<usize>,
    /// For each task, whether it forks itself, directly or through other tasks.
    in_circle: Vec<bool>,
    /// All tasks, ordered by their cycle.
    order: Vec<usize>,
}

impl Graph {
    /// Kosaraju's algorithm without recursion, because a file may declare a chain of 100,000
    /// templates.
    fn of(mix: &Mix) -> Self {
        let count = mix.tasks.len();
        let mut parents = vec![Vec::new(); count];
        let mut in_circle = vec![false; count];
        for (index, task) in mix.tasks.iter().enumerate() {
            for child in children(task) {
                parents[child].push(index);
                in_circle[index] |= child == index;
            }
        }
        let mut circle_of = vec![usize::MAX; count];
        let mut order = Vec::with_capacity(count);
        for (circle, last) in finished(mix).into_iter().rev().enumerate() {
            if circle_of[last] != usize::MAX {
                continue;
            }
            let first = order.len();
            let mut open = vec![last];
            circle_of[last] = circle;
            while let Some(index) = open.pop() {
                order.push(index);
                for parent in &parents[index] {
                    if circle_of[*parent] == usize::MAX {
                        circle_of[*parent] = circle;
                        open.push(*parent);
                    }
                }
            }
            if order.len() > first + 1 {
                order[first..].iter().for_each(|index| in_circle[*index] = true);
            }
        }
        Self { circle_of, in_circle, order }
    }

    fn same_circle(&self, a: usize, b: usize) -> bool {
        self.circle_of[a] == self.circle_of[b]
    }
}

/// The tasks, in the order in which a depth-first search finishes them.
fn finished(mix: &Mix) -> Vec<usize> {
    let mut seen = vec![false; mix.tasks.len()];
    let mut left = Vec::with_capacity(seen.len());
    for root in 0..seen.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut open = vec![(root, children(&mix.tasks[root]))];
        while let Some((index, rest)) = open.last_mut() {
            match rest.next() {
                None => {
                    left.push(*index);
                    open.pop();
                }
                Some(child) if !seen[child] => {
                    seen[child] = true;
                    open.push((child, children(&mix.tasks[child])));
                }
                Some(_) => {}
            }
        }
    }
    left
}

/// In a cycle of forks, each task may fork only one task that continues the cycle, must end, and
/// must take time.
fn chains(mix: &Mix, graph: &Graph) -> Result<(), Flaw> {
    // Whether a task of each cycle runs or sleeps before it forks the next task.
    let mut timed = vec![false; mix.tasks.len()];
    for index in graph.order.iter().copied().filter(|index| graph.in_circle[*index]) {
        let task = &mix.tasks[index];
        let at = at(Part::Task(index));
        let name = &task.name;
        if end(task) != End::Exit {
            return Err(at(format!(
                "{name} forks itself and does not end, so that there are ever more; add exit"
            )));
        }
        let next = |phase: &Phase| match phase {
            Phase::Fork(child) => graph.same_circle(*child, index),
            _ => false,
        };
        if task.phases.iter().filter(|phase| next(phase)).count() > 1 {
            return Err(at(format!(
                "{name} forks itself more than once in its life, so that there are ever more; \
                 write one fork"
            )));
        }
        let position = task.phases.iter().position(next).unwrap_or(0);
        timed[graph.circle_of[index]] |= task.phases[..position].iter().any(takes_time);
    }
    let untimed = |index: &usize| graph.in_circle[*index] && !timed[graph.circle_of[*index]];
    match graph.order.iter().copied().find(untimed) {
        None => Ok(()),
        Some(index) => Err(at(Part::Task(index))(
            "the chain of forks takes no time, so that the run never ends; add run 1ms before fork"
                .to_owned(),
        )),
    }
}

/// A task that a loop or a cycle forks repeatedly must end.
fn started_again(mix: &Mix, graph: &Graph) -> Result<(), Flaw> {
    let mut again = graph.in_circle.clone();
    for index in graph.order.iter().copied() {
        let task = &mix.tasks[index];
        if again[index] && end(task) != End::Exit {
            let name = &task.name;
            return Err(at(Part::Task(index))(format!(
                "{name} is forked again and again and does not end; add exit"
            )));
        }
        if again[index] || end(task) == End::Again {
            children(task).for_each(|child| again[child] = true);
        }
    }
    Ok(())
}

/// Limits the number of tasks: the tasks that begin by themselves, and all tasks to which one pass
/// of their phases leads.
fn at_once(mix: &Mix, graph: &Graph) -> Result<(), Flaw> {
    // For each task, the number of tasks to which it leads, including itself. Tasks in a cycle are
    // counted once, because each ends.
    let mut lives = vec![1_u64; mix.tasks.len()];
    for index in graph.order.iter().rev().copied() {
        let others = children(&mix.tasks[index]).filter(|child| !graph.same_circle(*child, index));
        let sum = others.fold(1_u64, |sum, child| sum.saturating_add(lives[child]));
        lives[index] = sum;
    }
    let mut all = 0_u64;
    for (index, task) in mix.tasks.iter().enumerate().filter(|(_, task)| !task.template) {
        all = all.saturating_add(u64::from(task.count).saturating_mul(lives[index]));
        at_most("tasks with their forks", all, TASKS_MAX).map_err(at(Part::Task(index)))?;
    }
    Ok(())
}
