// SPDX-License-Identifier: GPL-2.0-only
//! Compiles policy/*.h natively.

fn main() {
    for path in ["../../policy", "../../abi", "native/policy.c"] {
        println!("cargo::rerun-if-changed={path}");
    }
    cc::Build::new()
        .file("native/policy.c")
        .include("../..")
        .flag_if_supported("-std=gnu11")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .compile("paracord_policy");
}
