// SPDX-License-Identifier: GPL-2.0-only
//! A ring buffer per CPU, by which the sensor wakes the worker of the CPU on which a guest asks for its counters, or
//! on which they overflow.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::{Error, Sensor};

/// A CPU's ring, in the thread that waits for it.
pub struct Bell<'a> {
    ring: RingBuffer<'a>,
    // Its descriptor is what the thread waits for.
    _map: MapHandle,
}

impl Sensor {
    /// The ring of a CPU, from now on. `on_ring` gets the index of each vCPU that has asked.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] when the kernel refuses it.
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

    /// The program for perf events on vCPU threads that rings the CPU's bell when they overflow.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] without such a program, or without a descriptor left.
    pub fn overflow_program(&self) -> Result<OwnedFd, Error> {
        let program = self.program("overflow")?;
        program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::Bpf { step: "program for overflows", source: error.into() })
    }
}

impl Bell<'_> {
    /// Hands over what has rung.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`].
    pub fn consume(&self) -> Result<(), Error> {
        self.ring.consume().map_err(Error::bpf("reading a ring buffer"))
    }
}

impl AsFd for Bell<'_> {
    /// Readable when something has rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring buffer's own, open as long as it.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }
}
