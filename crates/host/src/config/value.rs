// SPDX-License-Identifier: GPL-2.0-only
//! Values of configuration keys, and the ranges of these values.

use std::fmt;

use paracord_devices::pmu::EventSet;

use crate::place::Placement;

/// A share of a period, in hundredths of a percent (10 000 = 100 %).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// `part` as a share of `period` (both in the same unit), rounded to the nearest hundredth of a
    /// percent.
    pub fn of(part: u64, period: u64) -> Share {
        let (part, period) = (u128::from(part), u128::from(period.max(1)));
        let parts = (part * 10_000 + period / 2) / period;
        Share(u32::try_from(parts).unwrap_or(u32::MAX))
    }

    /// The part of `period` that this share stands for, in the unit of `period`.
    pub fn of_period(self, period: u64) -> u64 {
        let part = u128::from(period) * u128::from(self.0) / 10_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Converts a percentage; `None` if it is negative, not finite or too large.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked first
    pub fn from_pct(pct: f64) -> Option<Share> {
        let parts = (pct * 100.0).round();
        (0.0..=f64::from(u32::MAX)).contains(&parts).then_some(Share(parts as u32))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}"),
            r if r % 10 == 0 => write!(f, "{whole}.{}", r / 10),
            r => write!(f, "{whole}.{r:02}"),
        }
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Whole number, in the unit that the key's name contains.
    Int(u32),
    /// Percentage.
    Pct(Share),
    /// Switch.
    Bool(bool),
    /// A value of any other kind, as text.
    Text(String),
}

impl fmt::Display for Value {
    /// Formats the value as TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Pct(s) => write!(f, "{s}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Text(t) => write!(f, "{}", toml::Value::from(t.as_str())),
        }
    }
}

/// The values that a key accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whole number, from the first to the second limit.
    Int(u32, u32),
    /// Percentage with up to two decimals. The limits are whole percentages.
    Pct(u32, u32),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Absolute path of a file.
    Path {
        /// Whether the path may be empty, which switches the feature off.
        optional: bool,
    },
    /// Address and port on the loopback interface, or empty.
    Loopback,
    /// Name of a group, or empty.
    Group,
    /// User: name, UID or UID:GID, or empty.
    Owner,
    /// Pattern with `*` and `?`, not empty.
    Pattern,
    /// Placement of vCPUs, or empty.
    Placement,
    /// Events that guests may count.
    Events,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int(min, max) => write!(f, "a whole number from {min} to {max}"),
            Kind::Pct(min, max) => write!(f, "a percentage from {min} to {max}"),
            Kind::Bool => write!(f, "true or false"),
            Kind::Choice(words) => {
                for (i, w) in words.iter().enumerate() {
                    let sep = if i == 0 {
                        ""
                    } else if i + 1 == words.len() {
                        " or "
                    } else {
                        ", "
                    };
                    write!(f, "{sep}\"{w}\"")?;
                }
                Ok(())
            }
            Kind::Path { optional: false } => write!(f, "an absolute path in quotes"),
            Kind::Path { optional: true } => write!(f, "an absolute path in quotes, or \"\""),
            Kind::Loopback => {
                write!(f, "a loopback address and port such as \"127.0.0.1:9095\", or \"\"")
            }
            Kind::Group => write!(f, "the name of a group, or \"\""),
            Kind::Owner => write!(f, "a user as name, UID or \"UID:GID\", or \"\""),
            Kind::Pattern => write!(f, "a pattern in quotes"),
            Kind::Events => write!(f, "\"all\", or perf's names such as \"cycles,task-clock\""),
            Kind::Placement => write!(f, "a placement such as \"0=4-5 1=cluster:0\", or \"\""),
        }
    }
}

impl Kind {
    /// Checks a value and its TOML type.
    ///
    /// # Errors
    /// The error states which values are allowed.
    pub fn check(&self, given: Given) -> Result<Value, String> {
        let wrong = |shown: String| Err(format!("{shown} is not allowed: must be {self}"));
        match (self, given) {
            (Kind::Int(min, max), Given::Int(n)) => match u32::try_from(n) {
                Ok(v) if (*min..=*max).contains(&v) => Ok(Value::Int(v)),
                _ => wrong(n.to_string()),
            },
            (Kind::Pct(min, max), Given::Int(n)) => match u32::try_from(n) {
                Ok(v) if (*min..=*max).contains(&v) => Ok(Value::Pct(Share(v * 100))),
                _ => wrong(n.to_string()),
            },
            (Kind::Pct(min, max), Given::Float(x)) => match Share::from_pct(x) {
                Some(s) if (min * 100..=max * 100).contains(&s.0) => Ok(Value::Pct(s)),
                _ => wrong(x.to_string()),
            },
            (Kind::Bool, Given::Bool(b)) => Ok(Value::Bool(b)),
            (Kind::Choice(words), Given::Text(t)) if words.contains(&t.as_str()) => {
                Ok(Value::Text(t))
            }
            (Kind::Path { optional }, Given::Text(t))
                if t.starts_with('/') || (*optional && t.is_empty()) =>
            {
                Ok(Value::Text(t))
            }
            (Kind::Loopback, Given::Text(t))
                if t.is_empty()
                    || t.parse().is_ok_and(|a: std::net::SocketAddr| a.ip().is_loopback()) =>
            {
                Ok(Value::Text(t))
            }
            (Kind::Group, Given::Text(t))
                if t.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) =>
            {
                Ok(Value::Text(t))
            }
            (Kind::Owner, Given::Int(uid)) if u32::try_from(uid).is_ok() => {
                Ok(Value::Text(uid.to_string()))
            }
            (Kind::Owner, Given::Text(t)) if is_owner(&t) => Ok(Value::Text(t)),
            (Kind::Pattern, Given::Text(t)) if !t.is_empty() => Ok(Value::Text(t)),
            (Kind::Placement, Given::Text(t)) => match t.parse::<Placement>() {
                Ok(_) => Ok(Value::Text(t)),
                Err(why) => Err(why.to_string()),
            },
            (Kind::Events, Given::Text(t)) => match t.parse::<EventSet>() {
                Ok(_) => Ok(Value::Text(t)),
                Err(why) => Err(why.to_string()),
            },
            (_, other) => wrong(other.to_string()),
        }
    }
}

/// Whether `text` is empty, or can be the name of a user, a UID, or a pair UID:GID.
fn is_owner(text: &str) -> bool {
    match text.split_once(':') {
        Some((uid, gid)) => uid.parse::<u32>().is_ok() && gid.parse::<u32>().is_ok(),
        None => !text.chars().any(|c| c.is_control() || c.is_whitespace()),
    }
}

/// A value as it was written, not checked yet.
#[derive(Clone, Debug)]
pub enum Given {
    /// Integer.
    Int(i64),
    /// Float.
    Float(f64),
    /// Boolean.
    Bool(bool),
    /// String.
    Text(String),
    /// A value of any other TOML type, described in words.
    Other(&'static str),
}

impl Given {
    /// Reads a word of a command line: as a number or a boolean if possible, otherwise as text.
    pub fn from_word(word: &str) -> Given {
        if let Ok(n) = word.parse() {
            Given::Int(n)
        } else if let Ok(b) = word.parse() {
            Given::Bool(b)
        } else if let Ok(x) = word.parse() {
            Given::Float(x)
        } else {
            Given::Text(word.to_owned())
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Int(n) => write!(f, "{n}"),
            Given::Float(x) => write!(f, "{x}"),
            Given::Bool(b) => write!(f, "{b}"),
            Given::Text(t) => write!(f, "{t:?}"),
            Given::Other(name) => write!(f, "{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_survive_a_round_trip_through_text() {
        for parts in [0, 1, 10, 99, 100, 250, 10_000, 40_960_000] {
            let s = Share(parts);
            let pct: f64 = s.to_string().parse().unwrap();
            assert_eq!(Share::from_pct(pct), Some(s));
        }
        assert_eq!(Share::from_pct(-0.1), None);
        assert_eq!(Share::from_pct(f64::NAN), None);
    }

    #[test]
    fn shares_of_huge_periods_do_not_overflow() {
        assert_eq!(Share(10_000).of_period(u64::MAX), u64::MAX);
        assert_eq!(Share::of(u64::MAX, u64::MAX), Share(10_000));
        assert_eq!(Share::of(1, 0), Share(10_000));
    }

    #[test]
    fn only_loopback_is_served() {
        let given = |t: &str| Kind::Loopback.check(Given::Text(t.into()));
        assert!(given("127.0.0.1:9095").is_ok() && given("[::1]:80").is_ok() && given("").is_ok());
        assert!(given("0.0.0.0:9095").is_err() && given("localhost").is_err());
    }
}
