// SPDX-License-Identifier: GPL-2.0-only
//! Services of the daemon for other processes: the control socket and metrics.

use std::fmt::Display;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tracing::warn;

use crate::config::Config;
use crate::control::{Access, Server, Stop};
use crate::handle::DaemonHandle;
use crate::metrics::MetricsServer;
use crate::regions::declared;

/// How long the lookup of the group `control.group` may take.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(5);

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
        declared::make(config, true);
        let group = config.control.group.clone();
        let access = access(&config.control.group, LOOKUP_PATIENCE, move || Access::new(&group));
        let metrics = MetricsServer::start(&config.metrics, access.group, handle.clone())
            .map_err(|e| e.to_string())?;
        let server =
            Server::bind(&config.control.socket, access, handle).map_err(|e| e.to_string())?;
        let control = server.stopper();
        let thread = Builder::new()
            .name("paracord-ctl".into())
            .spawn(move || server.run())
            .map_err(|e| format!("control socket: {e}"))?;
        Ok(Services { control, thread: Some(thread), _metrics: metrics })
    }
}

/// Returns who may use the sockets. If the group cannot be looked up within `patience`, only root
/// may use the sockets. The daemon starts nevertheless, so that VMs are boosted. Another thread
/// asks the name service, because the name service may never answer.
fn access<E: Display + Send + 'static>(
    group: &str,
    patience: Duration,
    look_up: impl FnOnce() -> Result<Access, E> + Send + 'static,
) -> Access {
    let (answer, answered) = channel();
    let asked = Builder::new().name("paracord-group".into()).spawn(move || {
        let _ = answer.send(look_up());
    });
    let why = match (asked, answered.recv_timeout(patience)) {
        (Ok(_), Ok(Ok(access))) => return access,
        (Ok(_), Ok(Err(error))) => error.to_string(),
        (Ok(_), Err(_)) => format!("the name service does not answer within {patience:?}"),
        (Err(error), _) => error.to_string(),
    };
    warn!(
        "control.group: {why}: only root may use the sockets. When `getent group {group}` answers, restart the daemon"
    );
    Access::own()
}

impl Drop for Services {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_service_that_hangs_does_not_keep_the_daemon_from_starting() {
        let (never, hangs) = channel::<Result<Access, String>>();
        let access_of = access("web", Duration::from_millis(20), move || {
            hangs.recv().unwrap_or_else(|_| Err("ended".to_owned()))
        });
        assert_eq!(access_of, Access::own());
        drop(never);
        let group = Access { group: Some(7), ..Access::own() };
        let found = access("web", Duration::from_secs(10), move || Ok::<_, String>(group));
        assert_eq!(found.group, Some(7));
        let refused = access("web", Duration::from_secs(10), || Err::<Access, _>("no answer"));
        assert_eq!(refused, Access::own());
    }
}
