// SPDX-License-Identifier: GPL-2.0-only
//! Each mistake in a mix gives one line that names the file, the line number, the mistake, and what
//! to write instead.

use paracord_sim::mix::Mix;

/// Two valid lines at the beginning, so that the line of a case is line 3.
const HEAD: &str = "machine cpus=4 smt=2\nrun 8s\n";

fn error(text: &str) -> String {
    let line = Mix::parse("m.mix", text).expect_err(text).to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// The text after [`HEAD`] is refused, with one line that contains all of these words.
fn refused(body: &str, line: usize, words: &[&str]) {
    let said = error(&format!("{HEAD}{body}"));
    assert!(said.starts_with(&format!("m.mix:{line}: ")), "{body:?} gave {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{body:?} gave {said}");
    assert!(said.contains(';'), "no remedy: {said}");
}

#[test]
fn unknown_words_and_keys_have_a_suggestion() {
    refused("grup web", 3, &["unknown word 'grup'", "did you mean group?"]);
    refused("\n# x\nfrobnicate", 5, &["unknown word 'frobnicate'", "begin a line with one of"]);
    refused("group web wieght=1", 3, &["unknown key 'wieght'", "did you mean weight?"]);
    refused("task a : rum 1ms", 3, &["unknown phase 'rum'", "did you mean run?"]);
    refused("task a policy=btach : run 1ms", 3, &["unknown policy", "did you mean batch?"]);
    refused("vm a guest=spn", 3, &["unknown guest", "did you mean spin?"]);
    refused("queue work\ntask a : wait wrok", 4, &["no queue 'wrok'", "did you mean work?"]);
    refused("task a group=web : run 1ms", 3, &["no group 'web'", "begins with group"]);
    refused("task a : lock big", 3, &["no lock 'big'", "declare it"]);
    refused("task a : fork b, run 1ms", 3, &["no task 'b'", "declare it"]);
    refused("kernel 6.18", 3, &["unknown kernel", "7.3 or 6.12"]);
    refused("scheduler stok", 3, &["did you mean stock?"]);
    refused("at 1s goup web weight=1", 3, &["unknown change", "did you mean group?"]);
    refused("at 1s task a nice=1", 3, &["no task 'a'"]);
    refused("group g\nat 1s group g idle=maybe", 4, &["idle", "yes, no"]);
    refused("task \u{1b}[31m : run 1ms", 3, &["\\u{1b}", "is not a name"]);
}

#[test]
fn doubled_and_missing_words() {
    refused("machine cpus=2", 3, &["machine stands in line 1 already"]);
    refused("seed 1\nseed 2", 4, &["seed stands in line 3 already"]);
    refused("group g\ngroup g", 4, &["group g is declared in line 3 already"]);
    refused("task t : run 1ms\n\ntask t : run 1ms", 5, &["task t is declared in line 3 already"]);
    refused("task t : run 1ms\nvm t", 4, &["both called t"]);
    refused("group g weight=1 weight=2", 3, &["weight is given twice"]);
    refused("group g weight=", 3, &["weight lacks its value", "weight=100"]);
    refused("group g weight = 5", 3, &["weight lacks its value", "weight=100"]);
    refused("group g idle=yes", 3, &["idle has no value", "write only idle"]);
    refused("group", 3, &["group lacks its name"]);
    refused("queue", 3, &["queue lacks its name"]);
    refused("queue a b", 3, &["'b' is one word too many"]);
    refused("task t", 3, &["no phases", "colon"]);
    refused("task t :", 3, &["no phase after the colon"]);
    refused("task t : run 1ms,, exit", 3, &["an empty phase"]);
    refused("task t : run", 3, &["run lacks its value", "run 1ms"]);
    refused("task t : run 1ms exit", 3, &["'exit' is one word too many", "comma"]);
    refused("task t : exit now", 3, &["'now' is one word too many"]);
    refused("queue q\ntask t : run 1ms, post q soon", 4, &["post QUEUE sync"]);
    refused("irq every=1ms for=1us", 3, &["cpu is missing"]);
    refused("irq cpu=0 for=1us", 3, &["every is missing", "every=1ms"]);
    refused("vm v guest=periodic busy=1ms", 3, &["period is missing"]);
    refused("vm v period=1ms", 3, &["period belongs to guest=periodic"]);
    refused("at 1s", 3, &["at lacks its name", "at 2s group web"]);
    refused("group g\nat 1s group g", 4, &["without a change"]);
    refused("group g\nat 1s group g burst=1ms", 4, &["burst without a quota"]);
    assert!(error("run 1s\n").contains("no machine line in the file; write for example"));
    assert!(error("machine cpus=1\n").contains("no run line in the file; write for example"));
    assert!(error("").starts_with("m.mix:1: "));
    assert!(error("machine smt=1").contains("cpus is missing"));
}

#[test]
fn times_and_numbers() {
    refused("task t : run -1ms", 3, &["times are not negative", "1ms"]);
    refused("task t : run 5", 3, &["'5' has no unit", "ns, us, ms or s"]);
    refused("task t : run 1..3ms", 3, &["'1' has no unit"]);
    refused("task t : run 3ms..1ms", 3, &["ends before it begins", "write 1ms..3ms"]);
    refused("task t : run 0ms", 3, &["run of no time"]);
    refused("task t : sleep forever", 3, &["only run can be forever"]);
    refused("task t : run 99999999999s", 3, &["too long", "3600s"]);
    refused("task t start=8s : run 1ms", 3, &["start=8s is after the end"]);
    refused("task t nice=20 : run 1ms", 3, &["nice=20", "from -20 to 19"]);
    refused("task t nice=-21 : run 1ms", 3, &["nice=-21", "from -20 to 19"]);
    refused("task t count=0 : run 1ms", 3, &["count=0", "from 1 to 100000"]);
    refused("task t count=1e3 : run 1ms", 3, &["not a whole number"]);
    refused("task t count=99999999999999999999 : run 1ms", 3, &["too large"]);
    refused("task t policy=fifo : run 1ms", 3, &["lacks its priority", "policy=fifo prio=50"]);
    refused("task t policy=rr prio=100 : run 1ms", 3, &["prio=100", "from 1 to 99"]);
    refused("task t prio=1 : run 1ms", 3, &["prio without a real-time policy"]);
    refused("seed -1", 3, &["is not a seed"]);
    refused("irq cpu=0 every=1ms for=1ms", 3, &["all of CPU 0's time"]);
    assert!(error("machine cpus=1\nrun 3601s").contains("too long"));
    assert!(error("machine cpus=1\nrun 0s").contains("m.mix:2: run=0ns is out of range"));
    assert!(error("machine cpus=1\nrun 1s warmup=1s").contains("leaves nothing to measure"));
}

#[test]
fn a_machine_agrees_with_itself() {
    for (machine, words) in [
        ("cpus=0", "from 1 to 1024"),
        ("cpus=1025", "from 1 to 1024"),
        ("cpus=6 smt=4", "does not divide by smt=4 times caches=1; write a multiple of 4"),
        ("cpus=8 smt=3", "write smt=1, smt=2 or smt=4"),
        ("cpus=8 smt=2 caches=3", "write a multiple of 6"),
        ("cpus=8 caches=4 nodes=3", "caches=4 does not divide by nodes=3"),
        ("cpus=8 capacity=1024*4,400*3", "capacity names 7 CPUs of cpus=8"),
        ("cpus=8 capacity=2000*8", "from 1 to 1024"),
        ("cpus=8 capacity=1*1024,1*1024,1", "more than 1024 CPUs"),
        ("cpus=1 hz=50", "from 100 to 1000"),
        ("cpus=1 switch=1s", "switch=1s is out of range"),
    ] {
        let said = error(&format!("machine {machine}\nrun 1s"));
        assert!(said.starts_with("m.mix:1: ") && said.contains(words), "{machine}: {said}");
    }
}

#[test]
fn groups_are_what_the_kernel_takes() {
    refused("group a/b", 3, &["the parent a is not declared", "write group a"]);
    refused("group a/b\ngroup a", 3, &["declared later, in line 4", "parents first"]);
    refused("group /a", 3, &["without outer slashes"]);
    refused("group a//b", 3, &["is not a name"]);
    refused("group a weight=0", 3, &["weight=0", "from 1 to 10000"]);
    refused("group a weight=10001", 3, &["weight=10001", "from 1 to 10000"]);
    refused("group a quota=30ms", 3, &["no period", "quota=30ms/100ms"]);
    refused("group a quota=999us/100ms", 3, &["the kernel refuses a quota below 1ms"]);
    refused("group a quota=1ms/999us", 3, &["the kernel refuses a period", "1ms to 1s"]);
    refused("group a quota=1ms/1.1s", 3, &["the kernel refuses a period", "1ms to 1s"]);
    refused("group a quota=2ms/10ms burst=3ms", 3, &["refuses a burst of 3ms", "at most 2ms"]);
    refused("group a quota=1.0005ms/10ms", 3, &["whole microseconds"]);
    refused("group a burst=1ms", 3, &["burst without a quota"]);
    refused("group a quota=max burst=1ms", 3, &["burst without a limit"]);
    refused("group a idle\nat 1s group a weight=5", 4, &["refuses a weight for the idle group"]);
}

#[test]
fn cpus_and_their_hotplug() {
    refused("task t cpus=4 : run 1ms", 3, &["no CPU 4", "from 0 to 3"]);
    refused("task t cpus=a : run 1ms", 3, &["not a list of CPUs", "cpus=0-3,8"]);
    refused("vm v cpus=0-9", 3, &["no CPU 4"]);
    refused("irq cpu=4 every=1ms for=1us", 3, &["no CPU 4"]);
    refused("at 1s offline 4", 3, &["no CPU 4"]);
    refused("at 1s online 1", 3, &["CPU 1 is online already"]);
    refused("at 1s offline 1\nat 2s offline 1", 4, &["CPU 1 is offline already"]);
    let all = "at 1s offline 0\nat 4s offline 3\nat 3s offline 2\nat 2s offline 1";
    refused(all, 4, &["CPU 3 is the last one online"]);
    refused("at 8s offline 1", 3, &["8s is after the end", "before 8s"]);
    refused("task t : run 1ms\nat 1s task t cpus=7", 4, &["no CPU 7"]);
}

#[test]
fn programs_take_time_and_end() {
    let endless = "the run never ends";
    refused("task t : yield", 3, &[endless, "add run 1ms"]);
    refused("group g\ntask t : group g", 4, &[endless]);
    refused("lock l\ntask t : lock l, unlock l", 4, &[endless]);
    refused("queue q\ntask t : post q", 4, &[endless]);
    refused("queue q\ntask t : wait q, post q", 4, &["takes no time itself", "add run 1us"]);
    refused("task t : exit, run 1ms", 3, &["what follows exit never happens"]);
    refused("task t : run forever, exit", 3, &["what follows run forever never happens"]);
    refused("lock l\ntask t : run 1ms, unlock l", 4, &["unlock l does not hold it"]);
    refused("lock l\ntask t : lock l, run 1ms, exit", 4, &["exits with lock l held"]);
    refused("lock l\ntask t : lock l, run 1ms", 4, &["begins anew with lock l held"]);
    refused("lock l\ntask t : lock l, run forever", 4, &["runs forever with lock l held"]);
    refused("lock l\ntask t : lock l, lock l, run 1ms", 4, &["waits for itself"]);
    let long = format!("task t : run 1ms{}", ", run 1ms".repeat(256));
    refused(&long, 3, &["257 phases are too many", "at most 256"]);
}

#[test]
fn forks_stay_bounded() {
    let first = "task first : fork link, exit\ntask link template ";
    refused("task t template : run 1ms, exit", 3, &["no task forks the template t"]);
    refused("task t template : run 1ms, fork t, exit", 3, &["no task forks the template t"]);
    refused("task a : fork b, run 1ms\ntask b : exit", 3, &["b is not a template"]);
    refused(&format!("{first}count=2 : run 1ms, exit"), 4, &["leave count and start out"]);
    let more = "so that there are ever more";
    refused(&format!("{first}: run 1ms, fork link, fork link, exit"), 4, &[more, "one fork"]);
    refused(&format!("{first}: run 1ms, fork link"), 4, &[more, "add exit"]);
    refused(&format!("{first}: run 1ms, fork link, run forever"), 4, &[more, "add exit"]);
    refused(&format!("{first}: fork link, exit"), 4, &["the chain of forks takes no time"]);
    refused(&format!("{first}: fork link, run 1ms, exit"), 4, &["takes no time"]);
    // A chain over two templates, and a loop that starts tasks that do not end.
    let two = "task b template : run 1ms, fork link, fork link, exit";
    refused(&format!("{first}: run 1ms, fork b, exit\n{two}"), 5, &[more]);
    let again = "task w : run 1ms, fork v\ntask v template : run forever";
    refused(again, 4, &["v is forked again and again and does not end"]);
    let deep: String = (0..17)
        .map(|n| format!("task t{n} template : run 1ms, fork t{0}, fork t{0}, exit\n", n + 1))
        .collect();
    let tree = format!("task t : fork t0, exit\n{deep}task t17 template : exit");
    refused(&tree, 3, &["tasks with their forks", "at most 100000"]);
}

#[test]
fn limits() {
    refused("task a count=60000 : run 1ms\ntask b count=60000 : run 1ms", 4, &["120000", "100000"]);
    refused("vm v count=5 vcpus=4096", 3, &["vCPUs: 20480", "16384"]);
    refused("vm v exits=200000", 3, &["from 0 to 100000"]);
    let groups: String = (0..=20_000).map(|n| format!("group g{n}\n")).collect();
    refused(&groups, 20_003, &["groups: 20001", "20000"]);
    refused(&"x".repeat(100_001), 3, &["100001 bytes", "at most 100000"]);
    refused(&format!("group {}", "x".repeat(65)), 3, &["is not a name", "up to 64"]);
    refused(&"group ".repeat(10_000), 3, &["unknown key"]);
}

#[test]
fn a_long_chain_of_templates_is_walked_without_recursion() {
    let links: String = (1..60_000)
        .map(|n| format!("task t{n} template : run 1ms, fork t{}, exit\n", n + 1))
        .collect();
    let text = format!(
        "{HEAD}task t : fork t1, exit\n{links}task t60000 template : run 1ms, fork t1, exit\n"
    );
    assert_eq!(Mix::parse("m.mix", &text).map(|mix| mix.tasks.len()), Ok(60_001));
}

#[test]
fn a_file_that_is_none_is_named() {
    let said = paracord_sim::mix::load("/nonexistent.mix".as_ref()).expect_err("none").to_string();
    assert!(said.starts_with("/nonexistent.mix:1: cannot be read"), "{said}");
    let said = paracord_sim::mix::load("/dev".as_ref()).expect_err("a folder").to_string();
    assert!(said.contains("not a regular file"), "{said}");
    let said = paracord_sim::mix::parse_bytes("m.mix", b"run 1s\n\xff").expect_err("no text");
    assert_eq!(said.to_string(), "m.mix:2: not UTF-8 text; write a text file");
}
