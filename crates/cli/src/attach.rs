// SPDX-License-Identifier: GPL-2.0-only
//! What to add to a VM so that it maps its region: QEMU options, libvirt XML.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::AttachArgs;
use crate::control::load_config;
use crate::exit::Failure;
use crate::output::print;

fn region(args: &AttachArgs) -> Result<(PathBuf, u64), Failure> {
    paracord_host::region_file::check_name(&args.name)?;
    let directory = load_config(args.target.config.as_deref())?.region_dir;
    Ok((directory.join(&args.name), paracord_abi::region_bytes(args.vcpus)))
}

fn options(path: &Path, bytes: u64) -> [(&'static str, String); 2] {
    // prealloc: the host reads a page only once it is present in the VMM.
    let backend = format!(
        "memory-backend-file,id=paracord,mem-path={},size={bytes},share=on,prealloc=on",
        path.display()
    );
    [("-object", backend), ("-device", "ivshmem-plain,memdev=paracord".to_owned())]
}

/// `paracord qemu-args`.
pub fn qemu_args(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let (path, bytes) = region(args)?;
    let words: Vec<String> =
        options(&path, bytes).iter().map(|(option, value)| format!("{option} {value}")).collect();
    print(&format!("{}\n", words.join(" ")))
}

/// `paracord libvirt-xml`.
pub fn libvirt_xml(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let (path, bytes) = region(args)?;
    // libvirt's own <shmem> takes no directory and at least 1 MiB.
    let mut xml = String::from(
        "<!-- In `virsh edit`: the name space goes into the first line, the rest before </domain>. -->\n\
         <domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <qemu:commandline>\n",
    );
    for (option, value) in options(&path, bytes) {
        xml.push_str(&format!(
            "    <qemu:arg value='{option}'/>\n    <qemu:arg value='{value}'/>\n"
        ));
    }
    xml.push_str("  </qemu:commandline>\n</domain>\n");
    print(&xml)
}
