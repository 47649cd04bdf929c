// SPDX-License-Identifier: GPL-2.0-only
//! Carries boosts out, remembers what threads had, and gives it back.
//!
//! | part | job |
//! |---|---|
//! | [`rt_thread`] | takes the sensor's messages, in a thread above every boosted vCPU |
//! | [`actuator`] | changes threads, or keeps the account of what the scheduler changes |
//! | [`uclamp`] | the kernel's clamps of vCPU threads |
//! | [`journal`], [`journal_file`] | what threads had, in files that outlive the daemon |
//! | [`leftovers`] | entries of an earlier run that could not be restored |

pub mod actuator;
pub(crate) mod index_set;
pub mod journal;
pub mod journal_file;
pub(crate) mod leftovers;
pub mod rt_thread;
pub mod thread;
pub mod uclamp;
