// SPDX-License-Identifier: GPL-2.0-only
//! Services of the daemon for other processes: the control socket and metrics.

use std::path::Path;
use std::thread::JoinHandle;

use crate::config::Config;
use crate::control::{Access, Server, Stop};
use crate::handle::DaemonHandle;
use crate::metrics::MetricsServer;

/// The running services. They end when this value is dropped.
pub struct Services {
    control: Stop,
    thread: Option<JoinHandle<()>>,
    _metrics: Option<MetricsServer>,
}

impl Services {
    /// Opens the sockets that `config` names, and serves them in threads of their own.
    ///
    /// # Errors
    /// One line that names the service that could not be started.
    pub fn start(config: &Config, handle: DaemonHandle) -> Result<Services, String> {
        let access = Access::new(&config.control.group, Path::new("/"));
        let metrics = MetricsServer::start(&config.metrics, access.group, handle.clone())
            .map_err(|e| e.to_string())?;
        let server =
            Server::bind(&config.control.socket, access, handle).map_err(|e| e.to_string())?;
        let control = server.stopper();
        let thread = std::thread::Builder::new()
            .name("paracord-ctl".into())
            .spawn(move || server.run())
            .map_err(|e| format!("control socket: {e}"))?;
        Ok(Services { control, thread: Some(thread), _metrics: metrics })
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
