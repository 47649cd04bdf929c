// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts for guests of an unmodified QEMU: the daemon is the server of its `ivshmem-doorbell` devices.
//!
//! Each region has a socket of its own, `ivshmem/NAME` in the run directory, which belongs to the region's owner. A
//! QEMU that connects gets the region's memory and a vector per vCPU; KVM takes a vector's eventfd for an interrupt.
//!
//! | part | job |
//! |---|---|
//! | [`server`] | sockets of regions that come and go, and who is connected |
//! | [`protocol`] | what a QEMU is sent |
//! | [`kept`] | finds a running VM's vectors again after the daemon has died |

mod kept;
mod protocol;
mod server;
mod vectors;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use crate::regions::region::Region;
use crate::stop_thread::StopThread;
use crate::vms::identity::Identity;
use server::{Connected, Server};

pub use vectors::Vectors;

/// Where the socket of a region appears; its directory exists while a daemon serves.
pub fn socket_path(run_dir: &Path, region: &str) -> PathBuf {
    run_dir.join(DIRECTORY).join(region)
}

const DIRECTORY: &str = "ivshmem";

/// The server. Dropping it removes the sockets; vectors that were given away work on.
pub struct Ivshmem {
    directory: PathBuf,
    proc_root: PathBuf,
    connected: Arc<Connected>,
    _thread: StopThread,
}

impl Ivshmem {
    /// Serves the regions of `region_dir`, those to come as well. A directory that cannot be used is tried again.
    ///
    /// # Errors
    /// No thread.
    pub fn start(run_dir: &Path, region_dir: &Path, proc_root: &Path) -> io::Result<Ivshmem> {
        let directory = run_dir.join(DIRECTORY);
        let connected = Arc::<Connected>::default();
        let mut server = Server::new(&directory, region_dir, Arc::clone(&connected));
        let thread = StopThread::start("paracord-pci".into(), move |stop| server.run(stop))?;
        let proc_root = proc_root.to_owned();
        Ok(Ivshmem { directory, proc_root, connected, _thread: thread })
    }

    /// The vectors of a VM that maps `region`; `None` where it has no interrupts.
    pub fn vectors(&self, region: &Region, vm: &Identity) -> Option<Arc<Vectors>> {
        let note = self.directory.join(format!(".{}", region.name));
        let Some(vectors) = self.connected.vectors(&region.name, region.identity) else {
            return kept::find(&note, &self.proc_root, vm).map(Arc::new);
        };
        if let Err(error) = kept::keep(&note, &self.proc_root, vm, &vectors) {
            warn!(vm = vm.name, "after the daemon dies nothing will be sampled: {error}");
        }
        Some(vectors)
    }
}
