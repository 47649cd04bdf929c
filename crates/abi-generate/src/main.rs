// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Generates the Rust mirrors of the C headers: `cargo run -p paracord-abi-generate`. Only the C
//! headers define layouts. The generator is a crate of its own, so that it still builds if a mirror
//! does not fit the rest of the mirror's crate.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// One checked-in mirror of some headers. Paths are relative to the repository's root.
struct Mirror {
    headers: &'static [&'static str],
    output: &'static str,
    license: &'static str,
    items: &'static [&'static str],
    /// Whether the types derive traits. Programs need these traits to compare and print the types,
    /// and to build them piece by piece.
    derives: bool,
}

const MIRRORS: [Mirror; 2] = [
    Mirror {
        headers: &["abi/paracord_abi.h"],
        output: "crates/abi/src/generated.rs",
        license: "Apache-2.0 OR BSD-3-Clause",
        items: &["paracord_.*", "PARACORD_.*"],
        derives: false,
    },
    // bpf/sensor_shared.h includes policy/boost_types.h.
    Mirror {
        headers: &["bpf/sensor_shared.h", "policy/pmu_pool_types.h"],
        output: "crates/policy/src/generated.rs",
        license: "GPL-2.0-only",
        items: &["pc_.*", "PC_.*"],
        derives: true,
    },
];

fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Generates the mirror from the current headers.
fn generate(mirror: &Mirror) -> String {
    let headers = mirror.headers.join(", ");
    let mut builder = bindgen::Builder::default()
        .raw_line(format!("// SPDX-License-Identifier: {}", mirror.license))
        .raw_line(format!("// Generated from {headers} by `make generate`. Do not edit."))
        .disable_header_comment()
        .use_core()
        .ctypes_prefix("core::ffi")
        .layout_tests(true)
        .derive_debug(mirror.derives)
        .derive_default(mirror.derives)
        .derive_partialeq(mirror.derives)
        .derive_eq(mirror.derives)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("known to bindgen"))
        .formatter(bindgen::Formatter::Prettyplease);
    for header in mirror.headers {
        builder = builder.header(from_root(header).to_str().expect("path is UTF-8"));
    }
    for items in mirror.items {
        builder = builder.allowlist_type(items).allowlist_var(items);
    }
    builder.generate().expect("libclang reads the headers").to_string()
}

fn main() -> std::io::Result<()> {
    for mirror in &MIRRORS {
        std::fs::write(from_root(mirror.output), generate(mirror))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn mirrors_are_up_to_date() {
        for mirror in &super::MIRRORS {
            let checked_in = std::fs::read_to_string(super::from_root(mirror.output)).unwrap();
            assert!(
                checked_in == super::generate(mirror),
                "{} differs from {}: run `make generate`",
                mirror.output,
                mirror.headers.join(", ")
            );
        }
    }
}
