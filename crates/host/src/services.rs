// SPDX-License-Identifier: GPL-2.0-only
//! Services of the daemon for other processes: the control socket and metrics.

use std::thread::JoinHandle;

use tracing::warn;

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
        let access = access(&config.control.group);
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

/// Who may use the sockets. If the group cannot be looked up, the VMs are still boosted.
fn access(group: &str) -> Access {
    Access::new(group).unwrap_or_else(|error| {
        warn!(
            "control.group: {error}: only root may use the sockets. When `getent group {group}` answers, restart the daemon"
        );
        Access::own()
    })
}

impl Drop for Services {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
