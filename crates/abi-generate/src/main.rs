// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Makes crates/abi/src/generated.rs from abi/paracord_abi.h, the only place
//! with layouts: `cargo run -p paracord-abi-generate`. A crate of its own, so
//! that it builds when the mirror does not fit the rest of crates/abi.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The checked-in mirror.
fn output_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../abi/src/generated.rs")
}

/// The mirror as the header says now.
fn generate() -> String {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../abi/paracord_abi.h");
    let bindings = bindgen::Builder::default()
        .header(header.to_str().expect("path is UTF-8"))
        .raw_line("// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause")
        .raw_line("// Generated from abi/paracord_abi.h by `make generate`. Do not edit.")
        .disable_header_comment()
        .allowlist_type("paracord_.*")
        .allowlist_var("PARACORD_.*")
        .use_core()
        .ctypes_prefix("core::ffi")
        .layout_tests(true)
        .derive_debug(false)
        .derive_default(false)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("known to bindgen"))
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("libclang reads the header");
    bindings.to_string()
}

fn main() -> std::io::Result<()> {
    std::fs::write(output_path(), generate())
}

#[cfg(test)]
mod tests {
    #[test]
    fn mirror_is_up_to_date() {
        let checked_in = std::fs::read_to_string(super::output_path()).unwrap();
        assert!(
            checked_in == super::generate(),
            "crates/abi/src/generated.rs differs from abi/paracord_abi.h: run `make generate`"
        );
    }
}
