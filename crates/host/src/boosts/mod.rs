// SPDX-License-Identifier: GPL-2.0-only
//! Carries out boosts, records the attributes that threads had, and restores them.
//!
//! | part | job |
//! |---|---|
//! | [`rt_thread`] | receives the sensor's messages, with a priority above every boosted vCPU |
//! | [`actuator`] | changes threads, or only keeps account of boosts by the scheduler |
//! | [`uclamp`] | the kernel's clamps of vCPU threads |
//! | [`journal`], [`journal_file`] | earlier thread attributes, in files that outlive the daemon |
//! | [`leftovers`] | threads of an earlier run that could not be restored |

pub mod actuator;
pub(crate) mod index_set;
pub mod journal;
pub mod journal_file;
pub(crate) mod leftovers;
pub mod rt_thread;
pub mod thread;
pub mod uclamp;
