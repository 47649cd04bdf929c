// SPDX-License-Identifier: GPL-2.0-only
//! The QEMU options and the libvirt XML with which a VM maps its region.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use paracord_host::ivshmem;
use serde_json::Value;

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

/// `paracord libvirt-xml`.
#[derive(Debug, Args)]
pub struct LibvirtArgs {
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Run the VM's QEMU as this user, the owner of the region. Without this option, libvirt runs
    /// all QEMUs as one user, who can open the regions of all these VMs
    #[arg(long, value_parser = user_name)]
    pub user: Option<String>,
}

/// The group that may open /dev/kvm on all distributions.
const KVM_GROUP: &str = "kvm";

/// Accepts names that need no quoting in XML, and that libvirt does not take for a number.
fn user_name(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
        return Err(
            "no name of a user: begin with a letter or '_'; digits, '-' and '.' may follow".into(),
        );
    }
    if text == "root" {
        return Err("QEMU must not run as root: make a user for this VM (useradd --system)".into());
    }
    Ok(text.to_owned())
}

/// A path in an option of QEMU, where a single comma would begin the next property.
fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// What connects a VM with its region.
struct Attachment {
    /// Option of QEMU that opens the region, or the daemon's socket.
    backend: [String; 2],
    /// Properties of the device. `driver` comes first.
    device: Vec<(&'static str, Value)>,
}

impl Attachment {
    fn new(args: &AttachArgs) -> Result<Attachment, Failure> {
        paracord_host::regions::region_file::check_name(&args.name)?;
        let config = load_config(args.target.config.as_deref())?;
        if args.counters {
            let socket = ivshmem::socket_path(&config.run_dir, &args.name);
            let server = format!("socket,id=paracord,path={}", option_value(&socket));
            return Ok(Attachment {
                backend: ["-chardev".to_owned(), server],
                device: vec![
                    ("driver", "ivshmem-doorbell".into()),
                    ("chardev", "paracord".into()),
                    ("vectors", args.vcpus.min(ivshmem::Vectors::MAX).into()),
                ],
            });
        }
        let (path, bytes) =
            (config.region_dir.join(&args.name), paracord_abi::region_bytes(args.vcpus));
        // With prealloc, all pages are present in the VMM. (The host does not read absent pages.)
        let backend = format!(
            "memory-backend-file,id=paracord,mem-path={},size={bytes},share=on,prealloc=on",
            option_value(&path)
        );
        Ok(Attachment {
            backend: ["-object".to_owned(), backend],
            device: vec![
                ("driver", "ivshmem-plain".into()),
                ("memdev", "paracord".into()),
                // The device then does not prevent migration of the VM.
                ("master", "on".into()),
            ],
        })
    }

    /// The device as people write it.
    fn device_words(&self) -> String {
        let word = |(name, value): &(&str, Value)| match value {
            Value::String(driver) if *name == "driver" => driver.clone(),
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        };
        self.device.iter().map(word).collect::<Vec<_>>().join(",")
    }

    /// The device as JSON, as libvirt writes its own devices. QEMU (6.2 and later) creates these
    /// devices after all others, so a device in the other form would take a PCI slot that libvirt
    /// has assigned to one of its own.
    fn device_json(&self) -> String {
        let properties =
            self.device.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Value::Object(properties.collect()).to_string()
    }
}

/// `paracord qemu-args`.
pub fn qemu_args(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let attachment = Attachment::new(args)?;
    let [option, backend] = &attachment.backend;
    print(&format!("{option} {backend} -device {}\n", attachment.device_words()))
}

/// `paracord libvirt-xml`.
pub fn libvirt_xml(args: &LibvirtArgs) -> Result<ExitCode, Failure> {
    // libvirt's own <shmem> accepts no directory and no size below 1 MiB.
    let mut xml = String::from(
        "<!-- In `virsh edit`: the name space goes into the first line, the rest before </domain>. -->\n\
         <domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <qemu:commandline>\n",
    );
    let attachment = Attachment::new(&args.attach)?;
    let device = attachment.device_json();
    for argument in attachment.backend.iter().map(String::as_str).chain(["-device", &device]) {
        let argument = argument.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;");
        xml.push_str(&format!("    <qemu:arg value='{argument}'/>\n"));
    }
    xml.push_str("  </qemu:commandline>\n");
    if let Some(user) = &args.user {
        // libvirt gives the VM's own files to this user, too.
        xml.push_str(&format!(
            "  <seclabel type='static' model='dac' relabel='yes'>\n    <label>{user}:{KVM_GROUP}</label>\n  </seclabel>\n"
        ));
    }
    xml.push_str("</domain>\n");
    print(&xml)
}
