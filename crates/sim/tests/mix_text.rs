// SPDX-License-Identifier: GPL-2.0-only
//! Mixes as text: every file of `mixes/` can be read, written mixes read back as equal ones, and no
//! text makes the parser panic.

use std::path::{Path, PathBuf};

use paracord_sim::machine::CpuSet;
use paracord_sim::mix::random::{self, Draw};
use paracord_sim::mix::{
    Change, FOREVER, Guest, KernelVersion, Mix, Phase, Policy, Quota, Scheduler, Span, load,
    parse_bytes,
};
use paracord_sim::rng::Rng;
use proptest::prelude::*;

/// The example of docs/design/0008-simulator.md.
const EXAMPLE: &str = "\
machine cpus=8 smt=2 caches=2 nodes=1 hz=250 switch=1us migrate=5us ipi=1us
kernel 7.3
seed 1
run 8s warmup=500ms
group web weight=1000 quota=30ms/100ms burst=10ms
group web/a weight=100 idle
queue work
lock big
task hog count=2 group=web nice=0 cpus=0-1 : run forever
task worker policy=batch : wait work, run 1ms..3ms
task feeder start=1s : run 200us, post work sync, sleep 5ms
task first : fork link, exit
task link template : run 1ms, fork link, exit
vm guest count=4 vcpus=2 group=web exits=1000 guest=spin
irq cpu=0 every=1ms for=50us
at 2s group web weight=100
at 3s task hog nice=10
at 4s offline 1
at 5s online 1
";

fn parse(text: &str) -> Mix {
    Mix::parse("m.mix", text).unwrap_or_else(|e| panic!("{e} in\n{text}"))
}

/// Checks that a mix is written and reads back as an equal one.
fn check(mix: &Mix) {
    assert_eq!(mix.check(), Ok(()));
    let text = mix.to_string();
    assert_eq!(&parse(&text), mix, "{text}");
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mixes");
    let entries = std::fs::read_dir(folder).expect("the folder mixes");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "mix"));
    files.sort();
    files
}

#[test]
fn the_designs_example_says_what_it_says() {
    let mix = parse(EXAMPLE);
    let machine = &mix.machine;
    assert_eq!((machine.cpus, machine.smt, machine.caches, machine.nodes), (8, 2, 2, 1));
    assert_eq!((mix.kernel, mix.scheduler), (KernelVersion::V7_3, Scheduler::Ext));
    assert_eq!((mix.run_ns, mix.warmup_ns), (8_000_000_000, 500_000_000));
    let quota = Quota { quota_ns: 30_000_000, period_ns: 100_000_000, burst_ns: 10_000_000 };
    assert_eq!((mix.groups[0].weight, mix.groups[0].quota), (1000, Some(quota)));
    assert_eq!((mix.groups[1].parent, mix.groups[1].idle), (Some(0), true));
    let hog = &mix.tasks[0];
    assert_eq!((hog.count, hog.group, hog.cpus), (2, Some(0), Some(CpuSet::first(2))));
    assert_eq!(hog.phases, [Phase::Run(Span { min_ns: FOREVER, max_ns: FOREVER })]);
    assert_eq!(mix.tasks[1].policy, Policy::Batch);
    let span = Span { min_ns: 1_000_000, max_ns: 3_000_000 };
    assert_eq!(mix.tasks[1].phases, [Phase::Wait(0), Phase::Run(span)]);
    assert_eq!(mix.tasks[2].phases[1], Phase::Post { queue: 0, sync: true });
    assert_eq!(mix.tasks[3].phases, [Phase::Fork(4), Phase::Exit]);
    assert_eq!((mix.vms[0].vcpus, mix.vms[0].guest), (2, Guest::Spin));
    assert_eq!(mix.changes[0].change, Change::GroupWeight(0, 100));
    assert_eq!(mix.changes[3].change, Change::Online(1));
    check(&mix);
}

#[test]
fn every_word_reads_back() {
    let more = "\
machine cpus=8 nodes=2 caches=4 capacity=1024*4,400*4 hz=1000 switch=0ns migrate=1.5us ipi=7ns exit=2us
kernel 6.12
scheduler stock
seed 18446744073709551615
run 1.5s
group a quota=1ms/1s
group b quota=max
lock l # a comment
task t group=/ policy=fifo prio=99 nice=-20 : lock l, run 1ms, unlock l, yield, period 10ms, group a/ b
";
    let said = Mix::parse("m.mix", more).expect_err("a word too many").to_string();
    assert!(said.starts_with("m.mix:9: 'b' is one word too many"), "{said}");
    let mix = parse(&more.replace("group a/ b", "group /, group b"));
    assert_eq!(mix.tasks[0].phases[5..], [Phase::MoveTo(None), Phase::MoveTo(Some(1))]);
    assert_eq!((mix.groups[1].quota, mix.seed), (None, u64::MAX));
    check(&mix);
    let changes = "\
machine cpus=2
run 1s
group g
task t : run 1ms
vm v guest=periodic period=10ms busy=1ms cpus=1
vm w guest=hold exits=0
at 700ms task t group=/ cpus=1 policy=rr prio=3 nice=4
at 500ms group g idle=yes quota=max
at 600ms group g quota=5ms/10ms burst=1ms idle=no weight=7
";
    let mix = parse(changes);
    let said: Vec<&Change> = mix.changes.iter().map(|timed| &timed.change).collect();
    assert_eq!(said[0], &Change::GroupIdle(0, true));
    assert_eq!(said[4], &Change::GroupWeight(0, 7));
    assert_eq!(said[5..7], [&Change::TaskGroup(0, None), &Change::TaskCpus(0, CpuSet::of(1))]);
    assert_eq!(said.len(), 9);
    check(&mix);
}

#[test]
fn every_file_is_read_and_says_what_it_shows() {
    let files = files();
    assert!(files.len() >= 12, "{files:?}");
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a file");
        assert!(text.starts_with("# "), "{}: no comment", file.display());
        check(&load(file).unwrap_or_else(|e| panic!("{e}")));
    }
}

#[test]
fn line_ends_of_other_systems_are_read() {
    assert_eq!(parse(&EXAMPLE.replace('\n', "\r\n")), parse(EXAMPLE));
}

#[test]
fn a_seed_draws_one_mix() {
    for seed in 0..50 {
        assert_eq!(random::mix(seed, 8), random::mix(seed, 8));
    }
    assert_ne!(random::mix(1, 8), random::mix(2, 8));
}

#[test]
fn draws_leave_out_what_they_are_told_to() {
    let rid = Draw { quotas: false, idle_groups: false, hotplug: false, vms: false, ..Draw::ALL };
    for seed in 0..500 {
        let mix = rid.mix(seed, 8);
        assert!(mix.groups.iter().all(|group| group.quota.is_none() && !group.idle));
        assert!(mix.vms.is_empty());
        for timed in &mix.changes {
            let left_out = matches!(
                timed.change,
                Change::GroupQuota(..) | Change::GroupIdle(..) | Change::Offline(_)
            );
            assert!(!left_out, "{mix}");
        }
        let mix = Draw { changes: false, locks: false, queues: false, ..Draw::ALL }.mix(seed, 8);
        assert!(mix.locks.is_empty() && mix.queues.is_empty());
        let hotplug = |change: &Change| matches!(change, Change::Offline(_) | Change::Online(_));
        assert!(mix.changes.iter().all(|timed| hotplug(&timed.change)), "{mix}");
        let plain = Draw::PLAIN.mix(seed, 8);
        assert!(plain.groups.is_empty() && plain.changes.is_empty() && plain.irqs.is_empty());
        assert!(plain.tasks.iter().all(|t| t.cpus.is_none() && t.policy == Policy::Other));
        assert!(plain.tasks.iter().all(|t| t.nice == 0 && !t.template));
    }
}

#[test]
fn everything_is_drawn_now_and_then() {
    let mixes: Vec<Mix> = (0..500).map(|seed| random::mix(seed, 8)).collect();
    let some = |what: &str, has: &dyn Fn(&Mix) -> bool| {
        let count = mixes.iter().filter(|mix| has(mix)).count();
        assert!((10..=490).contains(&count), "{what} in {count} of 500");
    };
    let phase =
        |mix: &Mix, is: fn(&Phase) -> bool| mix.tasks.iter().any(|t| t.phases.iter().any(is));
    let change = |mix: &Mix, is: fn(&Change) -> bool| mix.changes.iter().any(|t| is(&t.change));
    some("the older kernel", &|mix| mix.kernel == KernelVersion::V6_12);
    some("smt", &|mix| mix.machine.smt > 1);
    some("nodes", &|mix| mix.machine.nodes > 1);
    some("capacities", &|mix| mix.machine.capacities.iter().any(|c| *c < 1024));
    some("third level", &|mix| mix.groups.iter().any(|g| g.path.matches('/').count() == 2));
    some("light groups", &|mix| mix.groups.iter().any(|g| g.weight < 10));
    some("heavy groups", &|mix| mix.groups.iter().any(|g| g.weight > 1000));
    some("quotas", &|mix| mix.groups.iter().any(|g| g.quota.is_some()));
    some("idle groups", &|mix| mix.groups.iter().any(|g| g.idle));
    some("fifo", &|mix| mix.tasks.iter().any(|t| matches!(t.policy, Policy::Fifo(_))));
    some("affinity", &|mix| mix.tasks.iter().any(|t| t.cpus.is_some()));
    some("waits", &|mix| phase(mix, |p| matches!(p, Phase::Wait(_))));
    some("locks", &|mix| phase(mix, |p| matches!(p, Phase::Lock(_))));
    some("forks", &|mix| phase(mix, |p| matches!(p, Phase::Fork(_))));
    some("moves", &|mix| phase(mix, |p| matches!(p, Phase::MoveTo(_))));
    some("yields", &|mix| phase(mix, |p| matches!(p, Phase::Yield)));
    some("irqs", &|mix| !mix.irqs.is_empty());
    some("VMs", &|mix| !mix.vms.is_empty());
    some("hotplug", &|mix| change(mix, |c| matches!(c, Change::Offline(_))));
    some("weight changes", &|mix| change(mix, |c| matches!(c, Change::GroupWeight(..))));
    some("quota changes", &|mix| change(mix, |c| matches!(c, Change::GroupQuota(..))));
    some("task changes", &|mix| change(mix, |c| matches!(c, Change::TaskGroup(..))));
}

#[test]
fn affinities_keep_a_cpu_that_stays() {
    for seed in 0..1000 {
        let mix = random::mix(seed, 3);
        let mut leaving = CpuSet::EMPTY;
        for timed in &mix.changes {
            if let Change::Offline(cpu) = timed.change {
                leaving.insert(cpu);
            }
        }
        let changed = mix.changes.iter().filter_map(|timed| match &timed.change {
            Change::TaskCpus(_, cpus) => Some(cpus),
            _ => None,
        });
        for cpus in mix.tasks.iter().filter_map(|task| task.cpus.as_ref()).chain(changed) {
            assert!(cpus.iter().any(|cpu| !leaving.has(cpu)), "{mix}");
        }
    }
}

/// Returns a text with some bytes, words or lines changed.
fn mutated(text: &str, seed: u64) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "-1",
        "0",
        "18446744073709551616",
        "/",
        "=",
        ":",
        ",",
        "..",
        "forever",
        "fork",
        "1.5ms",
        "\u{fe}",
    ];
    let mut rng = Rng::new(seed);
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.between(1, 4) {
        let length = bytes.len() as u64;
        let from = usize::try_from(rng.below(length)).unwrap_or(0);
        let to = usize::try_from(rng.below(12)).unwrap_or(0).min(bytes.len() - from) + from;
        match rng.below(5) {
            0 => bytes[from] = u8::try_from(rng.below(256)).unwrap_or(0),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let word = WORDS[usize::try_from(rng.below(12)).unwrap_or(0)];
                bytes.splice(from..to, word.bytes());
            }
            3 => {
                let copy = bytes[from..to].to_vec();
                bytes.splice(from..from, copy);
            }
            // Exchanges two lines.
            _ => {
                let mut lines: Vec<_> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let a = usize::try_from(rng.below(lines.len() as u64)).unwrap_or(0);
                let b = usize::try_from(rng.below(lines.len() as u64)).unwrap_or(0);
                lines.swap(a, b);
                bytes = lines.join(&b'\n');
            }
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Reads bytes without a panic. The result must be a valid mix, or an error that names an existing
/// line.
fn survives(bytes: &[u8]) -> bool {
    match parse_bytes("m.mix", bytes) {
        Ok(mix) => {
            check(&mix);
            true
        }
        Err(e) => {
            let line = e.to_string();
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.len() < 2000 && line.starts_with("m.mix:"), "{line}");
            let lines = bytes.iter().filter(|b| **b == b'\n').count() + 1;
            assert!((1..=lines).contains(&e.line()), "{line} of {lines} lines");
            false
        }
    }
}

#[test]
fn mutated_files_are_read_or_refused() {
    let mut texts = vec![EXAMPLE.to_owned()];
    texts.extend(files().iter().map(|file| std::fs::read_to_string(file).expect("a file")));
    texts.extend((0..20).map(|seed| random::mix(seed, 8).to_string()));
    let mut valid = 0;
    let mut all = 0;
    for text in &texts {
        for seed in 0..200 {
            valid += u32::from(survives(&mutated(text, seed)));
            all += 1;
        }
    }
    // Both results must occur. Otherwise the changes are too coarse or too fine to show anything.
    assert!(valid > all / 20 && valid < all * 19 / 20, "{valid} of {all} valid");
}

/// Lines that look like lines of a mix.
const BODY: &str = "((group|task|vm|irq|at|queue|lock|run|machine)\
    ( [a-z]{1,4}| [a-z]{3,6}=[0-9a-z./-]{0,6}| :|,){0,6}\n){0,8}";

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
    }

    #[test]
    fn any_words_are_read_or_refused(
        body in BODY
    ) {
        survives(body.as_bytes());
        survives(format!("machine cpus=4\nrun 1s\n{body}").as_bytes());
    }

    #[test]
    fn drawn_mixes_are_valid_and_read_back(seed in any::<u64>(), cpus in 1_usize..130) {
        let mix = random::mix(seed, cpus);
        prop_assert_eq!(mix.machine.cpus, cpus);
        prop_assert!((1_000_000_000..=4_000_000_000).contains(&mix.run_ns));
        check(&mix);
    }
}
