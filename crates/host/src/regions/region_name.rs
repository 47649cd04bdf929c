// SPDX-License-Identifier: GPL-2.0-only
//! Names of regions. Each name is used as a file name, and as a part of one of QEMU's options.

/// Maximum length of a name, in bytes. The limit leaves room for the temporary name of the file,
/// which is longer.
const NAME_MAX_BYTES: usize = 64;

/// Whether a region may have this name.
pub fn is_region_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty()
        && name.len() <= NAME_MAX_BYTES
        && !name.starts_with('.')
        && name.chars().all(allowed)
}
