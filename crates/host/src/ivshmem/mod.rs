// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts for guests of an unmodified QEMU. The daemon is the server of QEMU's
//! `ivshmem-doorbell` devices.
//!
//! Each region has its own socket, `ivshmem/NAME` in the run directory. The socket belongs to the
//! owner of the region. A QEMU that connects gets the memory of the region and one vector per vCPU.
//! KVM turns the eventfd of a vector into an interrupt.
//!
//! | part | job |
//! |---|---|
//! | [`server`] | sockets of regions that come and go, and the connected VMs |
//! | [`protocol`] | the messages to QEMU |
//! | [`kept`] | finds a running VM's vectors again after the daemon has died |

mod kept;
mod protocol;
mod server;
mod vectors;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use crate::log_limit::UserLog;
use crate::regions::region::Region;
use crate::stop_thread::StopThread;
use crate::vms::identity::Identity;
use server::{Connected, Server};

pub use vectors::Vectors;

/// Path of the socket of a region. The directory of the socket exists while a daemon serves
/// regions.
pub fn socket_path(run_dir: &Path, region: &str) -> PathBuf {
    run_dir.join(DIRECTORY).join(region)
}

const DIRECTORY: &str = "ivshmem";

/// The server. Dropping this value removes the sockets. Vectors that VMs have received continue to
/// work.
pub struct Ivshmem {
    directory: PathBuf,
    proc_root: PathBuf,
    connected: Arc<Connected>,
    _thread: StopThread,
}

impl Ivshmem {
    /// Serves the regions in `region_dir`, including regions that are created later. If a directory
    /// cannot be used, the server tries again at intervals.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(run_dir: &Path, region_dir: &Path, proc_root: &Path) -> io::Result<Ivshmem> {
        let directory = run_dir.join(DIRECTORY);
        let connected = Arc::<Connected>::default();
        let mut server = Server::new(&directory, region_dir, Arc::clone(&connected));
        let thread = StopThread::start("paracord-pci".into(), move |stop| server.run(stop))?;
        let proc_root = proc_root.to_owned();
        Ok(Ivshmem { directory, proc_root, connected, _thread: thread })
    }

    /// The vectors of a VM that maps `region`. `None` if the VM has no interrupts.
    pub fn vectors(&self, region: &Region, vm: &Identity, log: &UserLog) -> Option<Arc<Vectors>> {
        let note = self.directory.join(format!(".{}", region.name));
        let Some(vectors) = self.connected.vectors(&region.name, region.identity) else {
            return kept::find(&note, &self.proc_root, vm).map(Arc::new);
        };
        let kept = kept::keep(&note, &self.proc_root, vm, &vectors);
        if let Some(error) = kept.err().filter(|_| log.allow()) {
            warn!(vm = vm.name, "after the daemon dies nothing will be sampled: {error}");
        }
        Some(vectors)
    }
}
