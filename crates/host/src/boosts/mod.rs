// SPDX-License-Identifier: GPL-2.0-only
//! Carries out boosts, records the attributes that threads had before their boosts, and restores
//! these attributes.
//!
//! | part | job |
//! |---|---|
//! | [`rt_thread`] | receives the sensor's messages, with a priority above every boosted vCPU |
//! | [`sensor_table`] | the threads that the sensor knows, with their start times |
//! | [`actuator`] | makes threads real-time, or tracks the reported boosts by paracord's scheduler |
//! | [`uclamp`] | the kernel's utilisation clamps of vCPU threads |
//! | [`journal`], [`journal_file`] | attributes before boosts, in files that outlive the daemon |
//! | [`leftovers`] | threads that an earlier run changed and that could not be restored so far |

pub mod actuator;
pub(crate) mod index_set;
pub mod journal;
pub mod journal_file;
pub(crate) mod leftovers;
pub mod rt_thread;
pub mod sensor_table;
pub mod thread;
pub mod uclamp;
