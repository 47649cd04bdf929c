// SPDX-License-Identifier: GPL-2.0-only
//! Finds the maps of a loaded BPF object by name, and runs programs on a record.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use libbpf_rs::{Map, MapCore, Object, ProgramInput, ProgramMut};

use crate::{Array, Error, Record};

/// Finds a map by its name.
pub(crate) fn find_map<'a>(object: &'a Object, name: &'static str) -> Result<Map<'a>, Error> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| Error::Map { map: name, source: io::Error::from(io::ErrorKind::NotFound) })
}

/// Maps an array into this process. The array is found by its name.
pub(crate) fn map_array<T: Record>(object: &Object, name: &'static str) -> Result<Array<T>, Error> {
    let map = find_map(object, name)?;
    let fail = |source| Error::Map { map: name, source };
    if map.value_size() as usize != size_of::<T>() {
        return Err(fail(io::Error::from(io::ErrorKind::InvalidData)));
    }
    let fd: BorrowedFd<'_> = map.as_fd();
    Array::map(fd, map.max_entries() as usize).map_err(fail)
}

/// Runs a program of type `syscall` on a record, which the program may change.
pub(crate) fn run<T: Record>(
    program: &ProgramMut<'_>,
    name: &'static str,
    context: &mut T,
) -> Result<(), Error> {
    // SAFETY: the record consists of integers without padding (`Record`). The slice is used only
    // during the call.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(std::ptr::from_mut(context).cast::<u8>(), size_of::<T>())
    };
    let input = ProgramInput { context_in: Some(bytes), ..ProgramInput::default() };
    program.test_run(input).map_err(Error::bpf(name)).map(drop)
}
