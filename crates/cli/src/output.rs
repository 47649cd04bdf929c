// SPDX-License-Identifier: GPL-2.0-only
//! Printing to standard output, and tables with aligned columns.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use crate::exit::Failure;

/// Prints `text`. It is not an error if standard output is a pipe that its reader has closed
/// (`paracord … | head`).
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {e}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints `value` as JSON, followed by a line break.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &impl serde::Serialize) -> Result<ExitCode, Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::new(format!("JSON: {e}")))?;
    text.push('\n');
    print(&text)
}

/// Formats rows as a table with aligned columns. The first row is the heading. A column is
/// right-aligned if each of its cells below the heading begins with a digit or `-`.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |c: usize| rows.iter().filter_map(move |r| r.get(c));
    let width: Vec<usize> =
        (0..count).map(|c| cells(c).map(|s| s.chars().count()).max().unwrap_or(0)).collect();
    let numeric: Vec<bool> = (0..count)
        .map(|c| cells(c).skip(1).all(|s| s.starts_with(|x: char| x.is_ascii_digit() || x == '-')))
        .collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, cell)| {
                let pad = " ".repeat(width[c] - cell.chars().count());
                if numeric[c] { pad + cell } else { cell.clone() + &pad }
            })
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A row of a table.
pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|c| (*c).to_owned()).collect()
}

/// The word that represents a value of an enumeration in JSON.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn numbers_are_right_aligned_and_lines_not_padded() {
        let rows = [["NAME", "N"], ["a", "10"], ["long", "-"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|r| r.iter().map(|s| (*s).to_owned()).collect()).collect();
        assert_eq!(columns(&rows), "NAME   N\na     10\nlong   -\n");
    }
}
