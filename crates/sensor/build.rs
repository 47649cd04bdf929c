// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF objects, which the library embeds.

use std::{env, path::PathBuf, process::Command};

use libbpf_cargo::SkeletonBuilder;

/// Source file in bpf/, macro, and name of the object.
const OBJECTS: [(&str, Option<&str>, &str); 4] = [
    ("sensor.bpf.c", None, "sensor.bpf.o"),
    ("ext.bpf.c", Some("-DPC_HAVE_KICK"), "ext.bpf.o"),
    // For kernels whose BTF describes scx_bpf_kick_cpu() wrongly.
    ("ext.bpf.c", None, "ext-without-kick.bpf.o"),
    // Used only by tests/pelt.rs.
    ("tests/pelt_check.bpf.c", None, "pelt_check.bpf.o"),
];
/// clang 14 is the first version with the CO-RE builtins that the sensor uses.
const CLANG_MIN: u32 = 14;

/// Major version in the first line of `clang --version`.
fn clang_major(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, version) = text.split_once("version ")?;
    version.split('.').next()?.parse().ok()
}

fn main() {
    for path in ["../../bpf", "../../policy", "../../abi"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    match clang_major(&clang) {
        Some(major) if major >= CLANG_MIN => {}
        Some(major) => panic!(
            "{clang} is version {major}, but the sensor needs {CLANG_MIN} or newer: install it, or set CLANG"
        ),
        None => panic!(
            "no working {clang}: install clang {CLANG_MIN} or newer (`make setup` does), or set CLANG"
        ),
    }
    let target_arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "-D__TARGET_ARCH_x86",
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        other => panic!("the sensor supports x86_64 and aarch64, not {other:?}"),
    };
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for (source, define, object) in OBJECTS {
        let mut arguments =
            vec![target_arch, "-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];
        arguments.extend(define);
        SkeletonBuilder::new()
            .source(format!("../../bpf/{source}"))
            .obj(out_dir.join(object))
            .clang(&clang)
            .clang_args(arguments)
            .build()
            .unwrap_or_else(|error| panic!("{source}: {error:#}"));
    }
}
