// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A serial port: vm-superio's 16550A behind a lock, with its interrupt, its output and its input.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vm_superio::serial::SerialEvents;
use vm_superio::{Serial, Trigger};
use vmm_sys_util::eventfd::EventFd;

use crate::bus::Device;
use crate::outbox::{Outbox, Sender};
use crate::wake::Wake;

/// Size of a port's registers, which have one byte each.
pub const SERIAL_BYTES: u64 = 8;

/// The interrupt line, edge-triggered through an irqfd.
pub struct Line(pub EventFd);

impl Trigger for Line {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

/// Notifies the main thread when the guest has read all input of the port, if more input is
/// waiting.
pub struct Hunger {
    waiting: AtomicBool,
    wake: Arc<Wake>,
}

impl SerialEvents for Hunger {
    fn buffer_read(&self) {}
    fn out_byte(&self) {}
    fn tx_lost_byte(&self) {}

    fn in_buffer_empty(&self) {
        if self.waiting.swap(false, Ordering::Relaxed) {
            self.wake.notify();
        }
    }
}

type Uart = Serial<Line, Arc<Hunger>, Sender>;

/// One serial port.
pub struct SerialPort {
    uart: Mutex<Uart>,
    hunger: Arc<Hunger>,
    outbox: Arc<Outbox>,
}

impl SerialPort {
    /// Makes a port that raises `line`. `wake` is notified when the main thread has work to do for
    /// the port.
    pub fn new(line: EventFd, wake: &Arc<Wake>) -> SerialPort {
        let outbox = Arc::new(Outbox::new(wake.clone()));
        let hunger = Arc::new(Hunger { waiting: AtomicBool::new(false), wake: wake.clone() });
        let uart = Serial::with_events(Line(line), hunger.clone(), Sender(outbox.clone()));
        SerialPort { uart: Mutex::new(uart), hunger, outbox }
    }

    /// The bytes that the guest has sent.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Passes bytes to the guest. Returns how many the port took. If it did not take all, it
    /// notifies the main thread when it can take more.
    pub fn receive(&self, bytes: &[u8]) -> usize {
        let mut uart = self.locked();
        // An error means that the FIFO is full, or that an interrupt is already pending.
        let taken = uart.enqueue_raw_bytes(bytes).unwrap_or(0);
        // This is stored under the lock, so that the guest cannot empty the FIFO in between.
        self.hunger.waiting.store(taken < bytes.len(), Ordering::Relaxed);
        taken
    }

    fn locked(&self) -> MutexGuard<'_, Uart> {
        self.uart.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each register is one byte. Accesses of another width read all ones and write nothing.
impl Device for SerialPort {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match (data, u8::try_from(offset)) {
            ([byte], Ok(offset)) => *byte = self.locked().read(offset),
            (data, _) => data.fill(0xff),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let ([byte], Ok(offset)) = (data, u8::try_from(offset)) {
            // An error means that a byte was lost, which the outbox counts, or that an interrupt is
            // already pending.
            let _ = self.locked().write(offset, *byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u64 = 0;
    const INTERRUPT_ENABLE: u64 = 1;
    const LINE_STATUS: u64 = 5;

    fn port() -> (SerialPort, EventFd, Arc<Wake>) {
        let line = EventFd::new(rustix::event::EventfdFlags::NONBLOCK.bits() as i32).unwrap();
        let wake = Arc::new(Wake::new().unwrap());
        (SerialPort::new(line.try_clone().unwrap(), &wake), line, wake)
    }

    fn read(port: &SerialPort, offset: u64) -> u8 {
        let mut byte = [0];
        port.read(offset, &mut byte);
        byte[0]
    }

    #[test]
    fn what_the_guest_sends_is_taken() {
        let (port, _, wake) = port();
        port.write(DATA, b"h");
        port.write(DATA, b"i");
        assert!(wake.clear());
        let mut sent = Vec::new();
        let take = |bytes: &[u8]| {
            sent.extend_from_slice(bytes);
            bytes.len()
        };
        assert_eq!(port.outbox().take(take), 2);
        assert_eq!(sent, b"hi");
    }

    #[test]
    fn input_interrupts_and_goes_on_when_it_was_read() {
        let (port, line, wake) = port();
        port.write(INTERRUPT_ENABLE, &[1]);
        let taken = port.receive(&[7; 100]);
        assert!(taken > 0 && taken < 100);
        assert!(line.read().is_ok(), "there is data, so the port raises its interrupt");
        assert!(!wake.clear());
        for _ in 0..taken {
            assert_eq!((read(&port, LINE_STATUS) & 1, read(&port, DATA)), (1, 7));
        }
        assert_eq!(read(&port, LINE_STATUS) & 1, 0);
        assert!(wake.clear(), "the port can take the rest");
        assert_eq!(port.receive(&[7; 3]), 3);
        for _ in 0..3 {
            read(&port, DATA);
        }
        assert!(!wake.clear(), "no input is left");
    }

    #[test]
    fn other_widths_do_nothing() {
        let (port, _, _) = port();
        port.write(DATA, &[1, 2]);
        port.write(u64::MAX, &[1]);
        assert!(port.outbox().is_empty());
        let mut wide = [0; 4];
        port.read(DATA, &mut wide);
        assert_eq!(wide, [0xff; 4]);
    }
}
