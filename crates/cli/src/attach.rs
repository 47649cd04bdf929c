// SPDX-License-Identifier: GPL-2.0-only
//! What to add to a VM so that it maps its region: QEMU options, libvirt XML.

use std::process::ExitCode;

use paracord_host::ivshmem;

use crate::args::AttachArgs;
use crate::control::load_config;
use crate::exit::Failure;
use crate::output::print;

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
    // prealloc: the host reads a page only once it is present in the VMM.
    let backend = format!(
        "memory-backend-file,id=paracord,mem-path={},size={bytes},share=on,prealloc=on",
        path.display()
    );
    Ok([("-object", backend), ("-device", "ivshmem-plain,memdev=paracord".to_owned())])
}

/// `paracord qemu-args`.
pub fn qemu_args(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let words: Vec<String> =
        options(args)?.iter().map(|(option, value)| format!("{option} {value}")).collect();
    print(&format!("{}\n", words.join(" ")))
}

/// `paracord libvirt-xml`.
pub fn libvirt_xml(args: &AttachArgs) -> Result<ExitCode, Failure> {
    // libvirt's own <shmem> takes no directory and at least 1 MiB.
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
