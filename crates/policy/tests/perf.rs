// SPDX-License-Identifier: GPL-2.0-only
//! Requests add up, decay while their tasks sleep, and are carried over a sleep once.

use paracord_policy::{pc_clamp, pc_perf_cpu, pc_perf_task, perf};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const ANY: pc_clamp = pc_clamp { min: 0, max: 1024 };
/// The clamps of the root group, which do not limit the groups below it.
const ROOT: pc_clamp = pc_clamp { min: 1024, max: 1024 };

/// One CPU and its tasks. Time passes in milliseconds.
struct Cpu {
    cpu: pc_perf_cpu,
    now: u64,
}

impl Cpu {
    fn new() -> Self {
        Self { cpu: pc_perf_cpu::default(), now: 1_000_000 * MS }
    }

    fn wake(&mut self, task: &mut pc_perf_task, clamp: pc_clamp) {
        perf::wake(&mut self.cpu, task, clamp, self.now);
    }

    fn sleep(&mut self, task: &mut pc_perf_task) {
        perf::sleep(&mut self.cpu, task, ANY, self.now);
    }

    /// For `ms` milliseconds, the first task runs and the others wait. Returns the CPU's request
    /// after each millisecond.
    fn run(&mut self, tasks: &mut [(&mut pc_perf_task, pc_clamp)], ms: u64) -> Vec<u32> {
        let mut seen = Vec::new();
        for _ in 0..ms {
            self.now += MS;
            for (n, (task, clamp)) in tasks.iter_mut().enumerate() {
                perf::account(&mut self.cpu, task, *clamp, n == 0, self.now);
            }
            seen.push(self.request());
        }
        seen
    }

    fn idle(&mut self, ms: u64) -> u32 {
        self.now += ms * MS;
        self.request()
    }

    fn request(&mut self) -> u32 {
        perf::cpu_request(&mut self.cpu, 0, self.now)
    }
}

#[test]
fn capped_tasks_add_up() {
    let capped = pc_clamp { min: 0, max: 120 };
    let (mut a, mut b) = (pc_perf_task::default(), pc_perf_task::default());
    let mut cpu = Cpu::new();
    cpu.wake(&mut a, capped);
    cpu.wake(&mut b, capped);
    for _ in 0..100 {
        cpu.run(&mut [(&mut a, capped), (&mut b, capped)], 4);
        cpu.run(&mut [(&mut b, capped), (&mut a, capped)], 4);
    }
    assert_eq!(cpu.request(), 240);
}

#[test]
fn a_floor_counts_from_the_first_moment_and_decays_with_its_sleeper() {
    let boosted = pc_clamp { min: 512, max: 1024 };
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    cpu.wake(&mut a, boosted);
    assert_eq!(cpu.request(), 512);
    cpu.sleep(&mut a);
    assert_eq!(cpu.request(), 512);
    let half = cpu.idle(34); // a little more than 32 periods
    assert!((250..=256).contains(&half), "{half}");
    cpu.wake(&mut a, boosted);
    assert_eq!(cpu.request(), 512, "the sleeper's old request is not counted twice");
}

/// Scenario 3 of the kernel patches "uclamp sum aggregation": A runs for 4 of 10 ms. B always runs
/// and is capped at 300. With max aggregation, the CPU's request jumps between 300 and 1024.
#[test]
fn a_task_that_comes_and_goes_moves_the_request_little() {
    let capped = pc_clamp { min: 0, max: 300 };
    let (mut a, mut b) = (pc_perf_task::default(), pc_perf_task::default());
    let mut cpu = Cpu::new();
    cpu.wake(&mut b, capped);
    let mut seen = Vec::new();
    for cycle in 0..100 {
        cpu.wake(&mut a, ANY);
        let busy = cpu.run(&mut [(&mut a, ANY), (&mut b, capped)], 4);
        cpu.sleep(&mut a);
        let rest = cpu.run(&mut [(&mut b, capped)], 6);
        if cycle >= 50 {
            seen.extend(busy.into_iter().chain(rest));
        }
    }
    let (low, high) = (*seen.iter().min().unwrap_or(&0), *seen.iter().max().unwrap_or(&0));
    // B's 300, plus A's 400 with 25 % headroom.
    assert!(low > 720 && high < 880, "{low}..{high}");
    assert!(high - low < 100, "{low}..{high}");
}

/// Runs ten bursts of 70 ms, each followed by a sleep of 100 ms, and then one more burst. Returns
/// the request at the end of the tenth burst, and the requests during the last burst.
fn after_burst(carry: bool) -> (u32, Vec<u32>) {
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    let mut level = 0;
    for _ in 0..10 {
        cpu.wake(&mut a, ANY);
        level = cpu.run(&mut [(&mut a, ANY)], 70).pop().unwrap_or(0);
        cpu.sleep(&mut a);
        cpu.idle(100);
    }
    if !carry {
        a.carry_armed = 0;
    }
    cpu.wake(&mut a, ANY);
    let mut first = vec![cpu.request()];
    first.extend(cpu.run(&mut [(&mut a, ANY)], 70));
    (level, first)
}

/// Guards that requests are held: the ripple of a task that runs for 4 of 10 ms changes no
/// frequency. A request that is no longer needed ends after two windows.
#[test]
fn a_request_falls_after_a_window_only() {
    let mut cpu = Cpu::new();
    let mut task = pc_perf_task::default();
    let mut held = Vec::new();
    for period in 0..60 {
        cpu.wake(&mut task, ANY);
        for ms in 0..10 {
            if ms < 4 {
                cpu.run(&mut [(&mut task, ANY)], 1);
            } else {
                if ms == 4 {
                    cpu.sleep(&mut task);
                }
                cpu.idle(1);
            }
            let request = cpu.request();
            let steady = perf::hold(&mut cpu.cpu, request, cpu.now);
            assert!(steady >= request);
            if period > 30 {
                held.push(steady);
            }
        }
    }
    assert!(held.iter().max().unwrap() - held.iter().min().unwrap() <= 8, "{held:?}");
    let before = *held.last().unwrap();
    cpu.now += 35 * MS;
    let request = cpu.request();
    assert!(perf::hold(&mut cpu.cpu, request, cpu.now) < before * 3 / 4);
    // A higher request takes effect immediately.
    assert_eq!(perf::hold(&mut cpu.cpu, 1024, cpu.now), 1024);
}

#[test]
fn a_burst_starts_where_the_last_one_ended() {
    let (level, requests) = after_burst(true);
    assert!(requests.iter().all(|request| *request >= level), "{level}: {requests:?}");
    let (level, requests) = after_burst(false);
    assert!(requests[..10].iter().all(|request| *request < level / 2), "{level}: {requests:?}");
}

#[test]
fn small_tasks_after_a_burst_use_the_carry_once() {
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    cpu.wake(&mut a, ANY);
    let level = cpu.run(&mut [(&mut a, ANY)], 100).pop().unwrap_or(0);
    cpu.sleep(&mut a);
    let mut first = Vec::new();
    for _ in 0..5 {
        cpu.idle(200);
        cpu.wake(&mut a, ANY);
        first.push(cpu.request());
        cpu.run(&mut [(&mut a, ANY)], 2);
        cpu.sleep(&mut a);
    }
    assert!(first[0] >= level);
    assert!(first[1..].iter().all(|request| *request < level / 4), "{first:?}");
}

/// Guards that a useless carry is not repeated. Without this rule, in a mostly idle workload, the
/// first small piece of work after each burst got the carry, although it needed only 2 % of the
/// frequency.
#[test]
fn a_carry_that_was_for_nothing_is_given_again_when_it_would_have_been_right() {
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    let work = |cpu: &mut Cpu, a: &mut pc_perf_task, ms: u64| {
        cpu.wake(a, ANY);
        let first = cpu.request();
        let last = cpu.run(&mut [(a, ANY)], ms).pop().unwrap_or(0);
        cpu.sleep(a);
        cpu.idle(60);
        (first, last)
    };
    for cycle in 0..5 {
        let (_, level) = work(&mut cpu, &mut a, 60);
        let first: Vec<u32> = (0..12).map(|_| work(&mut cpu, &mut a, 2).0).collect();
        assert_eq!(first.iter().any(|request| *request >= level), cycle == 0, "{level}: {first:?}");
    }
    // The first burst follows small work, so it gets no carry. A carry would have been right for
    // the first burst, so the later bursts get one.
    let bursts: Vec<(u32, u32)> = (0..5).map(|_| work(&mut cpu, &mut a, 60)).collect();
    let started_high: Vec<bool> = bursts.windows(2).map(|b| b[1].0 >= b[0].1).collect();
    assert_eq!(started_high, [false, true, true, true], "{bursts:?}");
}

#[test]
fn a_carry_is_never_above_the_clamp() {
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    cpu.wake(&mut a, ANY);
    cpu.run(&mut [(&mut a, ANY)], 100);
    cpu.sleep(&mut a);
    cpu.idle(200);
    cpu.wake(&mut a, pc_clamp { min: 0, max: 200 });
    assert_eq!(cpu.request(), 200);
}

#[test]
fn a_capped_task_pays_for_the_speed_beyond_its_cap() {
    assert_eq!(perf::capped_ns(3 * MS, 1024, 1024), 3 * MS);
    assert_eq!(perf::capped_ns(3 * MS, 1024, 256), 12 * MS);
    assert_eq!(perf::capped_ns(3 * MS, 1024, 1), 3072 * MS);
    // If the CPU is slower than the task's cap, the task is charged for the time that it ran.
    assert_eq!(perf::capped_ns(3 * MS, 200, 256), 3 * MS);
    assert_eq!(perf::capped_ns(3 * MS, 1024, 0), 3072 * MS);
}

#[test]
fn a_new_task_begins_with_half_of_what_is_left() {
    let (mut a, mut b) = (pc_perf_task::default(), pc_perf_task::default());
    let mut cpu = Cpu::new();
    perf::begin(&cpu.cpu, &mut a, cpu.now);
    cpu.wake(&mut a, ANY);
    assert_eq!(cpu.request(), 640, "half of the CPU, and a quarter of headroom");
    perf::begin(&cpu.cpu, &mut b, cpu.now);
    assert_eq!(b.demand.util_avg, 192);
    cpu.run(&mut [(&mut a, ANY), (&mut b, ANY)], 200);
    assert!(a.demand.util_avg > 1000 && b.demand.util_avg < 5, "{a:?} {b:?}");
}

#[test]
fn a_busy_task_asks_for_more_than_it_gets() {
    let mut a = pc_perf_task::default();
    let mut cpu = Cpu::new();
    cpu.wake(&mut a, ANY);
    // The task runs for half of the time.
    for _ in 0..200 {
        cpu.run(&mut [(&mut a, ANY)], 2);
        cpu.sleep(&mut a);
        cpu.idle(2);
        cpu.wake(&mut a, ANY);
    }
    let (demand, request) = (a.demand.util_avg, cpu.request());
    assert_eq!(request, demand + demand / 4);
}

#[test]
fn a_group_bounds_what_its_tasks_may_ask_for() {
    let clamp = |min, max| pc_clamp { min, max };
    let effective = |task, group| {
        let found = perf::effective_clamp(task, group, ROOT);
        (found.min, found.max)
    };
    assert_eq!(effective(ANY, ANY), (0, 1024));
    assert_eq!(effective(ANY, clamp(0, 300)), (0, 300));
    assert_eq!(effective(ANY, clamp(200, 300)), (200, 300));
    assert_eq!(effective(clamp(0, 100), clamp(200, 300)), (200, 200));
    assert_eq!(effective(clamp(512, 1024), clamp(0, 300)), (300, 300));
    // The limit of a parent also applies to the groups below it.
    let found = perf::effective_clamp(ANY, clamp(0, 800), clamp(0, 400));
    assert_eq!((found.min, found.max), (0, 400));
}

#[test]
fn a_guest_asks_within_what_the_host_gives() {
    let clamp = |min, max| pc_clamp { min, max };
    let cases = [
        // Each case: the host's clamps, the guest's request, the guest's limit, and the resulting
        // clamps.
        (ANY, 0, 0, ANY),
        (ANY, 600, 0, clamp(600, 1024)),
        (ANY, u32::from(u16::MAX), 0, clamp(1024, 1024)),
        (clamp(0, 300), 1024, 0, clamp(300, 300)),
        (ANY, 600, 400, clamp(400, 400)),
        (ANY, 100, 400, clamp(100, 400)),
        (ANY, 0, u32::from(u16::MAX), ANY),
        // The host's minimum applies, whatever the guest requests.
        (clamp(200, 800), 0, 100, clamp(200, 200)),
        (clamp(200, 800), 50, 0, clamp(200, 800)),
        // If the host's minimum exceeds its maximum, the maximum applies.
        (clamp(500, 300), 0, 0, clamp(300, 300)),
    ];
    for (host, request, limit, expected) in cases {
        assert_eq!(perf::guest_clamp(host, request, limit), expected, "{host:?} {request} {limit}");
    }
}

#[test]
fn small_changes_of_a_request_are_not_told() {
    let cases = [(0, 0, false), (0, 1, true), (1, 0, true), (500, 563, false), (500, 564, true)];
    for (told, now, expected) in cases {
        assert_eq!(perf::request_moved(told, now), expected, "{told} {now}");
    }
    assert!(perf::request_moved(900, 836) && !perf::request_moved(900, 837));
}

#[test]
fn a_guests_floor_gets_no_room_on_top() {
    let mut cpu = Cpu::new();
    let mut vcpu = pc_perf_task::default();
    let asks = perf::guest_clamp(ANY, 640, 0);
    cpu.wake(&mut vcpu, asks);
    assert_eq!(cpu.request(), 640);
    // The vCPU uses little of what its guest requested. Then the guest withdraws its request, and
    // the next call of `account` removes this request from the sum.
    cpu.run(&mut [(&mut vcpu, asks)], 1);
    assert_eq!(cpu.request(), 640);
    cpu.run(&mut [(&mut vcpu, perf::guest_clamp(ANY, 0, 0))], 1);
    assert!(cpu.request() < 100, "{}", cpu.request());
}

#[test]
fn what_a_guest_asks_for_stands_in_its_demands_place() {
    let mut cpu = Cpu::new();
    let mut vcpu = pc_perf_task { asked: 1, ..pc_perf_task::default() };
    let asks = perf::guest_clamp(ANY, 100, 0);
    cpu.wake(&mut vcpu, asks);
    // The vCPU is busy all the time, perhaps because of VM exits. The guest's governor knows better
    // how much performance is needed.
    cpu.run(&mut [(&mut vcpu, asks)], 300);
    assert_eq!(cpu.request(), 100);
    // The guest's driver is unloaded.
    vcpu.asked = 0;
    cpu.run(&mut [(&mut vcpu, perf::guest_clamp(ANY, 0, 0))], 1);
    assert_eq!(cpu.request(), 1024);
}

#[test]
fn a_stale_request_of_a_sleeper_decays() {
    let mut cpu = Cpu::new();
    let mut vcpu = pc_perf_task::default();
    let asks = perf::guest_clamp(ANY, 1024, 0);
    cpu.wake(&mut vcpu, asks);
    cpu.run(&mut [(&mut vcpu, asks)], 2);
    cpu.sleep(&mut vcpu);
    let halved = cpu.idle(32);
    assert!((500..=540).contains(&halved), "{halved}");
    assert!(cpu.idle(300) < 8);
}

#[test]
fn a_burst_under_a_guests_floor_carries_no_more_than_it_asked_for() {
    let mut cpu = Cpu::new();
    let mut vcpu = pc_perf_task::default();
    let asks = perf::guest_clamp(ANY, 700, 700);
    cpu.wake(&mut vcpu, asks);
    cpu.run(&mut [(&mut vcpu, asks)], 60);
    cpu.sleep(&mut vcpu);
    cpu.idle(200);
    // At its last exit, the guest withdrew its request. The carry lasts for one window, at the
    // request that the burst had.
    cpu.wake(&mut vcpu, ANY);
    assert_eq!(cpu.request(), 700);
    cpu.run(&mut [], 0);
    cpu.sleep(&mut vcpu);
    cpu.idle(200);
    cpu.wake(&mut vcpu, ANY);
    assert!(cpu.request() < 100, "{}", cpu.request());
}

proptest! {
    #[test]
    fn whatever_a_guest_says_stays_between_floor_and_cap(
        min: u32, max: u32, request: u32, limit: u32, more: u32,
    ) {
        let host = pc_clamp { min, max };
        let got = perf::guest_clamp(host, request, limit);
        prop_assert!(got.max <= max && got.max <= 1024);
        prop_assert!(got.min <= got.max);
        // The guest cannot lower the minimum that the host has granted.
        prop_assert!(got.min >= min.min(max).min(1024));
        prop_assert!(limit == 0 || got.max <= limit.max(min));
        let higher = perf::guest_clamp(host, request.saturating_add(more), limit);
        prop_assert!(higher.min >= got.min && higher.max == got.max);
    }

    /// Whatever tasks do, the sum is zero when all of them have left.
    #[test]
    fn sums_end_at_nothing(steps in prop::collection::vec((0usize..4, 0u64..40 * MS, 0u32..2000, 0u32..2000), 1..80)) {
        let mut cpu = Cpu::new();
        let mut tasks = [pc_perf_task::default(); 4];
        let mut awake = [false; 4];
        for (n, ns, min, max) in steps {
            let clamp = pc_clamp { min, max };
            cpu.now += ns;
            if awake[n] {
                perf::account(&mut cpu.cpu, &mut tasks[n], clamp, ns % 2 == 0, cpu.now);
                cpu.sleep(&mut tasks[n]);
            } else {
                cpu.wake(&mut tasks[n], clamp);
            }
            awake[n] = !awake[n];
            prop_assert!(cpu.request() <= 1024);
            let runnable: u32 = (0..4).filter(|n| awake[*n]).map(|n| tasks[n].contribution).sum();
            prop_assert_eq!(cpu.cpu.runnable, runnable);
        }
        for (n, task) in tasks.iter_mut().enumerate() {
            if awake[n] {
                cpu.sleep(task);
            }
        }
        prop_assert_eq!(cpu.cpu.runnable, 0);
        prop_assert_eq!(cpu.idle(3000), 0);
    }
}
