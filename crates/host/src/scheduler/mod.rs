// SPDX-License-Identifier: GPL-2.0-only
//! Whether paracord's scheduler has the host's ordinary tasks: as asked, or, with actuator `auto`, as long as it keeps all
//! that the host uses of the kernel's. That is looked at again while the daemon runs.

pub mod clamps;
pub mod imports;
pub mod performance;

use std::path::Path;
use std::time::{Duration, Instant};

use paracord_sensor::{Error as SensorError, Options, Sensor, scheduler::State};
use tracing::{info, warn};

use crate::doctor::Promises;
use crate::settings::{Mode, OwnScheduler};

/// What paracord's scheduler does not keep of what the kernel's keeps, for everything that runs (docs/ext.md).
const EXT_DOES_NOT_KEEP: &str = "actuator ext does not keep: core scheduling without hangs of the kernel (docs/ext.md); actuator rt keeps it";
const AUTO_IS_RT: &str = "actuator auto is rt";
/// How long all has to be kept before a host that lost something gets the scheduler again: nobody wants it to come and
/// go with a setting that is tried out.
const SETTLE: Duration = Duration::from_secs(30);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// As it is.
    Stay,
    /// It comes in force.
    Enter,
    /// The kernel's own has the tasks again.
    Leave,
}

/// The choice.
pub struct Choice {
    asked: OwnScheduler,
    promises: Promises,
    /// CPUs cannot be kicked on this kernel: quotas are not kept.
    no_kick: bool,
    /// Nothing that the host uses would be lost since then; `None`: something would.
    kept_since: Option<Instant>,
    /// Whether the first look has been.
    has_looked: bool,
    /// The kernel did not take it at the last try.
    is_refused: bool,
    /// It will not come again before the next start.
    given_up: bool,
    /// The object that is loaded has it.
    is_loaded: bool,
    /// Why it is not in force with `auto`, or what it does not keep.
    reason: Option<String>,
}

impl Choice {
    /// For the host below `root` (`/`).
    pub fn new(asked: OwnScheduler, root: &Path) -> Choice {
        Choice {
            asked,
            promises: Promises::of(root),
            no_kick: false,
            kept_since: None,
            has_looked: false,
            is_refused: false,
            given_up: false,
            is_loaded: false,
            reason: None,
        }
    }

    /// Loads the sensor, with the scheduler where that may come in force, now or later. With [`OwnScheduler::Always`] it
    /// is in force, if the kernel takes it.
    ///
    /// # Errors
    /// [`SensorError`]: not even the sensor can be loaded.
    pub fn load(&mut self, options: &Options) -> Result<Sensor, SensorError> {
        if self.asked == OwnScheduler::Never {
            return Sensor::load(options);
        }
        let loaded = Sensor::load(&Options { scheduler: true, ..options.clone() });
        let started = loaded.and_then(|sensor| {
            if self.asked == OwnScheduler::Always {
                sensor.start_scheduler()?;
            }
            Ok(sensor)
        });
        match started {
            Ok(sensor) => {
                self.is_loaded = true;
                self.no_kick = !sensor.capabilities().scheduler_kicks;
                if self.asked == OwnScheduler::Always {
                    warn!("{EXT_DOES_NOT_KEEP}");
                    let lost = self.lost();
                    self.tell(lost.map(|lost| {
                        format!("of what this host uses, actuator ext does not keep: {lost}")
                    }));
                }
                Ok(sensor)
            }
            Err(error @ (SensorError::NoKvm(_) | SensorError::NoBtf)) => Err(error),
            Err(error) => {
                if self.asked == OwnScheduler::Always {
                    warn!("no actuator ext here, going on with rt: {error}");
                } else {
                    self.refused(&error);
                }
                // There is nothing to start.
                self.given_up = true;
                Sensor::load(options)
            }
        }
    }

    /// Whether another one may be asked for without a restart: what is loaded stays.
    pub fn may_ask(&self, asked: OwnScheduler) -> bool {
        let chosen = |one| one != OwnScheduler::Always;
        asked == self.asked || (self.is_loaded && chosen(asked) && chosen(self.asked))
    }

    /// Another one is asked for, which [`may_ask`](Choice::may_ask) allows.
    pub fn ask(&mut self, asked: OwnScheduler) {
        self.asked = asked;
    }

    /// What is to be done now. It costs a dozen small files. `mode` is the bound for all VMs: where nothing is done for them,
    /// nothing is done to the host.
    pub fn look(&mut self, scheduler: &State, mode: Mode, now: Instant) -> Step {
        let in_force = *scheduler == State::Running;
        if let State::Ended { .. } = scheduler {
            self.given_up = true;
            let line = format!("{AUTO_IS_RT} until the next start: the kernel has unloaded ext");
            self.tell((self.asked == OwnScheduler::WhereKept).then_some(line));
        }
        match self.asked {
            OwnScheduler::Always => return Step::Stay,
            OwnScheduler::Never => {
                self.tell(None);
                return if in_force { Step::Leave } else { Step::Stay };
            }
            OwnScheduler::WhereKept if self.given_up => return Step::Stay,
            OwnScheduler::WhereKept => {}
        }
        let lost = match mode {
            Mode::On => {
                let of = |lost| format!("ext would not keep, of what this host uses: {lost}");
                self.lost().map(of)
            }
            Mode::Observe | Mode::Off => Some("nothing is boosted (mode)".to_owned()),
        };
        let step = self.decide(in_force, lost.is_none(), now);
        match lost {
            Some(lost) => self.tell(Some(format!("{AUTO_IS_RT}: {lost}"))),
            None if in_force => self.tell(None),
            // What the kernel said stays until it has taken the scheduler.
            None if step == Step::Stay && !self.is_refused => self.tell(Some(format!(
                "{AUTO_IS_RT}, and is ext within half a minute: all that this host uses is kept again"
            ))),
            None => {}
        }
        step
    }

    fn decide(&mut self, in_force: bool, kept: bool, now: Instant) -> Step {
        let first = !std::mem::replace(&mut self.has_looked, true);
        if !kept {
            (self.kept_since, self.is_refused) = (None, false);
            return if in_force { Step::Leave } else { Step::Stay };
        }
        let since = *self.kept_since.get_or_insert(now);
        if in_force || (!first && now.saturating_duration_since(since) < SETTLE) {
            return Step::Stay;
        }
        Step::Enter
    }

    fn lost(&mut self) -> Option<String> {
        let mut lost = self.promises.unkept();
        if self.no_kick {
            lost.push("CPU quotas (scx_bpf_kick_cpu() cannot be called on this kernel)".into());
        }
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// The kernel did not take it. Another scheduler may go: then it is tried again.
    pub fn refused(&mut self, error: &SensorError) {
        self.given_up = !matches!(error, SensorError::OtherScheduler(_));
        (self.kept_since, self.is_refused) = (None, true);
        self.tell(Some(format!("{AUTO_IS_RT}: {error}")));
    }

    fn tell(&mut self, reason: Option<String>) {
        if self.reason == reason {
            return;
        }
        self.reason = reason;
        match (&self.reason, self.asked) {
            (Some(line), OwnScheduler::Always) => warn!("{line}"),
            (Some(line), OwnScheduler::Never | OwnScheduler::WhereKept) => info!("{line}"),
            (None, _) => {}
        }
    }

    /// For `status`, each a line: why it is not in force with `auto`, or, where it is in force whatever the host uses, what
    /// it does not keep.
    pub fn conditions(&self, scheduler: &State) -> impl Iterator<Item = String> {
        let always = self.asked == OwnScheduler::Always;
        let in_force = *scheduler == State::Running;
        let all = (always && in_force).then(|| EXT_DOES_NOT_KEEP.to_owned());
        all.into_iter().chain(self.reason.clone().filter(|_| in_force || !always))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice::new(OwnScheduler::WhereKept, Path::new("/no-such-root"))
    }

    #[test]
    fn it_comes_at_once_at_the_start_and_goes_at_once() {
        let (mut choice, now) = (choice(), Instant::now());
        assert_eq!(choice.decide(false, true, now), Step::Enter);
        assert_eq!(choice.decide(true, true, now), Step::Stay);
        assert_eq!(choice.decide(true, false, now), Step::Leave);
        assert_eq!(choice.decide(false, false, now), Step::Stay);
    }

    #[test]
    fn it_comes_again_when_all_has_been_kept_for_a_while() {
        let (mut choice, now) = (choice(), Instant::now());
        assert_eq!(choice.decide(false, false, now), Step::Stay);
        assert_eq!(choice.decide(false, true, now), Step::Stay);
        assert_eq!(choice.decide(false, true, now + SETTLE / 2), Step::Stay);
        // A look in between that finds something lost: from the beginning.
        assert_eq!(choice.decide(false, false, now + SETTLE), Step::Stay);
        assert_eq!(choice.decide(false, true, now + SETTLE), Step::Stay);
        assert_eq!(choice.decide(false, true, now + SETTLE * 2), Step::Enter);
    }

    #[test]
    fn only_another_scheduler_is_waited_for() {
        let mut choice = choice();
        choice.refused(&SensorError::OtherScheduler("scx_simple".into()));
        assert!(
            !choice.given_up
                && choice.conditions(&State::Absent).any(|why| why.contains("scx_simple"))
        );
        choice.refused(&SensorError::NoSchedExt);
        assert!(choice.given_up);
        assert_eq!(choice.look(&State::Absent, Mode::On, Instant::now()), Step::Stay);
    }

    /// What ejected it would eject it again.
    #[test]
    fn it_does_not_come_again_after_the_kernel_has_unloaded_it() {
        let mut choice = choice();
        let ended = State::Ended { reason: "stall".into(), message: String::new() };
        assert_eq!(choice.look(&ended, Mode::On, Instant::now()), Step::Stay);
        assert_eq!(choice.look(&State::Absent, Mode::On, Instant::now()), Step::Stay);
    }

    #[test]
    fn what_was_asked_for_is_not_looked_at_again() {
        let mut choice = Choice::new(OwnScheduler::Always, Path::new("/no-such-root"));
        for state in [State::Running, State::Absent] {
            assert_eq!(choice.look(&state, Mode::Observe, Instant::now()), Step::Stay);
        }
        assert!(!choice.may_ask(OwnScheduler::Never));
    }

    #[test]
    fn where_nothing_is_boosted_the_host_keeps_its_scheduler() {
        for mode in [Mode::Observe, Mode::Off] {
            let (mut choice, now) = (choice(), Instant::now());
            assert_eq!(choice.look(&State::Running, Mode::On, now), Step::Stay);
            assert_eq!(choice.look(&State::Running, mode, now), Step::Leave);
            assert!(choice.conditions(&State::Absent).any(|line| line.ends_with("(mode)")));
            assert_eq!(choice.look(&State::Absent, Mode::On, now), Step::Stay);
            assert_eq!(choice.look(&State::Absent, Mode::On, now + SETTLE), Step::Enter);
        }
    }

    /// A reload: what is loaded stays, so that it can come and go.
    #[test]
    fn rt_may_be_asked_for_and_auto_again() {
        let mut choice = Choice { is_loaded: true, ..choice() };
        assert!(choice.may_ask(OwnScheduler::Never) && !choice.may_ask(OwnScheduler::Always));
        choice.ask(OwnScheduler::Never);
        assert_eq!(choice.look(&State::Running, Mode::On, Instant::now()), Step::Leave);
        assert_eq!(choice.look(&State::Absent, Mode::On, Instant::now()), Step::Stay);
        assert!(choice.may_ask(OwnScheduler::WhereKept));
        choice.is_loaded = false;
        assert!(!choice.may_ask(OwnScheduler::WhereKept), "there is nothing to start");
    }
}
