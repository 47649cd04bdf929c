// SPDX-License-Identifier: GPL-2.0-only
//! Threads of a VMM that run no vCPU but work for the VM, and that get records like vCPUs
//! (bpf/adopt.h).

use paracord_policy::pc_adopt_call;

use crate::{Error, Sensor, Vcpu, load::ADOPT, object::run};

impl Sensor {
    /// Whether [`adopt_thread`](Sensor::adopt_thread) works on this kernel (since Linux 6.10).
    #[must_use]
    pub fn adopts_threads(&self) -> bool {
        self.programs().any(|program| program.name() == std::ffi::OsStr::new(ADOPT))
    }

    /// Gives a thread a record.
    ///
    /// The caller calls [`Vcpu::set_setup`] with `io` set, and then [`Vcpu::set_ready`], before it
    /// looks at new records. If the thread runs a vCPU later, the sensor reports this with
    /// `PC_MSG_NEW`, and [`Vcpu::has_entered`] is true.
    ///
    /// `None` if the thread is gone, belongs to another process or already has a record, or if no
    /// record is left.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel refuses to run the program.
    pub fn adopt_thread(&self, tid: u32, tgid: u32) -> Result<Option<Vcpu<'_>>, Error> {
        let Some(index) = self.take_index()? else { return Ok(None) };
        let Some(vcpu) = self.vcpus().get(index) else { return Ok(None) };
        vcpu.adopt(tid, tgid);
        let mut call = pc_adopt_call { tid, index, tgid, ..pc_adopt_call::default() };
        let ran = self.program(ADOPT).and_then(|program| run(&program, ADOPT, &mut call));
        if ran.is_ok() && call.found != 0 {
            return Ok(Some(vcpu));
        }
        self.release(&vcpu)?;
        ran.map(|()| None)
    }
}
