// SPDX-License-Identifier: GPL-2.0-only
//! Whether paracord's scheduler has the host's ordinary tasks: as asked, or, with actuator `auto`, as long as it keeps all
//! that the host uses of the kernel's. That is looked at again while the daemon runs.

use std::path::Path;
use std::time::{Duration, Instant};

use paracord_sensor::{Error as SensorError, Options, Sensor, scheduler::State};
use tracing::{info, warn};

use crate::doctor::Promises;
use crate::settings::OwnScheduler;

/// What paracord's scheduler does not keep of what the kernel's keeps, for everything that runs (docs/ext.md).
const EXT_DOES_NOT_KEEP: &str = "actuator ext does not keep: core scheduling, directed yields (docs/ext.md); actuator rt keeps them, but that no weight binds boosted time";
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
    /// It will not come again before the next start.
    given_up: bool,
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
            given_up: false,
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

    /// What is to be done now. It costs a dozen small files.
    pub fn look(&mut self, scheduler: &State, now: Instant) -> Step {
        if self.given_up || self.asked == OwnScheduler::Never {
            return Step::Stay;
        }
        let may_choose = self.asked == OwnScheduler::WhereKept;
        if let State::Ended { .. } = scheduler {
            self.given_up = true;
            self.tell(may_choose.then(|| {
                "actuator auto is rt until the next start: the kernel has unloaded ext".into()
            }));
        }
        if self.given_up || !may_choose {
            return Step::Stay;
        }
        let lost = self.lost();
        let step = self.decide(*scheduler == State::Running, lost.is_none(), now);
        match lost {
            Some(lost) => self.tell(Some(format!(
                "actuator auto is rt: ext would not keep, of what this host uses: {lost}"
            ))),
            None if step == Step::Enter || *scheduler == State::Running => self.tell(None),
            None => {}
        }
        step
    }

    fn decide(&mut self, in_force: bool, kept: bool, now: Instant) -> Step {
        let first = !std::mem::replace(&mut self.has_looked, true);
        if !kept {
            self.kept_since = None;
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
            lost.push("CPU quotas (this kernel describes scx_bpf_kick_cpu() wrongly)".into());
        }
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// The kernel did not take it. Another scheduler may go: then it is tried again.
    pub fn refused(&mut self, error: &SensorError) {
        self.given_up = !matches!(error, SensorError::OtherScheduler(_));
        self.kept_since = None;
        self.tell(Some(format!("actuator auto is rt: {error}")));
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
        assert_eq!(choice.look(&State::Absent, Instant::now()), Step::Stay);
    }

    /// What ejected it would eject it again.
    #[test]
    fn it_does_not_come_again_after_the_kernel_has_unloaded_it() {
        let mut choice = choice();
        let ended = State::Ended { reason: "stall".into(), message: String::new() };
        assert_eq!(choice.look(&ended, Instant::now()), Step::Stay);
        assert_eq!(choice.look(&State::Absent, Instant::now()), Step::Stay);
    }

    #[test]
    fn what_was_asked_for_is_not_looked_at_again() {
        for asked in [OwnScheduler::Never, OwnScheduler::Always] {
            let mut choice = Choice::new(asked, Path::new("/no-such-root"));
            assert_eq!(choice.look(&State::Running, Instant::now()), Step::Stay);
            assert_eq!(choice.look(&State::Absent, Instant::now()), Step::Stay);
        }
    }
}
