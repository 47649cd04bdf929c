// SPDX-License-Identifier: GPL-2.0-only
//! The messages of an ivshmem server (docs/specs/ivshmem-spec.rst of QEMU, "Messages"): 64-bit
//! little-endian numbers, some with a file descriptor. The client sends nothing.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};

use super::vectors::Vectors;

const VERSION: i64 = 0;
/// The ID that distinguishes the client from its peers. A client has no peers here.
const CLIENT: i64 = 0;
const MEMORY: i64 = -1;

/// Sends a new client everything that it will ever get: the protocol version, the client's ID, the
/// memory, and the client's own vectors.
///
/// # Errors
/// The error of sendmsg(2). `WouldBlock` if the client does not read and there are many vectors.
pub fn welcome(client: impl AsFd, memory: impl AsFd, vectors: &Vectors) -> io::Result<()> {
    let client = client.as_fd();
    // For each message, the kernel charges a hundred times the size of the message to the send
    // buffer, so request a larger buffer. If the request is refused, the default size must suffice.
    let _ = sockopt::set_socket_send_buffer_size_force(client, 1 << 20);
    send(client, VERSION, None)?;
    send(client, CLIENT, None)?;
    send(client, MEMORY, Some(memory.as_fd()))?;
    vectors.0.iter().try_for_each(|vector| send(client, CLIENT, Some(vector.as_fd())))
}

fn send(client: BorrowedFd<'_>, number: i64, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(fd) = &fd {
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(fd)));
    }
    let bytes = number.to_le_bytes();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(client, &[IoSlice::new(&bytes)], &mut control, flags)? {
        8 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::IoSliceMut;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    /// Receives the next message in the same way as QEMU.
    pub fn receive(stream: &UnixStream) -> (i64, Option<OwnedFd>) {
        let (mut bytes, mut fd) = ([0; 8], None);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        assert_eq!(got.bytes, 8);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fd = fds.last();
            }
        }
        (i64::from_le_bytes(bytes), fd)
    }

    #[test]
    fn a_client_gets_memory_and_vectors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let vectors = Vectors::new(2).unwrap();
        welcome(&ours, std::io::stdin(), &vectors).unwrap();
        assert_eq!((receive(&theirs).0, receive(&theirs).0), (0, 0));
        let memory = receive(&theirs);
        assert!(memory.0 == -1 && memory.1.is_some());
        assert_eq!(receive(&theirs).0, 0);
        let (number, last) = receive(&theirs);
        assert_eq!(number, 0);
        let mut count = [0; 8];
        assert!(rustix::io::read(last.as_ref().unwrap(), &mut count).is_err());
        vectors.raise(2);
        vectors.raise(1);
        rustix::io::read(last.as_ref().unwrap(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    #[test]
    fn as_many_vectors_as_there_are_fit_a_client_that_does_not_read() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let vectors = Vectors::new(u32::MAX).unwrap();
        assert_eq!(vectors.0.len(), Vectors::MAX as usize);
        welcome(&ours, std::io::stdin(), &vectors).unwrap();
    }
}
