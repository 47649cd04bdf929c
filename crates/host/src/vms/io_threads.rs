// SPDX-License-Identifier: GPL-2.0-only
//! VMM threads that are not vCPUs: the main loop, I/O threads, workers, and vhost threads since
//! Linux 6.4. Each of them works for only one VM, whose guest waits for the work.

use std::collections::BTreeMap;
use std::path::Path;

use paracord_sys::proc;

use crate::vms::identity::{printable, vcpu_id_of_thread};

/// Maximum number of records for the VMM threads of one process that are not vCPUs.
pub const PER_VM: usize = 16;
/// Maximum number of such records for all VMs of a user other than root.
pub const PER_USER: usize = 256;
/// Maximum number of such records for all VMs. The other three quarters of all records are for
/// vCPUs.
pub const IN_ALL: usize = 1024;
/// Maximum number of VMs that one search covers. The limit bounds the time of a search, however
/// many VMs there are.
pub const VMS_AT_ONCE: usize = 64;
/// Maximum number of unknown threads that one search looks at. This limit also bounds the time of a
/// search.
pub const LOOKS_AT_ONCE: usize = 256;

/// A VMM thread that is not a vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoThread {
    /// Thread ID.
    pub tid: u32,
    /// ID of its process.
    pub pid: u32,
    /// The user whose record limit the thread counts against.
    pub uid: u32,
    /// Name of the thread when it was found.
    pub name: String,
}

/// Maps the index of a record to its thread. An entry stays until the thread ends. Some threads
/// outlive their VM.
pub type IoThreads = BTreeMap<u32, IoThread>;

/// Returns the tid and the name of each thread of process `pid` for which `knows` returns false.
/// Skips threads that are named like vCPUs, because such a thread will enter its guest later. Looks
/// at no more than `looks` threads, and subtracts their number from `looks`.
pub fn find<'a>(
    proc_root: &'a Path,
    pid: u32,
    knows: impl Fn(u32) -> bool + 'a,
    looks: &'a mut usize,
) -> impl Iterator<Item = (u32, String)> + 'a {
    let threads = proc::threads(proc_root, pid).into_iter().flatten().take(LOOKS_AT_ONCE);
    let mut look = move || {
        let may = *looks > 0;
        *looks = looks.saturating_sub(1);
        may
    };
    let new = threads.filter(move |tid| !knows(*tid)).take_while(move |_| look());
    new.filter(|tid| vcpu_id_of_thread(proc_root, *tid).is_none())
        .filter_map(|tid| Some((tid, printable(&proc::comm(proc_root, tid).ok()?))))
}

/// Returns how many more threads that are not vCPUs may get a record in process `pid` of user
/// `uid`.
pub fn room(all: &IoThreads, pid: u32, uid: u32) -> usize {
    let user = if uid == 0 { IN_ALL } else { PER_USER };
    let have =
        |is_counted: &dyn Fn(&IoThread) -> bool| all.values().filter(|one| is_counted(one)).count();
    let left = |most: usize, have: usize| most.saturating_sub(have);
    left(PER_VM, have(&|one| one.pid == pid))
        .min(left(user, have(&|one| one.uid == uid)))
        .min(left(IN_ALL, all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize, pid: u32, uid: u32, from: usize) -> IoThreads {
        let one = |n: usize| {
            (u32::try_from(from + n).unwrap(), IoThread { tid: 1, pid, uid, name: String::new() })
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_vm_a_user_and_the_host_have_so_many() {
        let mut all = threads(PER_USER - 2, 7, 1000, 0);
        assert_eq!(room(&all, 8, 1000), 2);
        assert_eq!(room(&all, 8, 1001), PER_VM);
        assert_eq!(room(&all, 7, 0), 0);
        all.extend(threads(3, 9, 0, 500));
        assert_eq!(room(&all, 9, 0), PER_VM - 3);
        all.extend(threads(IN_ALL - all.len() - 1, 10, 0, 1000));
        assert_eq!(room(&all, 11, 0), 1);
    }

    #[test]
    fn vcpus_and_known_threads_are_left_out() {
        let root = std::env::temp_dir().join(format!("paracord-io-{}", std::process::id()));
        for (tid, name) in [(7, "qemu"), (8, "CPU 0/KVM"), (9, "IO iothread0"), (10, "worker")] {
            std::fs::create_dir_all(root.join(format!("7/task/{tid}"))).unwrap();
            std::fs::create_dir_all(root.join(tid.to_string())).unwrap();
            std::fs::write(root.join(format!("{tid}/comm")), format!("{name}\n")).unwrap();
        }
        let mut looks = 256;
        let mut found: Vec<_> = find(&root, 7, |tid| tid == 10, &mut looks).collect();
        found.sort();
        assert_eq!(found, [(7, "qemu".to_owned()), (9, "IO iothread0".to_owned())]);
        assert_eq!(looks, 253);
        let mut looks = 1;
        assert!(find(&root, 7, |_| false, &mut looks).count() <= 1);
        std::fs::remove_dir_all(root).unwrap();
    }
}
