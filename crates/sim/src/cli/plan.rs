// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim plan`.

use std::process::ExitCode;

use super::args::Source;
use super::exit::Failure;
use super::output::print;
use crate::report::plan;

/// Writes the plan of a mix to standard output.
///
/// # Errors
/// A bad mix, or a mix that no real machine can play.
pub fn plan(source: &Source) -> Result<ExitCode, Failure> {
    let mix = source.load()?;
    let text = plan::plan(&mix)
        .map_err(|why| Failure::new(format!("{}: {why}", source.file.display())))?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
