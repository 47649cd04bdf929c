// SPDX-License-Identifier: GPL-2.0-only
//! Compiles policy/*.h to native code, not to BPF.

fn main() {
    for path in ["../../policy", "../../abi", "native"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let mut build = cc::Build::new();
    build
        .file("native/policy.c")
        .file("native/balance.c")
        .file("native/core.c")
        .file("native/quota.c")
        .file("native/reserve.c")
        .file("native/pelt.c")
        .file("native/energy.c")
        .file("native/pmu.c")
        .include("../..")
        .flag_if_supported("-std=gnu11")
        .warnings_into_errors(true)
        .extra_warnings(true);
    // In tests and fuzzing, an overflow or an invalid shift traps.
    if std::env::var("PROFILE").as_deref() == Ok("debug") {
        build.flag("-fsanitize=undefined").flag("-fsanitize-undefined-trap-on-error");
    }
    // cargo-fuzz needs coverage of the C code, because the C code is what it tests.
    if std::env::var_os("CARGO_CFG_FUZZING").is_some() {
        build.compiler("clang").flag("-fsanitize=fuzzer-no-link");
    }
    build.compile("paracord_policy");
}
