// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether paracord's scheduler runs the host's ordinary tasks. With actuator `auto`,
//! paracord's scheduler runs them as long as it preserves all features of the kernel's scheduler
//! that the host uses. The daemon checks this condition periodically. With the other actuators, the
//! configuration alone decides.

pub mod clamp_order;
pub mod clamps;
pub mod imports;
pub mod performance;

use std::path::Path;
use std::time::{Duration, Instant};

use paracord_sensor::{Error as SensorError, Options, Sensor, scheduler::State};
use tracing::{info, warn};

use crate::doctor::Promises;
use crate::settings::{Mode, OwnScheduler};

/// A line that names a feature of the kernel's scheduler. paracord's scheduler preserves this
/// feature on no host (docs/ext.md).
const EXT_DOES_NOT_KEEP: &str = "actuator ext does not keep: core scheduling without hangs of the kernel (docs/ext.md); actuator rt keeps it";
const AUTO_IS_RT: &str = "actuator auto is rt";
/// Time that must pass without the use of any feature that would be lost, before the scheduler is
/// started again. Without this delay, the scheduler would start and stop repeatedly while an
/// operator tries out a setting.
const SETTLE: Duration = Duration::from_secs(30);

/// The step that has to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing.
    Stay,
    /// Start the scheduler.
    Enter,
    /// Give the tasks back to the kernel's own scheduler.
    Leave,
}

/// Decides whether paracord's scheduler runs.
pub struct Choice {
    asked: OwnScheduler,
    promises: Promises,
    /// True if the scheduler cannot kick CPUs on this kernel. CPU quotas are then not preserved.
    no_kick: bool,
    /// The time since which the host has used no feature that would be lost; `None`: it uses one
    /// now.
    kept_since: Option<Instant>,
    /// Whether the first check has been made.
    has_looked: bool,
    /// Whether the kernel refused the scheduler at the last try.
    is_refused: bool,
    /// Whether the daemon has given up. It then does not start the scheduler until its own restart.
    given_up: bool,
    /// Whether the loaded object contains the scheduler.
    is_loaded: bool,
    /// With `auto`, why the scheduler is not active. With `ext`, which features that the host uses
    /// are not preserved.
    reason: Option<String>,
}

impl Choice {
    /// Creates the choice for the host whose files are below `root` (`/`).
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

    /// Loads the sensor. The loaded object includes the scheduler if the scheduler may be active
    /// now or later. With [`OwnScheduler::Always`], the scheduler is active after this call if the
    /// kernel accepts it.
    ///
    /// # Errors
    /// [`SensorError`]: even the sensor without the scheduler cannot be loaded.
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
                // The sensor is now loaded without the scheduler, so the scheduler cannot be
                // started later.
                self.given_up = true;
                Sensor::load(options)
            }
        }
    }

    /// Whether the setting may change to `asked` without a restart of the daemon. Such a change
    /// keeps the loaded object.
    pub fn may_ask(&self, asked: OwnScheduler) -> bool {
        let chosen = |one| one != OwnScheduler::Always;
        asked == self.asked || (self.is_loaded && chosen(asked) && chosen(self.asked))
    }

    /// Changes the setting to one that [`may_ask`](Choice::may_ask) allows.
    pub fn ask(&mut self, asked: OwnScheduler) {
        self.asked = asked;
    }

    /// Returns the step that has to be taken now. Reads a dozen small files. `mode` is the upper
    /// bound of all VMs' modes. With `auto`, a host on which no VM is boosted keeps the kernel's
    /// scheduler.
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
            // After a refusal, the kernel's reason is reported until the kernel accepts the
            // scheduler.
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

    /// Records that the kernel has refused the scheduler. The daemon tries again only if the reason
    /// is another scheduler, because the other scheduler may go away.
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

    /// Returns lines for `status`. With `auto`, the lines say why the scheduler is not active. With
    /// `ext`, the lines say which features the scheduler does not preserve.
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
        // A check in between finds that a feature would be lost, so the waiting time starts again.
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

    /// Whatever made the kernel unload the scheduler would make the kernel unload it again.
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

    /// A reload keeps the loaded object, so the scheduler can be stopped and started.
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
