// SPDX-License-Identifier: GPL-2.0-only
//! Connects the natively compiled programs of bpf/ with the simulated kernel. The simulator calls
//! operations, and the programs call [`Kfuncs`].
//!
//! This is the only module of the crate with unsafe code. It is sound for these reasons: one
//! machine is in place at a time ([`Running`]). Operations run on the thread that called them. A
//! kernel that an operation calls is lent to the operation for exactly as long as it runs (`lend`).

#[cfg(feature = "traced")]
pub mod cost;
mod fiber;
mod globals;
mod helpers;
mod interface;
mod kfuncs;
mod lend;
mod maps;
mod native;
pub mod objects;
mod operations;
mod state;

pub use fiber::{Fiber, Pause, pause};
pub use interface::{
    At, CURSOR_AFTER, CURSOR_REVERSE, CURSOR_START, CURSOR_VTIME, DsqCursor, ENQ_PRIQ, Kfuncs,
    Operation,
};
pub use objects::{GroupId, TaskId};
pub use operations::*;
pub use state::{Native, Running, TASKS_MAX};
