// SPDX-License-Identifier: GPL-2.0-only
//! The QEMU options and the libvirt XML with which a VM maps its region.

use std::process::ExitCode;

use clap::Args;
use paracord_host::ivshmem;

use crate::args::{Target, vcpu_count};
use crate::config::load_config;
use crate::exit::Failure;
use crate::output::print;

/// `paracord qemu-args`, `paracord libvirt-xml`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Name of the region, as in `paracord region create`
    pub name: String,
    /// Number of vCPUs of the VM, including hot-pluggable vCPUs
    #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
    pub vcpus: u32,
    /// Use a device that has interrupts, which the guest needs for sampling with perf. QEMU then
    /// starts only while the daemon runs
    #[arg(long)]
    pub counters: bool,
    #[command(flatten)]
    pub target: Target,
}

fn options(args: &AttachArgs) -> Result<[(&'static str, String); 2], Failure> {
    paracord_host::regions::region_file::check_name(&args.name)?;
    let config = load_config(args.target.config.as_deref())?;
    if args.counters {
        let socket = ivshmem::socket_path(&config.run_dir, &args.name);
        let server = format!("socket,id=paracord,path={}", socket.display());
        let vectors = args.vcpus.min(ivshmem::Vectors::MAX);
        let device = format!("ivshmem-doorbell,chardev=paracord,vectors={vectors}");
        return Ok([("-chardev", server), ("-device", device)]);
    }
    let (path, bytes) =
        (config.region_dir.join(&args.name), paracord_abi::region_bytes(args.vcpus));
    // With prealloc, all pages are present in the VMM. (The host does not read absent pages.)
    let backend = format!(
        "memory-backend-file,id=paracord,mem-path={},size={bytes},share=on,prealloc=on",
        path.display()
    );
    // With `master=on`, the device does not prevent migration of the VM.
    Ok([("-object", backend), ("-device", "ivshmem-plain,memdev=paracord,master=on".to_owned())])
}

/// `paracord qemu-args`.
pub fn qemu_args(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let words: Vec<String> =
        options(args)?.iter().map(|(option, value)| format!("{option} {value}")).collect();
    print(&format!("{}\n", words.join(" ")))
}

/// `paracord libvirt-xml`.
pub fn libvirt_xml(args: &AttachArgs) -> Result<ExitCode, Failure> {
    // libvirt's own <shmem> accepts no directory and no size below 1 MiB.
    let mut xml = String::from(
        "<!-- In `virsh edit`: the name space goes into the first line, the rest before </domain>. -->\n\
         <domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <qemu:commandline>\n",
    );
    for (option, value) in options(args)? {
        xml.push_str(&format!(
            "    <qemu:arg value='{option}'/>\n    <qemu:arg value='{value}'/>\n"
        ));
    }
    xml.push_str("  </qemu:commandline>\n</domain>\n");
    print(&xml)
}
