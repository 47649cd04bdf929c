// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Runs a VM until it ends. The main thread passes bytes between serial ports and their endpoints,
//! and waits for signals. The vCPU threads do the rest.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paracord_devices::pmu::Stats;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::config::{Config, Console};
use crate::cpufreq::Housekeeping;
use crate::endpoint::{Endpoint, OutputFile, Socket, Standard};
use crate::error::{self, Error};
use crate::link::Link;
use crate::machine::{Devices, Machine};
use crate::stop::End;
use crate::vcpu::Shared;
use crate::wake::Wake;

/// Maximum time, after the VM has ended, to write the guest's last output to a reader that is still
/// connected.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// Builds the VM, runs it, and takes it down. Returns why the VM ended, which is never
/// [`End::Failed`].
///
/// # Errors
/// [`Error`].
pub fn run(config: &Config) -> Result<End, Error> {
    let wake = Arc::new(Wake::new().map_err(error::system("eventfd"))?);
    let ends = stream_of(&[SIGTERM, SIGINT])?;
    let questions = stream_of(&[SIGUSR1])?;
    let Machine { threads, devices, shared, backing } = Machine::build(config, &wake)?;
    let [console, channel] = &devices.serial;
    let mut links = vec![Link::new(console.clone(), console_endpoint(&config.console)?)];
    if let Some(path) = &config.channel {
        links.push(Link::new(channel.clone(), Box::new(Socket::listen(path)?)));
    }
    let stop = shared.stop.clone();
    let housekeeping = devices.cpufreq.clone().map(|cpufreq| {
        Housekeeping::start(cpufreq, &threads.tids()).map_err(error::system("/proc/self/task"))
    });
    let housekeeping = housekeeping.transpose()?;
    let running = threads.run();
    while !stop.requested() {
        if let Err(error) = wait(&wake, &[&ends, &questions], &links, None) {
            stop.request(End::Failed(error.to_string()));
        }
        wake.clear();
        if received(&ends) {
            stop.request(End::Told);
        }
        if received(&questions) {
            eprintln!("paracord-vmm: {}: {}", config.name, summary(&devices, &shared, "runs"));
        }
        links.iter_mut().for_each(Link::carry);
    }
    drop(housekeeping);
    running.end();
    drop(backing);
    flush(&wake, &mut links);
    if config.verbose {
        let why = why(stop.end());
        eprintln!("paracord-vmm: {}: {}", config.name, summary(&devices, &shared, why));
    }
    match stop.end() {
        Some(End::Failed(why)) => Err(Error::Guest(why)),
        end => Ok(end.unwrap_or(End::Told)),
    }
}

fn why(end: Option<End>) -> &'static str {
    match end {
        Some(End::PoweredOff) => "the guest powered off",
        Some(End::Restarted) => "the guest restarts",
        Some(End::Told) | None => "ended by a signal",
        Some(End::Failed(_)) => "failed",
    }
}

/// A line with what the VM does, the guest's accesses that no device answered, and the cost of
/// counters.
fn summary(devices: &Devices, shared: &Shared, does: &str) -> String {
    let lost: u64 = devices.serial.iter().map(|port| port.outbox().lost_bytes()).sum();
    let (memory, ports) = (shared.mmio.strays(), shared.ports.strays());
    let misplaced = devices.pci.as_ref().map_or(0, |pci| pci.misplaced());
    format!(
        "{does}; accesses to nothing: {memory} in memory, {ports} at ports; serial output lost: {lost} bytes; \
         region put where it cannot be: {misplaced} times{}",
        shared.pmu.as_ref().map_or_else(String::new, |pmu| counted(pmu.stats(), pmu.spent()))
    )
}

/// The cost of counters.
fn counted(stats: Stats, spent: Duration) -> String {
    let Stats { openings, cold_openings, closings, reuses, refusals } = stats;
    format!(
        "; perf events opened: {openings}, of these cold: {cold_openings}, closed: {closings}, used again: {reuses}; \
         counters refused: {refusals}; in system calls: {} us",
        spent.as_micros()
    )
}

fn console_endpoint(console: &Console) -> Result<Box<dyn Endpoint>, Error> {
    Ok(match console {
        Console::Standard => Box::new(Standard::take()?),
        Console::File(path) => Box::new(OutputFile::create(path)?),
    })
}

/// A stream that becomes readable when one of the signals was received.
fn stream_of(signals: &[i32]) -> Result<UnixStream, Error> {
    let (receiver, sender) = UnixStream::pair().map_err(error::system("signal pipe"))?;
    receiver.set_nonblocking(true).map_err(error::system("signal pipe"))?;
    for signal in signals {
        let sender = sender.try_clone().map_err(error::system("signal pipe"))?;
        signal_hook::low_level::pipe::register(*signal, sender)
            .map_err(error::system("signal handler"))?;
    }
    Ok(receiver)
}

fn received(signals: &UnixStream) -> bool {
    rustix::io::read(signals, &mut [0u8; 16]).is_ok()
}

/// Waits until bytes can be passed on, a signal or a notification arrives, or the time is over.
fn wait(
    wake: &Wake,
    signals: &[&UnixStream],
    links: &[Link],
    time: Option<Duration>,
) -> Result<(), Error> {
    let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
    fds.extend(signals.iter().map(|stream| PollFd::new(*stream, PollFlags::IN)));
    for link in links {
        fds.extend(link.poll_fds());
    }
    let timeout = time.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(source) => Err(Error::System { what: "poll", source: source.into() }),
    }
}

/// Writes the guest's last output, as long as a reader takes it.
fn flush(wake: &Wake, links: &mut [Link]) {
    let end = Instant::now() + FLUSH_TIME;
    loop {
        links.iter_mut().for_each(Link::send);
        let left = end.saturating_duration_since(Instant::now());
        let pending: Vec<&Link> = links.iter().filter(|link| link.wants_to_send()).collect();
        if pending.is_empty() || left.is_zero() || wait(wake, &[], links, Some(left)).is_err() {
            return;
        }
        wake.clear();
    }
}
