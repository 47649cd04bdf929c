// SPDX-License-Identifier: GPL-2.0-only
//! Requests and responses of the control socket, version 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::place::PlaceMode;
use crate::scheduler::clamp_order::ClampTarget;
use crate::settings::Mode;

/// Version of the protocol. It increases when the meaning of a request or field changes, but not
/// when a request or field is added.
pub const PROTOCOL_VERSION: u32 = 1;

/// One line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Returns the state of the daemon: a [`Snapshot`](crate::snapshot::Snapshot).
    Status {},
    /// Overrides keys of one running VM until the next reload.
    VmSet {
        /// Name, uuid or pid of the VM.
        vm: String,
        /// Keys and values as in `[vm."NAME"]`. The values are text.
        set: BTreeMap<String, String>,
    },
    /// Reads the configuration file again.
    Reload {},
    /// Changes the global mode until the next reload.
    Mode {
        /// New global mode: an upper bound on the mode of every VM.
        mode: Mode,
    },
    /// Sets the clamps of a thread, a process, a control group or a VM.
    ClampSet {
        /// The target of the clamps.
        target: ClampTarget,
        /// Minimum, 0..=1024. 0 if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u32>,
        /// Maximum, 0..=1024. 1024 if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
    },
    /// Returns the clamps of a target: a list with one
    /// [`ClampReport`](crate::scheduler::clamp_order::ClampReport).
    ClampGet {
        /// The target of the clamps.
        target: ClampTarget,
    },
    /// Returns a [`ClampReport`](crate::scheduler::clamp_order::ClampReport) for each target whose
    /// clamps were set.
    ClampList {},
    /// Places vCPUs of one running VM. Returns a [`PlaceReport`](crate::place::PlaceReport).
    VmPlace {
        /// Name, uuid or pid of the VM.
        vm: String,
        /// Like `place` in `[vm."NAME"]`. The placement of vCPUs that it does not name stays the
        /// same.
        place: String,
        /// Whether threads are bound to CPUs. `affinity` if absent.
        #[serde(default)]
        mode: PlaceMode,
    },
    /// Returns where the vCPUs of a VM are placed: a [`PlaceReport`](crate::place::PlaceReport).
    VmPlaceGet {
        /// Name, uuid or pid of the VM.
        vm: String,
    },
    /// Ends the placement of a VM's vCPUs: each vCPU may again run on the CPUs on which it could
    /// run before. Returns a [`PlaceReport`](crate::place::PlaceReport).
    VmPlaceClear {
        /// Name, uuid or pid of the VM.
        vm: String,
    },
    /// Restores every thread and ends the daemon.
    Stop {},
}

/// Why a request failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The line is not a valid request of this protocol version.
    BadRequest,
    /// The peer may not use the socket, because it is neither root, nor the daemon's user, nor a
    /// member of the control group. Or the peer may use the socket, but may not make this request.
    Denied,
    /// There are too many clients.
    Busy,
    /// No VM has this name.
    NoSuchVm,
    /// The request cannot be carried out: for example, a value is out of range or a key is unknown.
    Invalid,
    /// The daemon's main thread does not answer.
    NoAnswer,
}

/// One line to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// Result of a request that succeeded. `null` if there is nothing to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Value>,
    /// The failure, if the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The reason, for programs.
    pub code: ErrorCode,
    /// The reason, for people: one line that says what to do.
    pub message: String,
}

impl Response {
    /// The response to a request that succeeded.
    pub fn ok(result: serde_json::Value) -> Response {
        Response { protocol: PROTOCOL_VERSION, result: Some(result), error: None }
    }

    /// The response to a request that failed.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Response {
        let error = Some(Failure { code, message: message.into() });
        Response { protocol: PROTOCOL_VERSION, result: None, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_documented() {
        for (line, want) in [
            (r#"{"command":"status"}"#, Request::Status {}),
            (r#"{"command":"mode","mode":"observe"}"#, Request::Mode { mode: Mode::Observe }),
            (
                r#"{"command":"vm_set","vm":"web","set":{"wake.grant_us":"500"}}"#,
                Request::VmSet {
                    vm: "web".into(),
                    set: [("wake.grant_us".to_owned(), "500".to_owned())].into(),
                },
            ),
            (r#"{"command":"reload"}"#, Request::Reload {}),
            (r#"{"command":"stop"}"#, Request::Stop {}),
            (
                r#"{"command":"clamp_set","target":{"cgroup":"web"},"max":200}"#,
                Request::ClampSet {
                    target: ClampTarget::Cgroup("web".into()),
                    min: None,
                    max: Some(200),
                },
            ),
            (
                r#"{"command":"vm_place","vm":"web","place":"0=4-5","mode":"hints"}"#,
                Request::VmPlace {
                    vm: "web".into(),
                    place: "0=4-5".into(),
                    mode: PlaceMode::Hints,
                },
            ),
            (
                r#"{"command":"vm_place_clear","vm":"web"}"#,
                Request::VmPlaceClear { vm: "web".into() },
            ),
            (
                r#"{"command":"clamp_get","target":{"task":7}}"#,
                Request::ClampGet { target: ClampTarget::Task(7) },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), want, "{line}");
        }
        for bad in ["", "{}", r#"{"command":"fly"}"#, r#"{"command":"status","x":1}"#, "[[[["] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
