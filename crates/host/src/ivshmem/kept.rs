// SPDX-License-Identifier: GPL-2.0-only
//! Finds the vectors of a running VM again after the daemon has died. Vectors are eventfds that
//! outlive the daemon, because KVM uses them and QEMU holds their file descriptors. A note (a file)
//! records the ids that these eventfds have in /proc/PID/fdinfo. With these ids, the next daemon
//! finds the descriptors in QEMU, and copies them with pidfd_getfd(2).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use paracord_sys::proc;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::vectors::Vectors;
use crate::vms::identity::Identity;

/// Maximum number of bytes that are read from a note. A note contains a VM's identity and the ids
/// of its vectors.
const NOTE_BYTES: u64 = 16 << 10;
/// Target of the symbolic link in /proc/PID/fd for an eventfd.
const EVENTFD: &str = "anon_inode:[eventfd]";
/// Maximum number of bytes that are read from the fdinfo of an eventfd.
const FDINFO_BYTES: u64 = 4 << 10;
/// Maximum number of descriptors of a process that are examined. The user of the VM can open as
/// many descriptors as the limit of the process permits. But QEMU opens the vectors early, so they
/// are among the first descriptors.
const FDS_MAX: usize = 4096;

/// Writes a note about the vectors of a VM to `path`.
///
/// # Errors
/// If the file cannot be written, or if the kernel does not number eventfds.
pub fn keep(path: &Path, proc_root: &Path, vm: &Identity, vectors: &Vectors) -> io::Result<()> {
    let own = std::process::id();
    let mut note = format!("{} {}\n", vm.pid, vm.start_ticks);
    for vector in &vectors.0 {
        let number = number_of(proc_root, own, vector.as_raw_fd())?;
        note.push_str(&format!("{number}\n"));
    }
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(note.as_bytes())?;
    fs::rename(new, path)
}

/// Copies the vectors that the note at `path` lists, if they belong to this VM. Removes a note
/// about another VM.
pub fn find(path: &Path, proc_root: &Path, vm: &Identity) -> Option<Vectors> {
    let mut note = String::new();
    File::open(path).ok()?.take(NOTE_BYTES).read_to_string(&mut note).ok()?;
    let mut lines = note.lines();
    if lines.next() != Some(&format!("{} {}", vm.pid, vm.start_ticks)) {
        let _ = fs::remove_file(path);
        return None;
    }
    let pid = Pid::from_raw(vm.pid.try_into().ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Check the start time after pidfd_open(2), so that the pidfd certainly belongs to this VM.
    if proc::start_ticks(proc_root, vm.pid).ok() != Some(vm.start_ticks) {
        return None;
    }
    let held = numbers(proc_root, vm.pid).ok()?;
    let vector = |line: &str| {
        let number = line.parse().ok()?;
        let copy = pidfd_getfd(&process, *held.get(&number)?, PidfdGetfdFlags::empty()).ok()?;
        // The VM may have closed the descriptor and opened another one with the same number.
        let ours = number_of(proc_root, std::process::id(), copy.as_raw_fd()).ok()?;
        (ours == number).then_some(copy)
    };
    lines.map(vector).collect::<Option<Vec<OwnedFd>>>().map(Vectors)
}

/// The id of eventfd `fd` of process `pid`. Refuses descriptors of other files, because the fdinfo
/// of such a descriptor may be very long.
fn number_of(proc_root: &Path, pid: u32, fd: i32) -> io::Result<u32> {
    if fs::read_link(proc_root.join(format!("{pid}/fd/{fd}")))? != Path::new(EVENTFD) {
        return Err(io::Error::other("not an eventfd"));
    }
    let mut text = String::new();
    let file = File::open(proc_root.join(format!("{pid}/fdinfo/{fd}")))?;
    file.take(FDINFO_BYTES).read_to_string(&mut text)?;
    let number = text.lines().find_map(|line| line.strip_prefix("eventfd-id:"));
    let number = number.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the kernel does not number eventfds (before Linux 5.2)"))
}

/// The descriptors of the eventfds of process `pid`, by id. At most [`FDS_MAX`] descriptors are
/// examined.
fn numbers(proc_root: &Path, pid: u32) -> io::Result<BTreeMap<u32, RawFd>> {
    let mut numbers = BTreeMap::new();
    for entry in fs::read_dir(proc_root.join(format!("{pid}/fdinfo")))?.flatten().take(FDS_MAX) {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(number) = number_of(proc_root, pid, fd) {
            numbers.insert(number, fd);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn vm(pid: u32, start_ticks: u64) -> Identity {
        let (name, vmm) = ("web".to_owned(), "qemu".to_owned());
        Identity { name, uuid: None, pid, start_ticks, vmm, uid: 0, cgroup: None }
    }

    #[test]
    fn vectors_are_found_again_in_the_vm_that_has_them() {
        let (dir, proc_root) = (tempfile::tempdir().unwrap(), Path::new("/proc"));
        let note = dir.path().join(".web");
        let vectors = Vectors::new(3).unwrap();
        let own = std::process::id();
        let vm = vm(own, proc::start_ticks(proc_root, own).unwrap());
        assert!(find(&note, proc_root, &vm).is_none());
        keep(&note, proc_root, &vm, &vectors).unwrap();
        keep(&note, proc_root, &vm, &vectors).unwrap();
        let found = find(&note, proc_root, &vm).unwrap();
        assert_eq!(found.0.len(), 3);
        found.raise(2);
        let mut count = [0; 8];
        rustix::io::read(&vectors.0[2], &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    #[test]
    fn vectors_that_the_vm_has_closed_are_not_found() {
        let (dir, proc_root) = (tempfile::tempdir().unwrap(), Path::new("/proc"));
        let note = dir.path().join(".web");
        // Use another process, because in this process, eventfds of other tests soon reuse the ids
        // of closed eventfds.
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let vm = vm(process.id(), proc::start_ticks(proc_root, process.id()).unwrap());
        keep(&note, proc_root, &vm, &Vectors::new(3).unwrap()).unwrap();
        assert!(find(&note, proc_root, &vm).is_none());
        assert!(note.exists(), "the note is of this VM");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// The fdinfo of other files can be long. For example, the fdinfo of an inotify descriptor
    /// lists all its watches.
    #[test]
    fn only_eventfds_are_read() {
        let (own, proc_root) = (std::process::id(), Path::new("/proc"));
        let file = File::open("/proc/self/status").unwrap();
        let error = number_of(proc_root, own, file.as_raw_fd()).unwrap_err();
        assert_eq!(error.to_string(), "not an eventfd");
        let vectors = Vectors::new(1).unwrap();
        number_of(proc_root, own, vectors.0[0].as_raw_fd()).unwrap();
    }

    /// A VMM can open hundreds of thousands of descriptors.
    #[test]
    fn only_so_many_descriptors_are_examined() {
        let root = tempfile::tempdir().unwrap();
        let (links, infos) = (root.path().join("42/fd"), root.path().join("42/fdinfo"));
        fs::create_dir_all(&links).unwrap();
        fs::create_dir_all(&infos).unwrap();
        for fd in 0..FDS_MAX + 10 {
            std::os::unix::fs::symlink(EVENTFD, links.join(fd.to_string())).unwrap();
            fs::write(infos.join(fd.to_string()), format!("eventfd-id: {fd}\n")).unwrap();
        }
        assert_eq!(numbers(root.path(), 42).unwrap().len(), FDS_MAX);
    }

    #[test]
    fn a_note_of_another_vm_is_removed() {
        let (dir, proc_root) = (tempfile::tempdir().unwrap(), Path::new("/proc"));
        let note = dir.path().join(".web");
        let own = std::process::id();
        keep(&note, proc_root, &vm(own, 1), &Vectors::new(1).unwrap()).unwrap();
        assert!(find(&note, proc_root, &vm(own, 2)).is_none());
        assert!(!note.exists());
    }
}
