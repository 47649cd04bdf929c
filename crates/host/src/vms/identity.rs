// SPDX-License-Identifier: GPL-2.0-only
//! Identity of a VM: the data in procfs about the process whose threads run its vCPUs.

use std::path::Path;

use paracord_sys::proc::{self, ProcError};

use crate::config::Who;

/// Longest name that is kept. The name comes from the VMM's command line.
const NAME_MAX_CHARS: usize = 80;

/// The process of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `-name` of QEMU or `--name` of paracord-vmm, else `comm-pid`. It is printable and has at
    /// most 80 characters.
    pub name: String,
    /// QEMU's `-uuid`.
    pub uuid: Option<String>,
    /// Process ID.
    pub pid: u32,
    /// Start time of the process, clock ticks since boot.
    pub start_ticks: u64,
    /// Name of the VMM: comm of the process.
    pub vmm: String,
    /// Effective user ID.
    pub uid: u32,
    /// Control group of the process when it was identified. On a host with cgroup version 1, the
    /// group of the cpu controller.
    pub cgroup: Option<String>,
}

impl Identity {
    /// The properties with which sections of the configuration are matched.
    pub fn who(&self) -> Who<'_> {
        Who { name: &self.name, uid: Some(self.uid), cgroup: self.cgroup.as_deref() }
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
/// [`ProcError`]. [`ProcError::is_gone`] is normal: the process has ended.
pub fn identify(proc_root: &Path, pid: u32) -> Result<Identity, ProcError> {
    let vmm = printable(&proc::comm(proc_root, pid)?);
    let arguments = proc::command_line(proc_root, pid)?;
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument.trim_start_matches('-') == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let is_qemu = vmm.starts_with("qemu") || vmm == "kvm";
    let is_ours = vmm == "paracord-vmm";
    let joined = || arguments.iter().find_map(|argument| argument.strip_prefix("--name="));
    let name = if is_ours { joined().or(option("name")) } else { option("name") };
    let name = name.filter(|_| is_qemu || is_ours).and_then(guest_name);
    Ok(Identity {
        name: name.unwrap_or_else(|| format!("{vmm}-{pid}")),
        uuid: option("uuid").filter(|_| is_qemu).map(printable),
        pid,
        start_ticks: proc::start_ticks(proc_root, pid)?,
        uid: proc::effective_uid(proc_root, pid)?,
        cgroup: cgroup(proc_root, pid),
        vmm,
    })
}

/// The name in the value of a name option: `web`, `guest=web,debug-threads=on` or
/// `debug-threads=on,guest=web`.
fn guest_name(value: &str) -> Option<String> {
    let parts = || value.split(',');
    let named = parts().find_map(|part| part.strip_prefix("guest="));
    let name = named.or_else(|| parts().next().filter(|first| !first.contains('=')))?;
    Some(printable(name)).filter(|name| !name.is_empty())
}

/// Shortens `text`, and replaces the characters that a terminal, a log or a metrics label cannot
/// take.
pub(crate) fn printable(text: &str) -> String {
    let good = |c: char| if c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    text.chars().take(NAME_MAX_CHARS).map(good).collect()
}

/// KVM's vCPU id from the name of a thread, such as `CPU 3/KVM`. For kernels without BTF of KVM.
pub fn vcpu_id_of_thread(proc_root: &Path, tid: u32) -> Option<u32> {
    let name = proc::comm(proc_root, tid).ok()?;
    name.strip_prefix("CPU ")?.strip_suffix("/KVM")?.parse().ok()
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
    fn qemu_and_libvirt_names() {
        let qemu = named("plain", "qemu-system-x86", &["qemu", "-name", "web,debug-threads=on"]);
        assert_eq!((qemu.name.as_str(), qemu.uid, qemu.start_ticks), ("web", 107, 777));
        let uuid = "6d5f2b1c-0000-4000-8000-000000000001";
        let arguments = ["qemu", "-name", "guest=db,debug-threads=on", "-uuid", uuid];
        let libvirt = named("libvirt", "qemu-system-x86", &arguments);
        assert_eq!((libvirt.name.as_str(), libvirt.uuid.as_deref()), ("db", Some(uuid)));
    }

    #[test]
    fn names_of_our_own_vmm() {
        let name = |arguments: &[&str]| named("ours", "paracord-vmm", arguments).name;
        assert_eq!(name(&["paracord-vmm", "--vcpus", "2", "--name", "web"]), "web");
        assert_eq!(name(&["paracord-vmm", "--name=web-1", "--kernel", "k"]), "web-1");
        assert_eq!(name(&["paracord-vmm", "--kernel", "k"]), "paracord-vmm-42");
    }

    #[test]
    fn others_are_named_by_comm_and_pid() {
        assert_eq!(named("none", "qemu-system-x86", &["qemu"]).name, "qemu-system-x86-42");
        let dangling = named("dangling", "qemu-system-x86", &["qemu", "-name"]);
        assert_eq!(dangling.name, "qemu-system-x86-42");
        assert_eq!(named("other", "crosvm", &["crosvm", "--name", "x"]).name, "crosvm-42");
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
