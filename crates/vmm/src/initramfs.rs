// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Loads the initramfs as high in RAM as possible, because kernels use low memory early.

use std::fs::File;

use vm_memory::{Bytes, GuestAddress};

use crate::config::Config;
use crate::error::{self, Error};
use crate::memory::Ram;

const PAGE_BYTES: u64 = 4096;

/// Loads the initramfs between `lowest` and `end`. Returns its start and end.
///
/// # Errors
/// [`Error::File`]; [`Error::TooLittleMemory`].
pub fn load(
    config: &Config,
    ram: &Ram,
    lowest: u64,
    end: u64,
) -> Result<Option<(u64, u64)>, Error> {
    let Some(path) = &config.initramfs else {
        return if lowest <= end { Ok(None) } else { Err(too_little(config)) };
    };
    let mut file = File::open(path).map_err(error::file(path))?;
    let bytes = file.metadata().map_err(error::file(path))?.len();
    let start = place(bytes, lowest, end).ok_or_else(|| too_little(config))?;
    let length = usize::try_from(bytes).map_err(|_| too_little(config))?;
    ram.read_exact_volatile_from(GuestAddress(start), &mut file, length).map_err(|e| {
        Error::Content { path: path.clone(), reason: format!("cannot be read: {e}") }
    })?;
    Ok(Some((start, start + bytes)))
}

/// The highest page address at which `bytes` bytes fit.
fn place(bytes: u64, lowest: u64, end: u64) -> Option<u64> {
    let start = end.checked_sub(bytes)? & !(PAGE_BYTES - 1);
    (start >= lowest).then_some(start)
}

/// The error for too little memory.
pub fn too_little(config: &Config) -> Error {
    Error::TooLittleMemory { mib: config.memory_bytes >> 20 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lies_at_the_top_on_a_page() {
        assert_eq!(place(1, 0, 0x10_0000), Some(0xf_f000));
        assert_eq!(place(0x1001, 0xf_e000, 0x10_0000), Some(0xf_e000));
        assert_eq!(place(0x2001, 0xf_e000, 0x10_0000), None);
        assert_eq!(place(2, 0, 1), None);
    }
}
