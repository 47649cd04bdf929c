// SPDX-License-Identifier: GPL-2.0-only
//! Runs paracord's scheduler on simulated machines. The sources of `bpf/` and `policy/` are
//! compiled natively and run in a small simulated kernel. The same run always gives bit-identical
//! results (docs/simulator.md, docs/design/0008-simulator.md).

pub mod bpf;
pub mod check;
pub mod ext;
pub mod fair;
pub mod kernel;
pub mod machine;
pub mod mix;
pub mod rng;
pub mod run;
pub mod time;
