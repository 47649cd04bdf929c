// SPDX-License-Identifier: GPL-2.0-only
//! Helpers do the same as the kernel's helpers, also where the programs of bpf/ do not depend on it
//! (yet).

use paracord_sim::{bpf, mix::Mix, run::Simulation};

fn simulation(text: &str) -> Simulation {
    Simulation::new(Mix::parse("helpers", text).expect("a mix")).expect("memory")
}

/// The scheduler has one timer, which restarts itself every second.
#[test]
fn a_timer_that_is_started_again_is_moved() {
    let events = |restart: bool| {
        let mut idle = simulation("machine cpus=1\nrun 10s\n");
        idle.run_until(1_500_000_000);
        if restart {
            idle.with(|k| {
                let at = k.at();
                assert_eq!(bpf::restart_timer(k, at, 100_000_000), 0);
            });
        }
        idle.run_until(1_900_000_000);
        let before = idle.outcome().events;
        idle.run_until(9_900_000_000);
        idle.outcome().events - before
    };
    let once = events(false);
    // The event of the cancelled timer still happens, but does nothing.
    assert!((once..=once + 1).contains(&events(true)), "{} and {}", once, events(true));
}

#[test]
fn an_update_of_an_array_is_found_there() {
    let mut simulation = simulation("machine cpus=1\nrun 10s\n");
    simulation.with(|k| {
        let at = k.at();
        assert_eq!(bpf::update_array(k, at, 3, 77), 77);
        assert_eq!(bpf::update_array(k, at, 4, 77), -7, "E2BIG");
    });
}

/// If races are enabled, each helper is a point at which another CPU may continue.
#[test]
fn helpers_are_points_of_races() {
    let mut simulation = simulation("machine cpus=1\nrun 10s\n");
    simulation.with(|k| {
        k.race();
        let at = k.at();
        bpf::ten_points(k, at, 0);
        assert_eq!(k.race_points(), 10);
        // The two points are a look-up and the start of the timer.
        bpf::restart_timer(k, at, 1_000_000);
        assert_eq!(k.race_points(), 12);
    });
}

#[test]
fn a_read_that_fails_zeroes_and_a_string_counts_its_nul() {
    let mut simulation = simulation("machine cpus=1\nrun 10s\n");
    simulation.with(|k| {
        let at = k.at();
        assert_eq!(bpf::failed_read(k, at), 0);
        assert_eq!(bpf::read_string(k, at, true), 4);
        assert_eq!(bpf::read_string(k, at, false), 8);
    });
}
