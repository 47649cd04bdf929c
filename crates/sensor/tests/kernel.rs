// SPDX-License-Identifier: GPL-2.0-only
//! Tests the sensor in a real kernel, with threads that stand in for vCPUs. Needs root and BTF:
//! `cargo test -p paracord-sensor --test kernel -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::{
    cell::RefCell,
    path::Path,
    rc::Rc,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use paracord_sensor::{
    Life, Options, RingBuffer, Sensor, Vcpu,
    policy::{
        PC_EV_CONFIG, PC_EV_TICK, PC_LEVEL_FULL, PC_MODE_OFF, PC_MODE_ON, PC_MSG_ASKS,
        PC_MSG_BOOST, PC_MSG_GONE, PC_MSG_UNBOOST, defaults, pc_boost_config, pc_msg,
        pc_vcpu_counters, pc_vcpu_setup,
    },
};
use paracord_sys::{
    perf::{self, Listener, Overflows, PerfAttr, PerfEvent},
    sched,
};

/// Reasons as bits of a mask (PARACORD_REASON_*).
const WAKE: u8 = 1;
const RT: u8 = 4;
/// The context word of the guest line, when a real-time task runs (PARACORD_TASK_RT).
const TASK_RT: u64 = 3;
const SETTLE: Duration = Duration::from_millis(50);
const NAP: Duration = Duration::from_millis(400);

/// What a stand-in thread does until the test ends it.
#[derive(Clone, Copy)]
enum Work {
    Sleep,
    Spin,
    /// Sleeps once, for [`NAP`], then spins.
    Nap,
}

struct StandIn {
    tid: u32,
    end: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: CPUs 0 and 1 are inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the call changes the calling thread, and the set is valid and has the given size.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    assert_eq!(done, 0);
}

impl StandIn {
    fn start(work: Work) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let tid = Arc::new(AtomicU32::new(0));
        let (thread_end, thread_tid) = (end.clone(), tid.clone());
        let thread = thread::spawn(move || {
            pin(0);
            // SAFETY: the system call takes no arguments.
            let own = unsafe { libc::syscall(libc::SYS_gettid) };
            thread_tid.store(u32::try_from(own).unwrap(), Ordering::Release);
            if matches!(work, Work::Nap) {
                thread::sleep(SETTLE); // until it is adopted
                thread::sleep(NAP);
            }
            while !thread_end.load(Ordering::Relaxed) {
                if matches!(work, Work::Sleep) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        while tid.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        Self { tid: tid.load(Ordering::Acquire), end, thread: Some(thread) }
    }

    fn stop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop();
    }
}

type Log = Rc<RefCell<Vec<pc_msg>>>;

fn sensor() -> Sensor {
    Sensor::load(&Options { without_kvm: true, ..Options::default() }).unwrap()
}

fn listen(sensor: &Sensor) -> (RingBuffer<'static>, Log) {
    let log = Log::default();
    let sink = log.clone();
    (sensor.messages(move |message| sink.borrow_mut().push(message)).unwrap(), log)
}

/// Adopts the thread into VM 0 and enables the policy for it.
fn adopt<'a>(
    sensor: &'a Sensor,
    thread: &StandIn,
    config: pc_boost_config,
    setup: pc_vcpu_setup,
) -> Vcpu<'a> {
    sensor.vms().get(0).unwrap().set_config(config, config);
    let vcpu = sensor.adopt_stand_in(thread.tid, std::process::id()).unwrap();
    vcpu.set_setup(setup);
    assert!(vcpu.set_ready());
    vcpu
}

/// Polls until the messages satisfy `done`. Fails after two seconds.
fn wait(ring: &RingBuffer<'_>, log: &Log, what: &str, done: impl Fn(&[pc_msg]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !done(&log.borrow()) {
        assert!(Instant::now() < deadline, "no {what} in {:?}", log.borrow());
        ring.poll(Duration::from_millis(10)).unwrap();
    }
}

fn is_boost(message: &pc_msg, reason: u8) -> bool {
    message.kind == PC_MSG_BOOST && message.reasons & reason != 0
}

/// Checks that each wakeup has an entry in the latency histograms, and that no latency was a second
/// or longer.
fn assert_latency_of_each_wakeup(counters: &pc_vcpu_counters) {
    const ONE_SECOND: usize = 30; // 2^30 ns
    let all = counters.wakeup_latency.iter().flatten();
    // The thread runs while this is read, so the last wakeup may be in only one of the two counts.
    assert!(all.sum::<u64>().abs_diff(counters.wakeups) <= 1, "{counters:?}");
    assert!(counters.wakeup_latency[1].iter().sum::<u64>() > 0, "{counters:?}");
    for kind in &counters.wakeup_latency {
        assert_eq!(kind[ONE_SECOND..].iter().sum::<u64>(), 0, "{counters:?}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn wake_boosts_a_thread_while_it_sleeps_and_mode_off_ends_it() {
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    let thread = StandIn::start(Work::Sleep);
    let vcpu = adopt(&sensor, &thread, defaults(), pc_vcpu_setup::default());
    wait(&ring, &log, "BOOST for WAKE", |all| all.iter().any(|message| is_boost(message, WAKE)));

    // The thread sleeps and wakes a thousand times per second and stays boosted, so no further
    // message comes.
    log.borrow_mut().clear();
    let before = vcpu.counters();
    thread::sleep(Duration::from_millis(200));
    ring.consume().unwrap();
    let after = vcpu.counters();
    assert!(after.wakeups > before.wakeups + 20, "{after:?}");
    assert!(log.borrow().len() <= 2, "{:?}", log.borrow());
    assert!(log.borrow().iter().all(|message| u32::from(message.level) == PC_LEVEL_FULL));
    assert_latency_of_each_wakeup(&after);

    let off = pc_boost_config { mode: PC_MODE_OFF, ..defaults() };
    sensor.vms().get(0).unwrap().set_config(off, off);
    sensor.evaluate(PC_EV_CONFIG, &[vcpu.index()]).unwrap();
    wait(&ring, &log, "UNBOOST", |all| all.iter().any(|message| message.kind == PC_MSG_UNBOOST));
    assert!(!vcpu.boosted());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_thread_that_slept_without_a_boost_is_boosted_when_it_wakes() {
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    let thread = StandIn::start(Work::Nap);
    let off = pc_boost_config { mode: PC_MODE_OFF, ..defaults() };
    let vcpu = adopt(&sensor, &thread, off, pc_vcpu_setup::default());
    thread::sleep(SETTLE + NAP / 2);
    // The sensor is not told about this change. It must notice the change by itself, although the
    // thread does not sleep again.
    sensor.vms().get(0).unwrap().set_config(defaults(), defaults());
    ring.consume().unwrap();
    assert!(log.borrow().is_empty(), "{:?}", log.borrow());
    wait(&ring, &log, "BOOST for WAKE", |all| all.iter().any(|message| is_boost(message, WAKE)));
    assert!(vcpu.counters().wakeups <= 2, "{:?}", vcpu.counters());
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn other_threads_of_a_vmm_have_a_budget_of_their_own() {
    let off = pc_boost_config { mode: PC_MODE_OFF, ..defaults() };
    let none = pc_boost_config { vm_budget_ns: 0, ..defaults() };
    for (vcpus, io_threads, io, boosted) in [
        (off, defaults(), 1, true),
        (defaults(), off, 1, false),
        (defaults(), none, 1, false),
        (defaults(), none, 0, true),
    ] {
        let sensor = sensor();
        let thread = StandIn::start(Work::Sleep);
        let vcpu = adopt(&sensor, &thread, off, pc_vcpu_setup { io, ..pc_vcpu_setup::default() });
        sensor.vms().get(0).unwrap().set_config(vcpus, io_threads);
        // The first wakeup detects that the budget is empty.
        thread::sleep(SETTLE);
        let before = vcpu.counters().boosted_ns;
        thread::sleep(SETTLE);
        assert_eq!(vcpu.counters().boosted_ns > before, boosted, "{io} {:?}", vcpu.state());
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_preempted_thread_with_the_rt_hint_is_boosted_and_a_tick_ends_it() {
    let line = Box::new([TASK_RT, 0, 0, 0, 0, 0, 0, 0_u64]);
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    let _rival = StandIn::start(Work::Spin);
    let thread = StandIn::start(Work::Spin);
    let setup = pc_vcpu_setup {
        slot_hva: line.as_ptr() as u64,
        guest_line_bytes: 64,
        ..pc_vcpu_setup::default()
    };
    let vcpu = adopt(&sensor, &thread, defaults(), setup);
    wait(&ring, &log, "BOOST for RT", |all| all.iter().any(|message| is_boost(message, RT)));
    // Nothing acts on the boost in this test, so the boost must end when the grant of running time
    // is used up. Ticks detect this.
    let deadline = Instant::now() + Duration::from_secs(2);
    while vcpu.counters().forced == 0 {
        assert!(Instant::now() < deadline, "{:?}", vcpu.state());
        sensor.evaluate(PC_EV_TICK, &[vcpu.index()]).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    wait(&ring, &log, "UNBOOST", |all| all.iter().any(|message| message.kind == PC_MSG_UNBOOST));
    assert_eq!(vcpu.counters().guest_read_errors, 0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_unmapped_guest_line_is_counted_and_raises_nothing() {
    let sensor = sensor();
    let _rival = StandIn::start(Work::Spin);
    let thread = StandIn::start(Work::Spin);
    let setup =
        pc_vcpu_setup { slot_hva: 0x1000, guest_line_bytes: 64, ..pc_vcpu_setup::default() };
    let vcpu = adopt(&sensor, &thread, defaults(), setup);
    thread::sleep(4 * SETTLE);
    let counters = vcpu.counters();
    assert!(counters.guest_read_errors > 0, "{counters:?}");
    assert_eq!(counters.boosts, [0; 4]);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_thread_that_exits_gives_its_index_back() {
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    let mut thread = StandIn::start(Work::Sleep);
    let vcpu = adopt(&sensor, &thread, defaults(), pc_vcpu_setup::default());
    thread.stop();
    wait(&ring, &log, "GONE", |all| all.iter().any(|message| message.kind == PC_MSG_GONE));
    assert_eq!(vcpu.life(), Life::Gone);
    // The next task on the thread's CPU must not be taken for the vCPU.
    for cpu in 0..u32::try_from(sensor.cpus().len()).unwrap() {
        let running = sensor.cpus().read(cpu).unwrap().running;
        assert_ne!(running, vcpu.index() + 1, "CPU {cpu} still names the thread");
    }
    sensor.release(&vcpu).unwrap();
    assert_eq!(vcpu.life(), Life::Free);
    assert_eq!(vcpu.counters().wakeups, 0);
}

/// The time at which threads are to end. Each thread adds a delay of its own.
#[derive(Default)]
struct End(Mutex<Option<Instant>>, Condvar);

impl End {
    fn set(&self, end: Instant) {
        *self.0.lock().unwrap() = Some(end);
        self.1.notify_all();
    }

    fn wait(&self, later: Duration) {
        let end = self.1.wait_while(self.0.lock().unwrap(), |end| end.is_none()).unwrap().unwrap();
        thread::sleep((end + later).saturating_duration_since(Instant::now()));
    }
}

/// Starts a thread on CPU 0 that ends at the time in `end` plus `later`. When a real-time thread
/// wakes up to end, it preempts other threads that are just ending.
fn ending(end: &Arc<End>, later: Duration, realtime: bool) -> (u32, thread::JoinHandle<()>) {
    let (tell, told) = mpsc::sync_channel(1);
    let end = Arc::clone(end);
    let thread = thread::spawn(move || {
        pin(0);
        if realtime {
            sched::become_realtime(1).unwrap();
        }
        // SAFETY: the system call takes no arguments.
        let own = unsafe { libc::syscall(libc::SYS_gettid) };
        tell.send(u32::try_from(own).unwrap()).unwrap();
        end.wait(later);
    });
    (told.recv().unwrap(), thread)
}

/// Since Linux 7.0, tracepoint programs can be preempted, and a BPF program does not run on a CPU
/// while an earlier run of it is preempted there.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn no_end_is_missed_of_threads_that_preempt_each_other_as_they_end() {
    const PAIRS: u32 = 40;
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    for _ in 0..5 {
        log.borrow_mut().clear();
        let end = Arc::<End>::default();
        let later = |n| Duration::from_micros(250) * n;
        let threads: Vec<_> = (0..PAIRS)
            .flat_map(|n| [ending(&end, Duration::ZERO, false), ending(&end, later(n), true)])
            .map(|(tid, thread)| {
                let vcpu = sensor.adopt_stand_in(tid, std::process::id()).unwrap();
                assert!(vcpu.set_ready());
                (vcpu, thread)
            })
            .collect();
        end.set(Instant::now() + Duration::from_millis(300));
        let mut vcpus = Vec::new();
        for (vcpu, thread) in threads {
            thread.join().unwrap();
            vcpus.push(vcpu);
        }
        // A thread can be joined before it is switched out for the last time.
        thread::sleep(SETTLE);
        let missed = vcpus.iter().filter(|vcpu| vcpu.life() != Life::Gone).count();
        assert_eq!(missed, 0, "of {} ends", vcpus.len());
        ring.consume().unwrap();
        let gone = log.borrow().iter().filter(|message| message.kind == PC_MSG_GONE).count();
        assert_eq!(gone, vcpus.len(), "one message each");
        for vcpu in &vcpus {
            sensor.release(vcpu).unwrap();
        }
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn observe_mode_decides_and_tells_nobody() {
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    let thread = StandIn::start(Work::Sleep);
    let observe = pc_boost_config { mode: paracord_sensor::policy::PC_MODE_OBSERVE, ..defaults() };
    assert_ne!(observe.mode, PC_MODE_ON);
    let vcpu = adopt(&sensor, &thread, observe, pc_vcpu_setup::default());
    thread::sleep(SETTLE);
    ring.consume().unwrap();
    assert!(vcpu.counters().boosts[0] > 0);
    assert!(log.borrow().is_empty(), "{:?}", log.borrow());
}

/// Simulates VM exits of the calling thread for the given time. The thread must have been adopted.
/// `each` is called before every exit.
fn exits(sensor: &Sensor, length: Duration, mut each: impl FnMut(u32)) {
    let program = sensor.program("sensor_exit").unwrap();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < length {
        each(count);
        program.test_run(libbpf_rs::ProgramInput::default()).unwrap();
        count += 1;
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn what_a_guest_asks_for_is_read_at_exits_and_told_seldom() {
    let sensor = sensor();
    let (ring, log) = listen(&sensor);
    // The guest line. perf_request and perf_limit follow the mask of preempt_count.
    let line: [AtomicU64; 8] = Default::default();
    let say = |request: u64, limit: u64| {
        line[2].store(request << 32 | limit << 48, Ordering::Relaxed);
    };
    pin(0);
    // SAFETY: the system call takes no arguments.
    let tid = u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap();
    let vcpu = sensor.adopt_stand_in(tid, std::process::id()).unwrap();
    let setup = pc_vcpu_setup {
        slot_hva: line.as_ptr() as u64,
        guest_line_bytes: 64,
        guest_requests: 1,
        ..pc_vcpu_setup::default()
    };
    vcpu.set_setup(setup);
    // From the next context switch on, the sensor knows that the thread runs.
    thread::sleep(Duration::from_millis(1));
    let asked = || {
        ring.consume().unwrap();
        let asks = |message: &pc_msg| (message.kind == PC_MSG_ASKS).then_some(message.asks);
        log.borrow_mut().drain(..).filter_map(|message| asks(&message)).collect::<Vec<u32>>()
    };

    say(600, 800);
    exits(&sensor, Duration::from_millis(20), |_| ());
    assert_eq!(vcpu.guest_request(), Some((600, 800)));
    assert_eq!(asked(), [600 | 800 << 16]);
    // A change of less than a sixteenth causes no message, but the new value can still be read.
    say(650, 800);
    exits(&sensor, Duration::from_millis(20), |_| ());
    assert_eq!((vcpu.guest_request(), asked()), (Some((650, 800)), vec![]));
    // The guest changes its request as fast as it can. There is one message per 8 ms, and the last
    // value arrives.
    exits(&sensor, Duration::from_millis(80), |n| say(u64::from(n % 2) * 1000, 800));
    say(0, 0);
    exits(&sensor, Duration::from_millis(20), |_| ());
    let told = asked();
    assert!((2..=14).contains(&told.len()) && told.last() == Some(&0), "{told:?}");
    assert!(vcpu.counters().requests > 100, "{:?}", vcpu.counters());
    // The guest's requests are no longer honoured.
    say(900, 0);
    exits(&sensor, Duration::from_millis(20), |_| ());
    vcpu.set_setup(pc_vcpu_setup { guest_requests: 0, ..setup });
    exits(&sensor, Duration::from_millis(20), |_| ());
    assert_eq!((vcpu.guest_request(), asked()), (None, vec![900, 0]));
    // A line that is no longer mapped contains no request.
    vcpu.set_setup(setup);
    exits(&sensor, Duration::from_millis(20), |_| ());
    vcpu.set_setup(pc_vcpu_setup { slot_hva: 4096, ..setup });
    exits(&sensor, Duration::from_millis(20), |_| ());
    assert_eq!((vcpu.guest_request(), asked()), (Some((0, 0)), vec![900, 0]));
    assert!(vcpu.counters().guest_read_errors > 0);
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn whereabouts_follow_a_thread() {
    let sensor = sensor();
    let thread = StandIn::start(Work::Spin);
    let vcpu = adopt(&sensor, &thread, defaults(), pc_vcpu_setup::default());
    thread::sleep(SETTLE);
    let mut found = Vec::new();
    let result = sensor.whereabouts(&[vcpu.index(); 20], |index, place| found.push((index, place)));
    if !sensor.capabilities().whereabouts {
        println!("this kernel does not show where CPUs have their frequencies");
        return assert!(result.is_err());
    }
    result.unwrap();
    assert_eq!(found.len(), 20);
    assert!(
        found.iter().all(|(index, place)| *index == vcpu.index() && place.cpu == 0),
        "{found:?}"
    );
    assert!(found.iter().all(|(_, place)| place.frequency <= 1024), "{found:?}");
}

/// The verifier accepts both probes, if this kernel has KVM's functions and can trace functions.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn kvms_kicks_and_wakeups_are_watched_where_the_kernel_can() {
    let options = Options { without_kvm: true, watch_wake_ups: true, ..Options::default() };
    let sensor = Sensor::load(&options).unwrap();
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let functions = symbols.contains(" kvm_vcpu_wake_up");
    let tracer = Path::new("/sys/kernel/tracing/available_filter_functions").exists();
    let found = sensor.capabilities();
    println!("KVM's functions: {functions}, function tracer: {tracer}, {found:?}");
    let expected = functions && tracer && found.kvm_btf;
    assert_eq!((found.kick.is_some(), found.wake_ups), (expected, expected));
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn an_overflow_rings_on_the_cpu_of_its_vcpu() {
    let sensor = sensor();
    let rung = RefCell::new(Vec::new());
    let bell = sensor.bell(0, |index| rung.borrow_mut().push(index)).unwrap();
    let other =
        sensor.bell(1, |_| panic!("the thread is bound to CPU 0, so CPU 1 must not ring")).unwrap();
    let thread = StandIn::start(Work::Spin);
    let _settled = adopt(&sensor, &thread, defaults(), pc_vcpu_setup::default());
    let spinner = StandIn::start(Work::Spin);
    let vcpu = adopt(&sensor, &spinner, defaults(), pc_vcpu_setup::default());
    // PERF_COUNT_SW_TASK_CLOCK
    let attr = PerfAttr {
        kind: perf::kind::SOFTWARE,
        config: 1,
        sample_period: 5_000_000,
        ..PerfAttr::default()
    };
    let event = PerfEvent::open(spinner.tid, &attr).unwrap();
    let listener = Listener::Program(Arc::new(sensor.overflow_program().unwrap()));
    let mut overflows = Overflows::watch(&event, &listener).unwrap();
    event.enable().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while rung.borrow().len() < 3 {
        assert!(Instant::now() < deadline, "{:?}", rung.borrow());
        thread::sleep(Duration::from_millis(5));
        bell.consume().unwrap();
        other.consume().unwrap();
    }
    assert!(overflows.happened(), "the kernel has written its records");
    assert!(rung.borrow().iter().all(|index| *index == vcpu.index()), "{:?}", rung.borrow());
    event.disable().unwrap();
    bell.consume().unwrap();
    let before = rung.borrow().len();
    thread::sleep(SETTLE);
    bell.consume().unwrap();
    assert_eq!(rung.borrow().len(), before);
}
