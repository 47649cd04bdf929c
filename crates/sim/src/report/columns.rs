// SPDX-License-Identifier: GPL-2.0-only
//! Aligns columns.

/// Aligns rows as columns. The first row is the heading. The first column contains text and is
/// aligned to the left. The other columns contain numbers and are aligned to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..count)
        .map(|c| rows.iter().filter_map(|row| row.get(c)).map(|s| s.chars().count()).max())
        .map(|width| width.unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, cell)| {
                let pad = " ".repeat(width[c] - cell.chars().count());
                if c == 0 { cell.clone() + &pad } else { pad + cell }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A row of texts.
pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{columns, row};

    #[test]
    fn numbers_stand_at_the_right() {
        let rows = [row(&["TASK", "CPU %"]), row(&["a", "6.00"]), row(&["longer", "-"])];
        assert_eq!(columns(&rows), "TASK    CPU %\na        6.00\nlonger      -\n");
    }
}
