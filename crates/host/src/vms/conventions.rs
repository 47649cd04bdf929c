// SPDX-License-Identifier: GPL-2.0-only
//! How each VMM names its VMs and its vCPU threads. docs/vmms.md shows what was tried with each
//! VMM.

use std::path::Path;

/// A program that runs VMs. Only programs whose naming conventions differ are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vmm {
    /// QEMU, also when Proxmox, libvirt, KubeVirt or Kata Containers starts it.
    Qemu,
    Paracord,
    Firecracker,
    CloudHypervisor,
    Crosvm,
    Other,
}

/// Firecracker's name for a VM that was given no name.
const FIRECRACKER_ANONYMOUS: &str = "anonymous-instance";
/// Socket names that do not identify a VM. Cloud Hypervisor has no option for the name of a VM, so
/// paracord uses the name of its API socket. Kata Containers uses the first name in this list for
/// every VM, and the documentation of Cloud Hypervisor uses the other names.
const SOCKET_OF_NO_NAME: [&str; 3] = ["clh-api", "cloud-hypervisor", "api"];

impl Vmm {
    /// Determines the VMM from the name of its process, which the kernel cuts off after 15
    /// characters.
    fn of(comm: &str) -> Vmm {
        match comm {
            "paracord-vmm" => Vmm::Paracord,
            "cloud-hyperviso" => Vmm::CloudHypervisor,
            "kvm" => Vmm::Qemu,
            _ if comm.starts_with("qemu") => Vmm::Qemu,
            // Releases are called firecracker-v1.2.3-x86_64.
            _ if comm.starts_with("firecracker") => Vmm::Firecracker,
            _ if comm.starts_with("crosvm") => Vmm::Crosvm,
            _ => Vmm::Other,
        }
    }
}

/// The command line of a process.
pub(super) struct Arguments(pub Vec<String>);

impl Arguments {
    /// The value of an option: `-name VALUE`, `--name VALUE` or `--name=VALUE`.
    fn option(&self, name: &str) -> Option<&str> {
        self.options(name).next()
    }

    /// The values of an option that may occur several times.
    fn options(&self, name: &str) -> impl Iterator<Item = &str> {
        let following = self.0.iter().skip(1).map(String::as_str).chain([""]);
        self.0.iter().zip(following).filter_map(move |(argument, next)| {
            let option = argument.strip_prefix("--").or(argument.strip_prefix('-'))?;
            let rest = option.strip_prefix(name)?;
            if rest.is_empty() { Some(next) } else { rest.strip_prefix('=') }
        })
    }

    /// Returns the name of the VM. `comm` is the name of the VMM's process.
    pub fn vm_name(&self, comm: &str) -> Option<String> {
        let name = match Vmm::of(comm) {
            Vmm::Qemu | Vmm::Paracord => guest_name(self.option("name")?),
            Vmm::Crosvm => self.option("name"),
            Vmm::Firecracker => self.option("id").filter(|id| *id != FIRECRACKER_ANONYMOUS),
            Vmm::CloudHypervisor => name_of_socket(self.option("api-socket")?),
            Vmm::Other => None,
        };
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// Returns the UUID of the VM. `comm` is the name of the VMM's process.
    pub fn vm_uuid(&self, comm: &str) -> Option<&str> {
        let part = |values: &'static str, key: &'static str| {
            self.options(values)
                .flat_map(|value| value.split(','))
                .find_map(|p| p.strip_prefix(key))
        };
        match Vmm::of(comm) {
            // Proxmox sets the UUID only in the tables of the firmware (`-smbios`).
            Vmm::Qemu => self.option("uuid").or_else(|| part("smbios", "uuid=")),
            Vmm::CloudHypervisor => part("platform", "uuid="),
            _ => None,
        }
    }
}

/// The name in the value of QEMU's option `-name`: `web`, `guest=web,debug-threads=on` or
/// `debug-threads=on,guest=web`.
fn guest_name(value: &str) -> Option<&str> {
    let named = value.split(',').find_map(|part| part.strip_prefix("guest="));
    named.or_else(|| value.split(',').next().filter(|first| !first.contains('=')))
}

/// The name of a VM from the path of its socket: `/run/ch/web.sock` or `path=/run/ch/web.sock`, or
/// for Kata Containers `/run/vc/vm/ID/clh-api.sock`.
fn name_of_socket(value: &str) -> Option<&str> {
    if value.starts_with("fd=") {
        return None;
    }
    let path =
        Path::new(value.split(',').find_map(|part| part.strip_prefix("path=")).unwrap_or(value));
    let name = path.file_stem()?.to_str()?;
    if !SOCKET_OF_NO_NAME.contains(&name) {
        return Some(name);
    }
    let directory = path.parent()?.file_name()?.to_str()?;
    // A directory that all VMs share does not identify a VM.
    (!["run", "tmp"].contains(&directory)).then_some(directory)
}

/// KVM's vCPU id from the name of a thread.
pub(super) fn vcpu_id(thread: &str) -> Option<u32> {
    let qemu = thread.strip_prefix("CPU ").and_then(|rest| rest.strip_suffix("/KVM"));
    let others = ["fc_vcpu ", "crosvm_vcpu", "vcpu"];
    let number = qemu.or_else(|| others.iter().find_map(|prefix| thread.strip_prefix(prefix)))?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments(line.split(' ').map(str::to_owned).collect())
    }

    fn name(comm: &str, line: &str) -> Option<String> {
        arguments(line).vm_name(comm)
    }

    #[test]
    fn qemu_as_several_programs_start_it() {
        for (comm, line, want) in [
            ("qemu-system-x86", "qemu -name web,debug-threads=on", Some("web")),
            ("qemu-system-x86", "qemu -name guest=db,debug-threads=on -uuid 1", Some("db")),
            ("qemu-kvm", "qemu-kvm -name debug-threads=on,guest=default_vmi", Some("default_vmi")),
            ("kvm", "/usr/bin/kvm -id 100 -name web,debug-threads=on", Some("web")),
            ("qemu-system-x86", "qemu", None),
            ("qemu-system-x86", "qemu -name", None),
            ("qemu-system-x86", "qemu -name debug-threads=on", None),
            ("qemu-system-x86", "qemu -append name x", None),
        ] {
            assert_eq!(name(comm, line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn other_vmms() {
        for (comm, line, want) in [
            ("paracord-vmm", "paracord-vmm --vcpus 2 --name web", Some("web")),
            ("paracord-vmm", "paracord-vmm --name=web-1 --kernel k", Some("web-1")),
            ("paracord-vmm", "paracord-vmm --kernel k", None),
            ("firecracker", "firecracker --id web-1 --api-sock /run/f.sock", Some("web-1")),
            (
                "firecracker",
                "/firecracker --id=551e7604-e35c --start-time-us=1",
                Some("551e7604-e35c"),
            ),
            ("firecracker-v1.", "firecracker-v1.9-x86_64 --id web-2", Some("web-2")),
            ("firecracker", "firecracker --id anonymous-instance", None),
            ("cloud-hyperviso", "cloud-hypervisor --api-socket /run/ch/web.sock", Some("web")),
            ("cloud-hyperviso", "cloud-hypervisor --api-socket path=/run/ch/web.sock", Some("web")),
            ("cloud-hyperviso", "ch --api-socket /run/vc/vm/8f3/clh-api.sock", Some("8f3")),
            ("cloud-hyperviso", "ch --api-socket /tmp/cloud-hypervisor.sock", None),
            ("cloud-hyperviso", "ch --api-socket fd=3", None),
            ("cloud-hyperviso", "ch --kernel k", None),
            ("crosvm", "crosvm run --name web vmlinux", Some("web")),
            ("crosvm", "crosvm run vmlinux", None),
            ("bash", "bash --name web", None),
        ] {
            assert_eq!(name(comm, line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn uuids() {
        let uuid = |comm, line: &str| arguments(line).vm_uuid(comm).map(str::to_owned);
        assert_eq!(uuid("qemu-system-x86", "qemu -uuid 6d5f").as_deref(), Some("6d5f"));
        let proxmox = "kvm -id 100 -smbios type=0,vendor=x -smbios type=1,uuid=77ab";
        assert_eq!(uuid("kvm", proxmox).as_deref(), Some("77ab"));
        let platform = "ch --platform num_pci_segments=1,uuid=88cd";
        assert_eq!(uuid("cloud-hyperviso", platform).as_deref(), Some("88cd"));
        assert_eq!(uuid("crosvm", "crosvm -uuid 1"), None);
    }

    #[test]
    fn vcpu_threads() {
        for (thread, want) in [
            ("CPU 11/KVM", Some(11)),
            ("fc_vcpu 3", Some(3)),
            ("crosvm_vcpu12", Some(12)),
            ("vcpu0", Some(0)),
            ("vcpu", None),
            ("CPU 1/TCG", None),
            ("worker", None),
        ] {
            assert_eq!(vcpu_id(thread), want, "{thread}");
        }
    }
}
