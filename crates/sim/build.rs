// SPDX-License-Identifier: GPL-2.0-only
//! Compiles bpf/ext.bpf.c for the machine that builds. The compiler is clang, as for the BPF
//! objects.

fn main() {
    for path in ["../../bpf", "../../policy", "../../abi", "native"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let target = std::env::var("TARGET").expect("set by cargo");
    let mut build = cc::Build::new();
    build
        .compiler(clang)
        .include("native/include")
        .flag("-std=gnu11")
        .flag(format!("--target={target}"))
        .define("__TARGET_ARCH_x86", None)
        // The programs and the kernel access the same memory through different types.
        .flag("-fno-strict-aliasing")
        .flag("-Wno-pointer-bool-conversion")
        .flag("-Wno-unused-parameter")
        .extra_warnings(true)
        .warnings_into_errors(true);
    // The programs are optimised in every profile, because a debug build of the simulator is
    // already slow.
    build.opt_level(2);
    if std::env::var_os("CARGO_FEATURE_TRACED").is_some() {
        build.define("SIM_TRACED", None);
        build.flag("-fsanitize-coverage=trace-pc-guard,trace-loads,trace-stores");
    }
    build.file("native/bpf.c").file("native/symbols.c").compile("paracord_sim_bpf");
}
