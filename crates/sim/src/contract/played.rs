// SPDX-License-Identifier: GPL-2.0-only
//! Reads the results of `pc_play` (lab/programs), which has played a mix on a real kernel.

use serde_json::Value;

use super::Ran;

/// Reads the shares. Faults are not counted here. If the scheduler is unloaded, the lab reports
/// this itself.
///
/// # Errors
/// One line that names what is missing.
pub fn played(said: &str) -> Result<Ran, String> {
    let said: Value = serde_json::from_str(said).map_err(|e| format!("no JSON of pc_play: {e}"))?;
    let number = |of: &Value, key: &str| {
        of[key].as_f64().ok_or_else(|| format!("{key} is missing: this is not what pc_play says"))
    };
    let measured = number(&said, "measured_ns")?.max(1.0);
    let kinds =
        said["kinds"].as_array().ok_or("kinds are missing: this is not what pc_play says")?;
    let share = |kind: &Value| {
        let name = kind["name"].as_str().ok_or("a kind has no name")?;
        Ok((name.to_owned(), number(kind, "ran_ns")? / measured))
    };
    Ok(Ran {
        shares: kinds.iter().map(share).collect::<Result<_, String>>()?,
        faults: None,
        placed: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_measured_time() {
        let said = r#"{"measured_ns": 4000, "kinds": [{"name": "a", "ran_ns": 1000}, {"name": "b", "ran_ns": 6000}]}"#;
        let shares = vec![("a".to_owned(), 0.25), ("b".to_owned(), 1.5)];
        assert_eq!(played(said), Ok(Ran { shares, faults: None, placed: None }));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (said, names) in [
            ("", "no JSON"),
            (r#"{"kinds": []}"#, "measured_ns"),
            (r#"{"measured_ns": 1}"#, "kinds"),
            (r#"{"measured_ns": 1, "kinds": [{"name": "a"}]}"#, "ran_ns"),
        ] {
            let error = played(said).unwrap_err();
            assert!(error.contains(names), "{said}: {error}");
        }
    }
}
