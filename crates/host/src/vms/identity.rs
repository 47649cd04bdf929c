// SPDX-License-Identifier: GPL-2.0-only
//! Identity of a VM: the data in procfs about the process whose threads run its vCPUs.

use std::path::Path;

use paracord_sys::proc::{self, ProcError};

use crate::config::Who;
use crate::vms::conventions::{Arguments, vcpu_id};

/// Longest name that is kept. The name comes from the VMM's command line.
const NAME_MAX_CHARS: usize = 80;

/// The process of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name that the VMM was given, else `comm-pid`. The name is printable and has at most 80
    /// characters.
    pub name: String,
    /// The UUID that the VMM was given.
    pub uuid: Option<String>,
    /// Process ID.
    pub pid: u32,
    /// Start time of the process, clock ticks since boot.
    pub start_ticks: u64,
    /// Name of the VMM: comm of the process.
    pub vmm: String,
    /// Effective user ID.
    pub uid: u32,
    /// Control group of the process when the process was identified. On a host with cgroup version
    /// 1, it is the group of the cpu controller.
    pub cgroup: Option<String>,
}

impl Identity {
    /// The properties by which sections of the configuration select VMs.
    pub fn who(&self) -> Who<'_> {
        Who {
            name: &self.name,
            uid: Some(self.uid),
            cgroup: self.cgroup.as_deref(),
            uuid: self.uuid.as_deref(),
            vmm: Some(&self.vmm),
        }
    }
}

/// The control group of process `pid`, such as `/machine.slice/web.scope`.
fn cgroup(proc_root: &Path, pid: u32) -> Option<String> {
    let all = proc::memberships(proc_root, pid).ok()?;
    let v1 = all.iter().find(|one| one.has("cpu"));
    v1.or_else(|| all.iter().find(|one| one.is_unified())).map(|one| one.group.clone())
}

/// Identifies the VM of process `pid`.
///
/// # Errors
/// [`ProcError`]. An error with [`ProcError::is_gone`] is normal: the process has ended.
pub fn identify(proc_root: &Path, pid: u32) -> Result<Identity, ProcError> {
    let vmm = printable(&proc::comm(proc_root, pid)?);
    let arguments = Arguments(proc::command_line(proc_root, pid)?);
    let name = arguments.vm_name(&vmm).map(|name| printable(&name));
    Ok(Identity {
        name: name.unwrap_or_else(|| format!("{vmm}-{pid}")),
        uuid: arguments.vm_uuid(&vmm).map(printable),
        pid,
        start_ticks: proc::start_ticks(proc_root, pid)?,
        uid: proc::effective_uid(proc_root, pid)?,
        cgroup: cgroup(proc_root, pid),
        vmm,
    })
}

/// Shortens `text`, and replaces the characters that a terminal, a log or a metrics label cannot
/// take.
pub(crate) fn printable(text: &str) -> String {
    let good = |c: char| if c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    text.chars().take(NAME_MAX_CHARS).map(good).collect()
}

/// KVM's vCPU id from the name of thread `tid`. Used on kernels without BTF for KVM.
pub fn vcpu_id_of_thread(proc_root: &Path, tid: u32) -> Option<u32> {
    vcpu_id(&proc::comm(proc_root, tid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn tree(name: &str, comm: &str, arguments: &[&str]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("paracord-id-{name}-{}", std::process::id()));
        let dir = root.join("42");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
        std::fs::write(dir.join("cmdline"), arguments.join("\0") + "\0").unwrap();
        std::fs::write(dir.join("status"), "Uid:\t0\t107\t0\t0\n").unwrap();
        let stat = "42 (x y) S 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 5 0 777 1000 99";
        std::fs::write(dir.join("stat"), stat).unwrap();
        root
    }

    fn named(case: &str, comm: &str, arguments: &[&str]) -> Identity {
        let root = tree(case, comm, arguments);
        let identity = identify(&root, 42).unwrap();
        std::fs::remove_dir_all(root).unwrap();
        identity
    }

    #[test]
    fn a_vm_is_named_by_its_vmm_or_by_comm_and_pid() {
        let uuid = "6d5f2b1c-0000-4000-8000-000000000001";
        let arguments = ["qemu", "-name", "guest=db,debug-threads=on", "-uuid", uuid];
        let qemu = named("libvirt", "qemu-system-x86", &arguments);
        assert_eq!((qemu.name.as_str(), qemu.uuid.as_deref()), ("db", Some(uuid)));
        assert_eq!((qemu.uid, qemu.start_ticks), (107, 777));
        assert_eq!(named("none", "qemu-system-x86", &["qemu"]).name, "qemu-system-x86-42");
    }

    #[test]
    fn hostile_names_are_tamed() {
        let long = format!("a\n\u{1b}[31m\"{}", "b".repeat(500));
        let identity = named("hostile", "qemu-kvm", &["qemu", "-name", &long]);
        assert!(identity.name.starts_with("a__[31m_b") && identity.name.chars().count() == 80);
    }

    #[test]
    fn vcpu_threads_by_name() {
        let root = tree("vcpu", "CPU 11/KVM", &[]);
        assert_eq!(vcpu_id_of_thread(&root, 42), Some(11));
        assert_eq!(vcpu_id_of_thread(&root, 43), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
