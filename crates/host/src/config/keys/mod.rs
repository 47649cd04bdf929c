// SPDX-License-Identifier: GPL-2.0-only
//! All configuration keys: the name, range and meaning of each key, and how its value is read and
//! written.

/// Describes a key whose value is stored in one field, and is an integer, a percentage or a switch.
macro_rules! plain {
    ($name:literal, $kind:expr, $variant:ident, $as:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            kind: $kind,
            doc: $doc,
            get: |t| Value::$variant(t.$($field).+.into()),
            set: |t, v| {
                if let Value::$variant(x) = v {
                    t.$($field).+ = $as(x);
                }
            },
        }
    };
}

mod host;
mod region;
mod vm;

use std::path::PathBuf;

use super::value::{Kind, Value};
use crate::settings::Mode;

pub use host::{CONTROL, COUNTERS, GLOBAL, METRICS, PERF, SECTIONS, SUPERVISOR};
pub use region::REGION;
pub use vm::{BOOST, PIN, PLACE, PinKeys, REASON, VM, reason_headings};
pub(super) use vm::{PIN_CGROUP, PIN_UID, PIN_UUID, PIN_VMM};

/// One key of a section. A `T` stores the values of the section.
pub struct Key<T: 'static> {
    /// Name of the key within its section, including the unit.
    pub name: &'static str,
    /// The values that the key accepts.
    pub kind: Kind,
    /// Meaning of the key.
    pub doc: &'static str,
    /// Reads the current value.
    pub get: fn(&T) -> Value,
    /// Stores a value that `kind` has accepted.
    pub set: fn(&mut T, Value),
}

fn text(v: Value) -> String {
    if let Value::Text(t) = v { t } else { String::new() }
}

fn path(v: Value) -> PathBuf {
    text(v).into()
}

fn optional_path(v: Value) -> Option<PathBuf> {
    Some(path(v)).filter(|p| !p.as_os_str().is_empty())
}

fn from_path(p: &std::path::Path) -> Value {
    Value::Text(p.to_string_lossy().into_owned())
}

fn from_optional_path(p: Option<&PathBuf>) -> Value {
    p.map_or(Value::Text(String::new()), |p| from_path(p))
}

fn same<X>(x: X) -> X {
    x
}

const MODES: Kind = Kind::Choice(&["on", "observe", "off"]);

fn mode_of(v: Value) -> Mode {
    match text(v).as_str() {
        "on" => Mode::On,
        "observe" => Mode::Observe,
        _ => Mode::Off,
    }
}

fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::On => "on",
        Mode::Observe => "observe",
        Mode::Off => "off",
    }
    .to_owned()
}
