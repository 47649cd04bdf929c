// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: line-delimited JSON over a unix stream socket.
//!
//! docs/control-socket.md documents the protocol. The server is one thread that never blocks on a
//! client. Constants in [`server`] limit what a client can make the server store.

mod access;
mod client;
mod protocol;
mod server;

pub use access::Access;
pub use client::{Client, ClientError};
pub use protocol::{ErrorCode, PROTOCOL_VERSION, Request, Response};
pub use server::{Server, ServerError, Stop};
