// SPDX-License-Identifier: GPL-2.0-only
//! The natively compiled programs of bpf/ and the simulator's kernel, face to face: operations are called from here,
//! and what they call arrives at [`Kfuncs`].
//!
//! The only place with unsafe code in this crate. What makes it sound: one machine is in place at a time
//! ([`Running`]), operations run on the thread that called them, and a kernel that an operation calls back is lent to
//! it for exactly that long (`lend`).

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
