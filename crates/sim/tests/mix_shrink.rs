// SPDX-License-Identifier: GPL-2.0-only
//! Shrinking: every step gives a valid, simpler mix, and a failing mix shrinks to the cause of the
//! failure.

use paracord_sim::machine::Machine;
use paracord_sim::mix::shrink::{shrink, steps};
use paracord_sim::mix::{Change, Mix, Phase, Policy, random};
use proptest::prelude::*;

fn parse(text: &str) -> Mix {
    Mix::parse("m.mix", text).unwrap_or_else(|e| panic!("{e} in\n{text}"))
}

/// The first random mix with a property.
fn drawn(has: impl Fn(&Mix) -> bool) -> Mix {
    (0..).map(|seed| random::mix(seed, 8)).find(has).expect("a seed")
}

#[test]
fn a_mix_that_always_fails_shrinks_to_nothing() {
    for seed in 0..20 {
        let least = shrink(&random::mix(seed, 16), |_| true, 10_000);
        assert_eq!(least.machine, Machine::flat(1), "{least}");
        assert!(least.tasks.is_empty() && least.vms.is_empty() && least.groups.is_empty());
        assert!(least.irqs.is_empty() && least.changes.is_empty() && least.queues.is_empty());
        assert_eq!(steps(&least).count(), 0, "{least}");
    }
}

#[test]
fn a_failure_shrinks_to_its_cause() {
    let quota = |mix: &Mix| {
        let limited = |task: &paracord_sim::mix::Task| {
            task.group.is_some_and(|group| mix.groups[group].quota.is_some())
        };
        mix.machine.cpus >= 2 && mix.tasks.iter().any(limited)
    };
    let least = shrink(&drawn(quota), quota, 10_000);
    assert_eq!((least.machine.cpus, least.tasks.len(), least.groups.len()), (2, 1, 1), "{least}");
    let text = least.to_string();
    assert!(text.contains(": run forever\n") || text.contains(": exit\n"), "{least}");

    let chain = |mix: &Mix| {
        mix.tasks.iter().enumerate().any(|(i, task)| task.phases.contains(&Phase::Fork(i)))
    };
    let least = shrink(&drawn(chain), chain, 10_000);
    assert_eq!(least.tasks.len(), 2, "{least}");
    assert!(least.tasks.iter().all(|task| task.count == 1 && task.nice == 0), "{least}");

    let pipe = |mix: &Mix| {
        let phases = || mix.tasks.iter().flat_map(|task| &task.phases);
        phases().any(|phase| matches!(phase, Phase::Post { .. }))
            && phases().any(|phase| matches!(phase, Phase::Wait(_)))
    };
    let least = shrink(&drawn(pipe), pipe, 10_000);
    assert!(least.tasks.len() <= 2 && least.queues.len() <= 2, "{least}");

    let gone = |mix: &Mix| {
        mix.changes.iter().any(|timed| matches!(timed.change, Change::Offline(cpu) if cpu > 0))
    };
    let least = shrink(&drawn(gone), gone, 10_000);
    assert!(least.tasks.is_empty() && least.machine.cpus <= 8, "{least}");
    assert!(least.changes.len() <= 2, "{least}");
}

#[test]
fn a_budget_is_kept() {
    let mix = random::mix(5, 8);
    let mut calls = 0;
    let least = shrink(
        &mix,
        |_| {
            calls += 1;
            true
        },
        3,
    );
    assert_eq!(calls, 3);
    assert_ne!(least, mix);
    assert_eq!(shrink(&mix, |_| true, 0), mix);
    assert_eq!(shrink(&mix, |_| false, 10_000), mix);
}

#[test]
fn who_is_in_a_dropped_group_goes_to_its_parent() {
    let mix = parse(
        "machine cpus=1\nrun 1s\ngroup a\ngroup a/b\ngroup a/b/c\ngroup c\n\
         task t group=a/b : run 1ms, group a/b/c, run 1ms\nvm v group=a/b/c\n\
         at 10ms group a/b weight=5\nat 20ms group c weight=6\nat 30ms task t group=a/b\n",
    );
    let text = |mix: Mix| mix.to_string();
    let without_b =
        steps(&mix).map(text).find(|text| !text.contains("a/b") && text.contains("a/c"));
    let without_b = without_b.expect("a step");
    for said in [
        "group a\ngroup a/c\ngroup c\n",
        "task t group=a : run 1ms, group a/c, run 1ms\n",
        "vm v vcpus=1 group=a/c",
        "at 20ms group c weight=6\nat 30ms task t group=a\n",
    ] {
        assert!(without_b.contains(said), "{said} is not in\n{without_b}");
    }
    assert!(!without_b.contains("weight=5"));
    // A path that is already used gets another name.
    let both = parse("machine cpus=1\nrun 1s\ngroup a\ngroup a/c\ngroup c\n");
    let names: Vec<String> = steps(&both).map(text).collect();
    assert!(names.iter().any(|text| text.contains("group c\ngroup c-2\n")), "{names:?}");
}

#[test]
fn fewer_cpus_cut_what_names_the_others() {
    let mix = parse(
        "machine cpus=8 smt=2 caches=2 nodes=2 capacity=1024*4,400*4\nrun 1s\n\
         task a cpus=3-5 : run 1ms\ntask b cpus=7 : run 1ms\nirq cpu=6 every=1ms for=1us\n\
         at 10ms offline 5\nat 20ms task a cpus=2,6\n",
    );
    let half = steps(&mix).find(|less| less.machine.cpus == 4).expect("a step").to_string();
    assert!(half.starts_with("machine cpus=4 smt=2 caches=2 nodes=2 hz=250\n"), "{half}");
    assert!(half.contains("task a cpus=3 :") && half.contains("task b : "), "{half}");
    assert!(half.ends_with("task b : run 1ms\nat 20ms task a cpus=2\n"), "{half}");
}

#[test]
fn a_template_goes_with_the_last_task_that_forks_it() {
    let mix = parse(
        "machine cpus=1\nrun 1s\ntask hog : run forever\ntask first : fork link, exit\n\
         task link template : run 1ms, fork link, exit\n",
    );
    let hog = |mix: &Mix| mix.tasks.len() == 1 && mix.tasks[0].name == "hog";
    assert!(steps(&mix).any(|less| hog(&less)));
}

/// The sum of everything that a step can reduce. No step may increase it.
fn size(mix: &Mix) -> u64 {
    let parts = mix.groups.len() + mix.tasks.len() + mix.vms.len() + mix.irqs.len();
    let phases: usize = mix.tasks.iter().map(|task| task.phases.len()).sum();
    let names = mix.queues.len() + mix.locks.len() + mix.changes.len();
    let counts: u32 = mix.tasks.iter().map(|task| task.count).sum();
    let policies = mix.tasks.iter().filter(|task| task.policy != Policy::Other).count();
    let lists = parts + phases + names + policies + mix.machine.cpus;
    u64::try_from(lists).unwrap_or(0) + u64::from(counts) + mix.run_ns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn steps_are_valid_and_no_larger(seed in any::<u64>(), cpus in 1_usize..24) {
        let mix = random::mix(seed, cpus);
        for less in steps(&mix) {
            prop_assert_eq!(less.check(), Ok(()));
            prop_assert!(size(&less) <= size(&mix), "{}\nfrom\n{}", less, mix);
            let text = less.to_string();
            prop_assert_eq!(&parse(&text), &less, "{}", text);
        }
    }

    #[test]
    fn a_drawn_cause_survives_to_a_local_minimum(seed in any::<u64>(), salt in any::<u64>()) {
        // A meaningless property that some mixes have. Shrinking must end even with this property.
        let odd = |mix: &Mix| {
            let text = mix.to_string();
            let sum: u64 = text.bytes().map(u64::from).sum();
            (sum ^ salt) % 3 == 0
        };
        let mix = random::mix(seed, 8);
        let least = shrink(&mix, odd, 200_000);
        prop_assert!(least == mix || odd(&least));
        prop_assert!(steps(&least).all(|less| !odd(&less)));
    }
}
