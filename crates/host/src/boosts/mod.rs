// SPDX-License-Identifier: GPL-2.0-only
//! Carries out boosts, records the attributes that threads had before, and restores these
//! attributes.
//!
//! | part | job |
//! |---|---|
//! | [`rt_thread`] | receives the sensor's messages; its priority is above every boosted vCPU's |
//! | [`actuator`] | changes threads, or only keeps account of boosts by paracord's scheduler |
//! | [`uclamp`] | the kernel's clamps of vCPU threads |
//! | [`journal`], [`journal_file`] | attributes from before boosts; the files outlive the daemon |
//! | [`leftovers`] | threads that an earlier run changed and that could not be restored so far |

pub mod actuator;
pub(crate) mod index_set;
pub mod journal;
pub mod journal_file;
pub(crate) mod leftovers;
pub mod rt_thread;
pub mod thread;
pub mod uclamp;
