// SPDX-License-Identifier: GPL-2.0-only
//! A ring buffer for each CPU. Through it, the sensor wakes the CPU's worker when a guest on that
//! CPU sends a batch of counter requests, or when one of the guest's counters overflows.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::{Error, Sensor};

/// The ring buffer of a CPU, for the thread that waits for entries in it.
pub struct Bell<'a> {
    ring: RingBuffer<'a>,
    // The ring buffer waits on this map's descriptor, so the map must stay open.
    _map: MapHandle,
}

impl Sensor {
    /// Creates the ring buffer of a CPU. [`Bell::consume`] then calls `on_ring` with the index of
    /// each vCPU that has rung the bell.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses the ring buffer.
    pub fn bell<'a>(&self, cpu: u32, mut on_ring: impl FnMut(u32) + 'a) -> Result<Bell<'a>, Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let bytes = u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX);
        let map = MapHandle::create(MapType::RingBuf, Some("bell"), 0, 0, bytes, &options)
            .map_err(Error::bpf("making a ring buffer"))?;
        self.map("bells")?
            .update(&cpu.to_ne_bytes(), &map.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("giving a CPU its ring buffer"))?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, move |bytes: &[u8]| {
                if let Some(index) = bytes.first_chunk() {
                    on_ring(u32::from_ne_bytes(*index));
                }
                0
            })
            .map_err(Error::bpf("ring buffer"))?;
        let ring = builder.build().map_err(Error::bpf("ring buffer"))?;
        Ok(Bell { ring, _map: map })
    }

    /// The program for perf events of vCPU threads. It rings the bell of the CPU on which such an
    /// event overflows.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if there is no such program, or no file descriptor is left.
    pub fn overflow_program(&self) -> Result<OwnedFd, Error> {
        let program = self.program("overflow")?;
        program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::Bpf { step: "program for overflows", source: error.into() })
    }
}

impl Bell<'_> {
    /// Calls `on_ring` with the index of each vCPU that has rung the bell.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`].
    pub fn consume(&self) -> Result<(), Error> {
        self.ring.consume().map_err(Error::bpf("reading a ring buffer"))
    }
}

impl AsFd for Bell<'_> {
    /// A descriptor that is readable when a vCPU has rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to the ring buffer and is open as long as the ring buffer
        // exists.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }
}
