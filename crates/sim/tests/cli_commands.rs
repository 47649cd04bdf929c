// SPDX-License-Identifier: GPL-2.0-only
//! The program as a user or a script sees it: tables, files, one line per error, exit codes.
#![allow(clippy::unwrap_used, reason = "a failed assumption of a test fails it")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const LOOPS: &str = "machine cpus=2\nrun 200ms warmup=20ms\ntask loop count=3 : run forever\n\
                     task nap : run 1ms, sleep 5ms\nvm guest vcpus=1 guest=periodic period=10ms \
                     busy=1ms\n";

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paracord-sim")).args(args).output().unwrap()
}

fn stdout(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

fn stderr(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

/// A directory with a mix in it, and the mix's path.
fn mix(text: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("loops.mix");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// The command must fail with exit code 2 and one line that begins with the program's name.
fn refuses(args: &[&str], says: &[&str]) {
    let o = sim(args);
    let error = stderr(&o);
    assert_eq!(o.status.code(), Some(2), "{args:?}: {error}");
    assert!(error.starts_with("paracord-sim: ") && error.lines().count() == 1, "{error}");
    assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    for s in says {
        assert!(error.contains(s), "{args:?}: {s:?} not in {error}");
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_run_says_what_each_kind_had_and_always_the_same() {
    let (_directory, file) = mix(LOOPS);
    let o = sim(&["run", &file]);
    let text = stdout(&o);
    assert_eq!(o.status.code(), Some(0), "{text}{}", stderr(&o));
    assert!(o.stderr.is_empty(), "no terminal, no progress: {}", stderr(&o));
    let title =
        "loops: ext, 2 CPUs, 4 tasks, 1 vCPU, kernel 7.3, seed 1, 0.2 s, shares from 0.02 s";
    assert!(text.starts_with(title), "{text}");
    for kind in ["loop ", "nap ", "guest "] {
        assert!(text.lines().any(|line| line.starts_with(kind)), "{kind} in {text}");
    }
    assert_eq!(stdout(&sim(&["run", &file])), text);
    let other = stdout(&sim(&["run", &file, "--seed", "7", "--kernel", "6.12"]));
    assert!(other.contains("kernel 6.12, seed 7"), "{other}");
}

#[test]
fn results_are_of_the_labs_schema() {
    let (directory, file) = mix(LOOPS);
    let out = directory.path().join("out");
    let o = sim(&["run", &file, "--json", "-", "--out", out.to_str().unwrap()]);
    let data = json(&stdout(&o));
    assert_eq!((&data["schema"], &data["host"]), (&1.into(), &"simulated".into()));
    assert_eq!((&data["scenario"], &data["partial"]), (&"loops".into(), &false.into()));
    let results = data["results"].as_array().unwrap();
    let loops = results.iter().find(|one| one["metric"] == "cpu_loop_share").unwrap();
    assert!((1.0..=2.0).contains(&loops["median"].as_f64().unwrap()), "{loops}");
    assert_eq!(data["verdicts"][0]["name"], "ext_faults");
    assert_eq!(data["verdicts"][0]["status"], "pass");
    let written = std::fs::read_to_string(out.join("results.json")).unwrap();
    assert_eq!(written, stdout(&o));
    let again = out.join("loops.mix");
    let again = sim(&["run", again.to_str().unwrap(), "--json", "-"]);
    assert_eq!(stdout(&again), stdout(&o), "the mix that was saved runs like the first one");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn a_comparison_names_the_task_that_differs_most() {
    let (_directory, file) = mix(LOOPS);
    let text = stdout(&sim(&["compare", &file]));
    assert!(text.starts_with("loops: ext and stock, 2 CPUs"), "{text}");
    assert!(text.contains("EXT CPU %  STOCK CPU %  DIFFERENCE"), "{text}");
    assert!(text.contains("\nlargest difference: "), "{text}");
    let data = json(&stdout(&sim(&["compare", &file, "--json", "-"])));
    let configs = data["verdicts"].as_array().unwrap().iter().map(|one| one["name"].as_str());
    assert_eq!(configs.collect::<Vec<_>>(), [Some("ext_faults"), Some("stock_faults")]);
}

#[test]
fn wrong_files_and_arguments_are_one_line() {
    let (_directory, file) = mix("machine cpus=2\nrun 1s\ntsk hog : run forever\n");
    for command in ["run", "compare", "check"] {
        refuses(&[command, &file], &[&format!("{file}:3: "), "did you mean task?"]);
    }
    refuses(&["run", "/nonexistent.mix"], &["/nonexistent.mix", "cannot be read"]);
    refuses(&["run"], &["FILE"]);
    refuses(&["comprae", &file], &["comprae", "compare"]);
    refuses(&["run", &file, "--kernel", "5.4"], &["5.4", "6.12"]);
    refuses(&["random", "--cpus", "0"], &["1..=1024"]);
    refuses(&["random", "--seed", "-1"], &["-1"]);
}

#[test]
fn output_that_cannot_be_written_is_one_line_before_the_run() {
    let (directory, file) = mix(LOOPS);
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for option in ["--trace", "--json"] {
        let path = at("missing/file");
        refuses(&["run", &file, option, &path], &[&path, "cannot be written"]);
        refuses(&["run", &file, option, &at("")], &["cannot be written"]);
    }
    refuses(&["run", &file, "--out", &file], &[&file, "cannot be written"]);
    refuses(&["random", "--write", &at("missing/a.mix")], &["cannot be written"]);
    if Path::new("/dev/full").exists() {
        for option in ["--trace", "--json"] {
            refuses(&["run", &file, option, "/dev/full"], &["/dev/full: cannot be written"]);
        }
    }
}

#[test]
fn check_reads_all_files() {
    let (directory, file) = mix(LOOPS);
    let bad = directory.path().join("bad.mix");
    std::fs::write(&bad, "machine cpus=2\n").unwrap();
    let o = sim(&["check", bad.to_str().unwrap(), &file]);
    assert_eq!(o.status.code(), Some(2));
    assert_eq!(stderr(&o).lines().count(), 1, "{}", stderr(&o));
    assert!(stdout(&o).ends_with(": ok\n"), "{}", stdout(&o));
    let mixes = Path::new(env!("CARGO_MANIFEST_DIR")).join("mixes");
    let listed =
        |directory: &Path| std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
    for mix in listed(&mixes.join("lab")).chain(listed(&mixes).filter(|path| path.is_file())) {
        let o = sim(&["check", mix.to_str().unwrap()]);
        assert!(o.status.success(), "{}", stderr(&o));
        // `make sim` prints this line.
        let text = std::fs::read_to_string(&mix).unwrap();
        assert!(text.starts_with("# "), "{}: the first line says what it is for", mix.display());
    }
}

/// The first code block after a heading of docs/simulator.md.
fn documented(heading: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split_once(heading).unwrap().1;
    section.split("```").nth(1).unwrap().trim_start_matches('\n').to_owned()
}

#[test]
fn the_documents_example_is_a_mix() {
    let (_directory, file) = mix(&documented("## The text format"));
    let o = sim(&["check", &file]);
    assert!(o.status.success(), "{}", stderr(&o));
}

#[test]
fn drawn_mixes_are_run_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drawn.mix");
    let path = path.to_str().unwrap();
    let o = sim(&["random", "--seed", "1", "--cpus", "2", "--write", path]);
    let text = stdout(&o);
    assert!(text.starts_with("seed 1: 2 CPUs, "), "{text}{}", stderr(&o));
    let checked = stdout(&sim(&["check", path]));
    assert!(checked.contains(": 2 CPUs, ") && checked.ends_with(": ok\n"), "{checked}");
}

#[test]
fn help_names_commands_and_exit_codes() {
    for args in [&["--help"][..], &["help"]] {
        let o = sim(args);
        assert!(o.status.success());
        for word in ["run", "compare", "random", "check", "130 interrupted"] {
            assert!(stdout(&o).contains(word), "{word}");
        }
    }
    for command in ["run", "compare", "random", "check"] {
        assert!(sim(&[command, "--help"]).status.success(), "{command}");
    }
}

#[test]
fn a_closed_pipe_ends_output_quietly() {
    let (_directory, file) = mix(LOOPS);
    let mut child = Command::new(env!("CARGO_BIN_EXE_paracord-sim"))
        .args(["run", &file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert!(o.stderr.is_empty() && o.status.code() == Some(0), "{o:?}");
}

#[test]
fn a_plan_is_the_mix_in_numbers_and_says_what_cannot_be_played() {
    let text = "machine cpus=2\nrun 2s warmup=1s\nseed 7\ngroup a quota=30ms/100ms\ngroup a/b idle\n\
                queue pipe\nqueue counter\nlock big\n\
                task one count=3 group=a/b nice=-5 cpus=1 : run 1ms..2ms, post pipe sync, wait counter\n\
                task two policy=rr prio=7 start=1s : post counter, fork leaf, lock big, unlock big, run 1us, sleep 1ms\n\
                task leaf template : run 3ms, exit\nat 1s task one group=/\nat 1500ms offline 1\n";
    let (_directory, file) = mix(text);
    let o = sim(&["plan", &file]);
    let said = "plan 1 2 7\nrun 2000000000 1000000000\n\
                group a 100 30000000 100000000 0 0\ngroup a/b 100 -1 100000000 0 1\n\
                queue pipe\nqueue counter\nlock\n\
                task one 3 1 other 0 -5 0 1\n\
                phase run 1000000 2000000\nphase post 0\nphase wait 1\n\
                task two 1 -1 rr 7 0 1000000000 *\n\
                phase post 1\nphase fork 2\nphase lock 0\nphase unlock 0\nphase run 1000 1000\n\
                phase sleep 1000000 1000000\n\
                task leaf 0 -1 other 0 0 0 *\nphase run 3000000 3000000\nphase exit\n\
                at 1000000000 group 0 -1\nat 1500000000 online 1 0\n";
    assert_eq!(stdout(&o), said, "{}", stderr(&o));
    let (_directory, file) =
        mix("machine cpus=1\nrun 1s\ngroup a\ngroup a/b\ntask x group=a : run forever\n");
    refuses(&["plan", &file], &["group a has groups and tasks in it", "a group below it"]);
    let (_directory, file) =
        mix("machine cpus=1\nrun 1s\ntask a : run forever\nirq cpu=0 every=1ms for=1us\n");
    refuses(&["plan", &file], &["loops.mix: irq lines cannot be played", "leave them out"]);
}

/// The seed decides which CPU continues at which point. The same mix always overlaps in the same
/// way, and gives other results than without races.
#[test]
fn races_are_repeated_by_their_seed() {
    let run = |args: &[&str]| {
        let o = sim(args);
        assert_eq!(o.status.code(), Some(0), "{}{}", stdout(&o), stderr(&o));
        stdout(&o)
    };
    let random = ["random", "--seed", "3", "--cpus", "2"];
    let races = run(&[&random[..], &["--races"]].concat());
    assert_eq!(races, run(&[&random[..], &["--races"]].concat()));
    assert_ne!(races, run(&random));
    let (_directory, file) = mix(LOOPS);
    assert_eq!(run(&["run", "--races", &file]), run(&["run", "--races", &file]));
    refuses(&["run", "--races", "--scheduler", "stock", &file], &["only paracord's scheduler"]);
}

#[test]
fn contract_says_which_limits_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("results.json");
    let o = sim(&[
        "contract",
        "--cpus",
        "2",
        "--only",
        "idle_group_share",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!((o.status.code(), stderr(&o).as_str()), (Some(0), ""));
    assert!(
        stdout(&o).starts_with("CASE ") && stdout(&o).ends_with("\n1 passed, 0 failed\n"),
        "{}",
        stdout(&o)
    );
    let results: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(results["verdicts"][0]["name"], "idle_group_share_2_cpus");
    refuses(&["contract", "--only", "fairness"], &["no case is called", "fairness_vs_stock"]);
}

/// Quotas, idle groups, forks, weights and eight random mixes: everything that `docs/simulator.md`
/// says about two CPUs.
#[test]
fn contract_is_kept_on_two_cpus() {
    let o = sim(&["contract", "--cpus", "2"]);
    assert_eq!(o.status.code(), Some(0), "{}{}", stdout(&o), stderr(&o));
    assert!(
        stdout(&o).contains("quota_ejections  ")
            && stdout(&o).contains("fairness_vs_stock, seed 8 ")
    );
    let o = sim(&["contract", "--cpus", "2", "--seconds", "20", "--only", "quota_ejections"]);
    assert!(
        stdout(&o).ends_with("\n1 passed, 0 failed\n"),
        "the kernel does not unload a scheduler so soon: {}",
        stdout(&o)
    );
}

/// The lab plays these mixes. There, a mix that no machine can play would be noticed only after an
/// hour.
#[test]
fn contract_writes_mixes_that_can_be_played_and_judges_what_was() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    let o = sim(&["contract", "--cpus", "2,4", "--seconds", "4", "--write", at]);
    assert_eq!((o.status.code(), stdout(&o).as_str()), (Some(0), ""), "{}", stderr(&o));
    let mut written: Vec<_> =
        std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    written.sort();
    assert!(written.len() > 50, "{written:?}");
    for mix in &written {
        let o = sim(&["plan", mix.to_str().unwrap()]);
        assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    }
    let only = ["contract", "--cpus", "2", "--only", "idle_group_share", "--played", at];
    refuses(&only, &["idle_group_share-1-2.ext.json", "No such file"]);
    for (scheduler, behind) in [("ext", 40), ("stock", 4)] {
        let said = format!(
            r#"{{"measured_ns": 1000, "kinds": [{{"name": "behind", "ran_ns": {behind}}}, {{"name": "front", "ran_ns": 1960}}]}}"#
        );
        std::fs::write(
            directory.path().join(format!("idle_group_share-1-2.{scheduler}.json")),
            said,
        )
        .unwrap();
    }
    let o = sim(&[&only[..], &["--json", "-"]].concat());
    let results: serde_json::Value = serde_json::from_str(&stdout(&o)).unwrap();
    assert_eq!(results["verdicts"][0]["beside"]["stock"], 0.002);
    let o = sim(&only);
    assert_eq!(o.status.code(), Some(1), "{}", stderr(&o));
    let row: Vec<String> =
        stdout(&o).lines().nth(1).unwrap().split_whitespace().map(str::to_owned).collect();
    assert_eq!(row, ["idle_group_share", "2", "0.020", "0.002", "0.020", "<=", "0.01", "FAIL"]);
}
