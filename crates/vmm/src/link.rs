// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Passes bytes between a serial port and its endpoint.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::endpoint::Endpoint;
use crate::serial::SerialPort;

const INPUT_BYTES: usize = 4096;

/// A serial port and its endpoint.
pub struct Link {
    port: Arc<SerialPort>,
    endpoint: Box<dyn Endpoint>,
    /// Bytes that were read, but that the port has not taken yet.
    input: Vec<u8>,
    guest_spoke: bool,
}

impl Link {
    /// Makes a link between a port and its endpoint.
    pub fn new(port: Arc<SerialPort>, endpoint: Box<dyn Endpoint>) -> Link {
        Link { port, endpoint, input: Vec::new(), guest_spoke: false }
    }

    /// The descriptors to poll before calling [`carry`](Self::carry).
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let input = self.endpoint.readable().filter(|_| self.input.is_empty());
        let output = self.endpoint.writable().filter(|_| self.wants_to_send());
        let read = input.as_ref().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
        let write = output.as_ref().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::OUT));
        read.into_iter().chain(write)
    }

    /// Whether output of the guest waits to be written.
    pub fn wants_to_send(&self) -> bool {
        !self.port.outbox().is_empty()
    }

    /// Passes on bytes in both directions, as far as this is possible without blocking.
    pub fn carry(&mut self) {
        self.send();
        if self.input.is_empty() && self.is_readable() {
            self.input.resize(INPUT_BYTES, 0);
            let read = self.endpoint.read(&mut self.input);
            self.input.truncate(read);
        }
        if !self.input.is_empty() && (self.guest_spoke || !self.endpoint.waits_for_guest()) {
            let taken = self.port.receive(&self.input);
            self.input.drain(..taken);
        }
    }

    /// Passes on the guest's output.
    pub fn send(&mut self) {
        self.guest_spoke |= self.wants_to_send();
        if self.endpoint.writable().is_none() {
            return self.port.outbox().discard();
        }
        while self.wants_to_send() && self.is_writable() {
            let taken = self.port.outbox().take(|bytes| self.endpoint.write(bytes));
            if taken == 0 {
                return;
            }
        }
    }

    fn is_readable(&self) -> bool {
        self.endpoint
            .readable()
            .is_some_and(|fd| is_ready(PollFd::from_borrowed_fd(fd, PollFlags::IN)))
    }

    fn is_writable(&self) -> bool {
        self.endpoint
            .writable()
            .is_some_and(|fd| is_ready(PollFd::from_borrowed_fd(fd, PollFlags::OUT)))
    }
}

fn is_ready(fd: PollFd<'_>) -> bool {
    let mut fds = [fd];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use vmm_sys_util::eventfd::EventFd;

    use super::*;
    use crate::bus::Device;
    use crate::endpoint::{OutputFile, Socket};
    use crate::wake::Wake;

    const DATA: u64 = 0;

    fn port() -> Arc<SerialPort> {
        let wake = Arc::new(Wake::new().unwrap());
        Arc::new(SerialPort::new(EventFd::new(0).unwrap(), &wake))
    }

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("paracord-vmm-link-{name}-{}", std::process::id()))
    }

    fn guest_reads(port: &SerialPort) -> u8 {
        let mut byte = [0];
        port.read(DATA, &mut byte);
        byte[0]
    }

    #[test]
    fn a_client_is_held_back_until_the_guest_has_spoken() {
        let (port, path) = (port(), path("held"));
        let mut link = Link::new(port.clone(), Box::new(Socket::listen(&path).unwrap()));
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"early").unwrap();
        link.carry();
        link.carry();
        assert_eq!(guest_reads(&port), 0, "no input has arrived");
        port.write(DATA, b"!");
        link.carry();
        let mut said = [0];
        client.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"!");
        assert_eq!([guest_reads(&port), guest_reads(&port)], *b"ea");
    }

    #[test]
    fn what_is_said_to_nobody_is_dropped() {
        let (port, path) = (port(), path("nobody"));
        let mut link = Link::new(port.clone(), Box::new(Socket::listen(&path).unwrap()));
        port.write(DATA, b"x");
        assert!(link.wants_to_send());
        link.carry();
        assert!(!link.wants_to_send());
    }

    #[test]
    fn input_that_the_port_has_no_room_for_waits() {
        let (port, path) = (port(), path("room"));
        let mut link = Link::new(port.clone(), Box::new(Socket::listen(&path).unwrap()));
        let mut client = UnixStream::connect(&path).unwrap();
        link.carry();
        port.write(DATA, b"!");
        let sent: Vec<u8> = (0..200).collect();
        client.write_all(&sent).unwrap();
        let mut got = Vec::new();
        while got.len() < sent.len() {
            link.carry();
            got.push(guest_reads(&port));
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn much_output_goes_into_a_file_in_order() {
        let (port, path) = (port(), path("file"));
        let mut link = Link::new(port.clone(), Box::new(OutputFile::create(&path).unwrap()));
        let sent: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        sent.iter().for_each(|byte| port.write(DATA, &[*byte]));
        link.carry();
        assert_eq!(std::fs::read(&path).unwrap(), sent);
        std::fs::remove_file(path).unwrap();
    }
}
