// SPDX-License-Identifier: GPL-2.0-only
//! Loads the BPF sensor (bpf/sensor.bpf.c), and gives typed access to the arrays and messages that
//! the sensor shares with the daemon.
//!
//! ```no_run
//! # fn main() -> Result<(), paracord_sensor::Error> {
//! let sensor = paracord_sensor::Sensor::load(&paracord_sensor::Options::default())?;
//! let ring = sensor.messages(|message| println!("{message:?}"))?; // in the real-time thread
//! ring.poll(std::time::Duration::from_millis(100)).ok();
//! for vcpu in sensor.vcpus().iter() {
//!     println!("{} {:?}", vcpu.tid(), vcpu.life());
//! }
//! # Ok(()) }
//! ```
//!
//! The life cycle of a vCPU's record: the sensor sends `PC_MSG_NEW`. The caller then writes
//! [`Vcpu::set_setup`] and calls [`Vcpu::set_ready`]. After `PC_MSG_GONE`, the caller calls
//! [`Sensor::release`].

mod announcement;
mod array;
mod bell;
mod clamp;
mod domain_table;
mod error;
mod host_line;
mod kernel;
mod kicks;
mod load;
mod messages;
mod object;
mod pmu_mail;
mod reserves;
pub mod scheduler;
mod sensor;
mod symbols;
mod threads;
mod topology;
mod users;
mod vcpu;
mod whereabouts;

pub use announcement::{Announced, AnnouncementCounts, BeingWritten};
pub use array::{Array, Record};
pub use bell::Bell;
pub use clamp::{ClampOf, Clamps, KernelClamps};
pub use domain_table::DOMAIN_IMAGE_BYTES;
pub use error::Error;
pub use host_line::HostLineCounts;
pub use kicks::kick_function;
pub use libbpf_rs::{PrintLevel, RingBuffer, set_print};
pub use load::Options;
pub use paracord_policy as policy;
pub use pmu_mail::{PMU_ANSWER_BYTES, PMU_ASK_BYTES};
pub use reserves::Reserves;
pub use sensor::{Capabilities, Sensor};
pub use vcpu::{Life, Refusals, Vcpu, Vm};
pub use whereabouts::Whereabouts;
