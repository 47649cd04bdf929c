// SPDX-License-Identifier: GPL-2.0-only
//! paracord's scheduler on simulated machines: the sources of `bpf/` and `policy/`, natively compiled, in a small
//! kernel that is bit-identical from run to run (docs/simulator.md, docs/design/0008-simulator.md).

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
