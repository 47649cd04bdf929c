// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim check`.

use std::process::ExitCode;

use paracord_sim::mix;

use super::args::CheckArgs;
use super::exit::Failure;
use super::output::print;
use crate::report::{plural, size, units};

/// Checks whether files are valid mixes. For each file that is not, prints a line on standard
/// error.
///
/// # Errors
/// Standard output cannot be written.
pub fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for file in &args.files {
        match mix::load(file) {
            Ok(mix) => {
                let name = file.display().to_string().escape_debug().to_string();
                let changes = plural(mix.changes.len(), "change");
                let length = units::seconds(mix.run_ns);
                print(&format!("{name}: {}, {changes}, {length}: ok\n", size(&mix)))?;
            }
            Err(e) => code = Failure::from(e).report(),
        }
    }
    Ok(code)
}
