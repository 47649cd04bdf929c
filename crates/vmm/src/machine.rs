// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Builds a VM from a configuration. Its vCPU threads already exist, and wait for the start of the
//! guest.

use std::path::Path;
use std::sync::Arc;

use kvm_ioctls::{Kvm, VmFd};
use paracord_abi::{EventOffer, RegionLayout};
use paracord_devices::ivshmem::{Ivshmem, REGISTER_BYTES};
use paracord_devices::pmu::{Offer, Offered};
use vm_memory::MmapRegion;
use vmm_sys_util::eventfd::EventFd;

use crate::arch;
use crate::bus::Bus;
use crate::config::Config;
use crate::cpufreq::Cpufreq;
use crate::error::{self, Error};
use crate::interrupts::Interrupts;
use crate::memory::{self, MovableMemory, Ram};
use crate::pci::window::Window;
use crate::pci::{self, PciBus, RegionFunction};
use crate::pmu::Pmu;
use crate::region::RegionFile;
use crate::serial::SerialPort;
use crate::stop::Stop;
use crate::vcpu::{self, Shared, Threads};
use crate::wake::Wake;

/// The devices, before the architecture puts them at their addresses.
pub struct Devices {
    /// Serial ports.
    pub serial: [Arc<SerialPort>; 2],
    /// PCI bus. It exists if there is a region.
    pub pci: Option<Arc<PciBus>>,
    /// Frequency device.
    pub cpufreq: Option<Arc<Cpufreq>>,
}

/// A VM that is ready to run.
pub struct Machine {
    /// The vCPU threads.
    pub threads: Threads,
    /// The devices.
    pub devices: Devices,
    /// What vCPU threads share.
    pub shared: Shared,
    /// Parts that must outlive the threads.
    pub backing: Backing,
}

/// The VM itself, guest memory and interrupt controller.
pub struct Backing {
    /// When this is closed, KVM disconnects all interrupts from their eventfds, even if vCPUs still
    /// run.
    _vm: Arc<VmFd>,
    _ram: Ram,
    _interrupts: arch::Interrupts,
}

impl Machine {
    /// Makes all parts. The guest does not run yet.
    ///
    /// # Errors
    /// [`Error`].
    pub fn build(config: &Config, wake: &Arc<Wake>) -> Result<Machine, Error> {
        let kvm =
            Kvm::new().map_err(|e| Error::NoKvm(std::io::Error::from_raw_os_error(e.errno())))?;
        let vm = Arc::new(kvm.create_vm().map_err(error::kvm("create a VM"))?);
        arch::prepare(&vm)?;
        let ranges = arch::layout::ram(config.memory_bytes);
        let ram = memory::create_ram(&vm, &ranges)?;
        let stop = Arc::new(Stop::new(wake.clone()));
        let lines = [line()?, line()?];
        let port = |line: &EventFd| -> Result<Arc<SerialPort>, Error> {
            let line = line.try_clone().map_err(error::system("interrupt line"))?;
            Ok(Arc::new(SerialPort::new(line, wake)))
        };
        let offer = config.pmu.map(|_| offer(config)).transpose()?;
        let interrupts = offer
            .as_ref()
            .map(|_| Arc::new(Interrupts::new(vm.clone(), pci::REGION, config.vcpus.len() as u32)));
        let open = |path| open_region(config, path, offer.as_ref(), interrupts.as_ref());
        let region = config.region.as_deref().map(open).transpose()?;
        let registers = Arc::new(Window::new(REGISTER_BYTES));
        let shared_memory = region.as_ref().map(|region| (region.layout, region.mapping.clone()));
        let cpufreq = config.virt_cpufreq.map(|word| Cpufreq::build(word, config, shared_memory));
        let cpufreq = cpufreq.transpose()?.map(Arc::new);
        let devices = Devices {
            serial: [port(&lines[0])?, port(&lines[1])?],
            pci: region.as_ref().map(|region| {
                let registers = registers.clone();
                pci_bus(&vm, ranges.len() as u32, region, registers, interrupts.clone())
            }),
            cpufreq,
        };
        let (mut mmio, mut ports) = (Bus::default(), Bus::default());
        arch::connect(&devices, &stop, &mut mmio, &mut ports)?;
        let pmu = config.pmu.zip(offer).zip(region.as_ref()).map(|((how, offer), region)| {
            let memory = region.mapping.clone();
            Arc::new(Pmu::new(offer, how, region.layout, memory, interrupts.clone()))
        });
        let (mmio, ports) = (Arc::new(mmio), Arc::new(ports));
        let shared = Shared { mmio, ports, registers, interrupts, pmu, stop };
        let vcpus = (0..config.vcpus.len() as u64)
            .map(|id| vm.create_vcpu(id).map_err(error::kvm("create a vCPU")))
            .collect::<Result<Vec<_>, _>>()?;
        let interrupts = arch::boot(&kvm, &vm, &vcpus, &ram, config, &devices)?;
        for (line, place) in lines.iter().zip(arch::layout::SERIAL) {
            vm.register_irqfd(line, place.gsi).map_err(error::kvm("connect an interrupt"))?;
        }
        let affinities = config.vcpus.iter().map(|plan| plan.affinity.clone()).collect();
        let threads = vcpu::start(vcpus, affinities, &shared)?;
        let backing = Backing { _vm: vm, _ram: ram, _interrupts: interrupts };
        Ok(Machine { threads, devices, shared, backing })
    }
}

fn line() -> Result<EventFd, Error> {
    let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
    EventFd::new(flags.bits() as i32).map_err(error::system("interrupt line"))
}

/// The region of a VM.
struct Region {
    layout: RegionLayout,
    mapping: Arc<MmapRegion<()>>,
    function: Ivshmem,
}

/// The events that a guest may count.
fn offer(config: &Config) -> Result<Offer, Error> {
    let offer = Offer::probe(config.pmu_events);
    if let Some(first) = offer.why_empty() {
        return Err(Error::NoEvents(first.reason.to_string()));
    }
    if config.verbose {
        for refused in offer.refused() {
            let (vm, event) = (&config.name, refused.name);
            eprintln!("paracord-vmm: {vm}: event {event} is not on offer: {}", refused.reason);
        }
    }
    Ok(offer)
}

fn open_region(
    config: &Config,
    path: &Path,
    offer: Option<&Offer>,
    interrupts: Option<&Arc<Interrupts>>,
) -> Result<Region, Error> {
    let mut file = RegionFile::open(path, config.vcpus.len() as u32)?;
    let event = |event: &Offered| EventOffer { name: event.name, min_period: event.min_period };
    let events = offer.into_iter().flat_map(Offer::events).map(event).collect::<Vec<_>>();
    file.offer_events(path, &events)?;
    let msix = interrupts.map(|interrupts| interrupts.msix());
    let function = Ivshmem::new(file.bytes(), msix)
        .map_err(|e| Error::Content { path: path.to_owned(), reason: e.to_string() })?;
    Ok(Region { layout: file.layout(), mapping: Arc::new(file.map()?), function })
}

/// The PCI bus exists only for the region. Without a region, the guest's kernel has no bus to
/// search.
fn pci_bus(
    vm: &Arc<VmFd>,
    slot: u32,
    region: &Region,
    registers: Arc<Window>,
    interrupts: Option<Arc<Interrupts>>,
) -> Arc<PciBus> {
    let memory = MovableMemory::new(vm.clone(), slot, region.mapping.clone());
    let function = region.function.clone();
    let function = RegionFunction { function, memory, registers, interrupts };
    Arc::new(PciBus::new(arch::layout::PCI_MEMORY, Some(function)))
}
