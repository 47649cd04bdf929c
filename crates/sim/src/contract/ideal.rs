// SPDX-License-Identifier: GPL-2.0-only
//! Weighted max-min shares: the shares of a machine that tasks should get if they are not bound to
//! CPUs.

/// A task or a group.
#[derive(Clone, Debug)]
pub enum Node {
    /// A task. It would use `demand` of a CPU, at most 1.
    Task {
        /// Weight of the task.
        weight: f64,
        /// The share of a CPU that the task would use.
        demand: f64,
    },
    /// A group, which divides its share among its members.
    Group {
        /// Weight of the group.
        weight: f64,
        /// Members of the group.
        of: Vec<Node>,
    },
}

impl Node {
    fn weight(&self) -> f64 {
        match self {
            Self::Task { weight, .. } | Self::Group { weight, .. } => *weight,
        }
    }

    fn demand(&self) -> f64 {
        match self {
            Self::Task { demand, .. } => *demand,
            Self::Group { of, .. } => of.iter().map(Self::demand).sum(),
        }
    }
}

/// Returns the same tasks with other demands. A task that sleeps gets the share that it had as its
/// demand, if this is more than its demand without costs. Each of its wakeups has a cost, which on
/// an emulated host can be as much as the task's work. `had`: the shares of all tasks, in their
/// order.
pub fn as_used(nodes: &[Node], had: &mut impl Iterator<Item = f64>) -> Vec<Node> {
    let used = |node: &Node| match node {
        Node::Task { weight, demand } => {
            let had = had.next().unwrap_or(0.0);
            let demand = if *demand < 1.0 { demand.max(had) } else { *demand };
            Node::Task { weight: *weight, demand }
        }
        Node::Group { weight, of } => Node::Group { weight: *weight, of: as_used(of, had) },
    };
    nodes.iter().map(used).collect()
}

/// The ideal shares of all tasks below `nodes` on `cpus` CPUs, in their order.
pub fn shares(nodes: &[Node], cpus: f64) -> Vec<f64> {
    let mut had = vec![0.0; nodes.len()];
    let mut open: Vec<usize> = (0..nodes.len()).collect();
    let mut left = cpus;
    // A task that wants less than its part gets what it wants. The others divide the rest.
    loop {
        let weights: f64 = open.iter().map(|node| nodes[*node].weight()).sum();
        let part = |node: usize| left * nodes[node].weight() / weights;
        let (content, hungry): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|node| nodes[**node].demand() <= part(**node));
        if content.is_empty() {
            for node in &hungry {
                had[*node] = part(*node);
            }
            break;
        }
        for node in &content {
            had[*node] = nodes[*node].demand();
            left -= had[*node];
        }
        open = hungry;
    }
    let below = nodes.iter().zip(had).map(|(node, had)| match node {
        Node::Task { .. } => vec![had],
        Node::Group { of, .. } => shares(of, had),
    });
    below.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{Node, as_used, shares};

    fn task(weight: f64) -> Node {
        Node::Task { weight, demand: 1.0 }
    }

    #[test]
    fn who_cannot_use_its_part_leaves_it_to_the_others() {
        assert_eq!(shares(&[task(1.0), task(1.0), task(1.0)], 2.0), [2.0 / 3.0; 3]);
        assert_eq!(shares(&[task(8.0), task(1.0), task(1.0)], 2.0), [1.0, 0.5, 0.5]);
        let sleeper = Node::Task { weight: 5.0, demand: 0.2 };
        assert_eq!(shares(&[sleeper, task(1.0)], 1.0), [0.2, 0.8]);
        let groups = [
            Node::Group { weight: 3.0, of: vec![task(1.0), task(2.0)] },
            Node::Group { weight: 1.0, of: vec![task(1.0)] },
        ];
        assert_eq!(shares(&groups, 1.0), [0.25, 0.5, 0.25]);
        assert_eq!(shares(&[], 4.0), [0.0; 0]);
    }

    #[test]
    fn what_wakeups_cost_is_wanted_too() {
        let sleeper = || Node::Task { weight: 1.0, demand: 0.1 };
        let nodes = [Node::Group { weight: 1.0, of: vec![sleeper()] }, sleeper(), task(1.0)];
        let ideal = |had: [f64; 3]| shares(&as_used(&nodes, &mut had.into_iter()), 1.0);
        assert_eq!(ideal([0.2, 0.05, 0.75]), [0.2, 0.1, 0.7000000000000001]);
        // A task gets no more than its part.
        assert_eq!(ideal([0.5, 0.1, 0.4]), [0.45, 0.1, 0.45]);
    }
}
