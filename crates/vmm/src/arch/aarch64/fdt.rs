// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The flattened device tree that describes the machine (Devicetree Specification 0.4, and the
//! bindings in Documentation/devicetree/bindings of Linux, which are named at each node).

use paracord_devices::virt_cpufreq::fdt::Node;
use vm_fdt::{FdtWriter, FdtWriterResult};

use super::layout;
use crate::pci::ecam::ECAM_BYTES;
use crate::serial::SERIAL_BYTES;
use crate::topology::VcpuPlan;

const GIC_PHANDLE: u32 = 1;
const ITS_PHANDLE: u32 = 2;
/// Phandle of the first CPU. Each CPU has its own.
const CPU_PHANDLE: u32 = 16;

/// First cell of a GIC interrupt: shared (SPI) or per CPU (PPI).
const SPI: u32 = 0;
const PPI: u32 = 1;
/// Last cell of a GIC interrupt.
const EDGE_RISING: u32 = 1;
const LEVEL_HIGH: u32 = 4;

/// Interrupts of a CPU's timers: secure, non-secure, virtual, hypervisor.
const TIMER_PPIS: [u32; 4] = [13, 14, 11, 10];
/// Input clock of the serial ports, from which drivers compute the divisor for a baud rate. The
/// emulated ports ignore the divisor.
const UART_CLOCK_HZ: u32 = 1_843_200;
/// Number of PCI functions, over all buses and devices.
const FUNCTIONS: u32 = 1 << 16;
/// Marks a BAR in 32-bit memory space (PCI Bus Binding, phys.hi).
const PCI_MEMORY_32: u32 = 0x0200_0000;

/// The content of the tree.
pub struct Description<'a> {
    /// Kernel command line.
    pub cmdline: &'a str,
    /// Start and size of the RAM.
    pub memory: (u64, u64),
    /// Start and end of the initramfs.
    pub initramfs: Option<(u64, u64)>,
    /// MPIDR of each vCPU.
    pub mpidrs: &'a [u64],
    /// Capacity and cluster of each vCPU.
    pub vcpus: &'a [VcpuPlan],
    /// Whether the machine has a PCI bus, which exists only for the region.
    pub pci: bool,
    /// Whether the machine has the frequency device.
    pub cpufreq: bool,
    /// Random bytes, from which the guest's kernel seeds its random number generator and chooses
    /// its address.
    pub seed: [u8; 40],
}

/// Builds the bytes of the tree.
///
/// # Errors
/// The error of vm-fdt.
pub fn build(machine: &Description<'_>) -> FdtWriterResult<Vec<u8>> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_string("compatible", "linux,dummy-virt")?;
    fdt.property_string("model", "paracord-vmm")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_u32("interrupt-parent", GIC_PHANDLE)?;
    chosen(&mut fdt, machine)?;
    let memory = fdt.begin_node(&format!("memory@{:x}", machine.memory.0))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[machine.memory.0, machine.memory.1])?;
    fdt.end_node(memory)?;
    cpus(&mut fdt, machine)?;
    interrupts(&mut fdt, machine.mpidrs.len() as u64, machine.pci)?;
    serial(&mut fdt)?;
    if machine.pci {
        pci(&mut fdt)?;
    }
    if machine.cpufreq {
        Node::new(layout::CPUFREQ, machine.vcpus.len() as u32).write(&mut fdt)?;
    }
    fdt.end_node(root)?;
    fdt.finish()
}

fn serial_name(index: usize) -> String {
    format!("serial@{:x}", layout::SERIAL[index].base)
}

fn chosen(fdt: &mut FdtWriter, machine: &Description<'_>) -> FdtWriterResult<()> {
    let chosen = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", machine.cmdline)?;
    fdt.property_string("stdout-path", &format!("/{}", serial_name(0)))?;
    if let Some((start, end)) = machine.initramfs {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    let (kaslr, random) = machine.seed.split_at(8);
    fdt.property("kaslr-seed", kaslr)?;
    fdt.property("rng-seed", random)?;
    fdt.end_node(chosen)?;
    // Defines which port is ttyS0.
    let aliases = fdt.begin_node("aliases")?;
    for index in 0..layout::SERIAL.len() {
        fdt.property_string(&format!("serial{index}"), &format!("/{}", serial_name(index)))?;
    }
    fdt.end_node(aliases)
}

fn cpus(fdt: &mut FdtWriter, machine: &Description<'_>) -> FdtWriterResult<()> {
    // Bindings: arm/cpus.yaml, arm/psci.yaml, cpu/cpu-capacity.yaml
    let cpus = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    let fastest =
        machine.cpufreq.then(|| machine.vcpus.iter().filter_map(highest_khz).max()).flatten();
    for (index, (mpidr, plan)) in (0..).zip(machine.mpidrs.iter().zip(machine.vcpus)) {
        // Aff2, Aff1 and Aff0. KVM leaves Aff3 at 0.
        let reg = (mpidr & 0x00ff_ffff) as u32;
        let cpu = fdt.begin_node(&format!("cpu@{reg:x}"))?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_string("compatible", "arm,armv8")?;
        fdt.property_string("enable-method", "psci")?;
        fdt.property_u32("reg", reg)?;
        if let Some(capacity) = plan.capacity {
            fdt.property_u32("capacity-dmips-mhz", per_mhz(capacity, highest_khz(plan), fastest))?;
        }
        fdt.property_phandle(CPU_PHANDLE + index)?;
        fdt.end_node(cpu)?;
    }
    cpu_map(fdt, machine.vcpus)?;
    fdt.end_node(cpus)?;
    let psci = fdt.begin_node("psci")?;
    let versions = ["arm,psci-1.0", "arm,psci-0.2"].map(str::to_owned);
    fdt.property_string_list("compatible", versions.to_vec())?;
    fdt.property_string("method", "hvc")?;
    fdt.end_node(psci)
}

fn highest_khz(plan: &VcpuPlan) -> Option<u32> {
    plan.frequencies_khz.last().copied()
}

/// The value of the property `capacity-dmips-mhz` for a capacity. Once a cpufreq driver has
/// reported the CPU's highest frequency, Linux multiplies the value by this frequency, relative to
/// the highest frequency of all CPUs (`topology_normalize_cpu_scale()`).
fn per_mhz(capacity: u32, highest_khz: Option<u32>, fastest_khz: Option<u32>) -> u32 {
    let (Some(highest), Some(fastest)) = (highest_khz, fastest_khz) else { return capacity };
    let value = u64::from(capacity) * u64::from(fastest);
    u32::try_from(value.div_ceil(u64::from(highest.max(1)))).unwrap_or(u32::MAX)
}

/// Binding: cpu/cpu-topology.yaml. Either all vCPUs have a cluster, or none has one.
fn cpu_map(fdt: &mut FdtWriter, vcpus: &[VcpuPlan]) -> FdtWriterResult<()> {
    let mut clusters: Vec<u32> = vcpus.iter().filter_map(|plan| plan.cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    if clusters.is_empty() {
        return Ok(());
    }
    let map = fdt.begin_node("cpu-map")?;
    for (number, cluster) in clusters.iter().enumerate() {
        let node = fdt.begin_node(&format!("cluster{number}"))?;
        let members = (0..).zip(vcpus).filter(|(_, plan)| plan.cluster == Some(*cluster));
        for (core, (index, _)) in members.enumerate() {
            let member = fdt.begin_node(&format!("core{core}"))?;
            fdt.property_u32("cpu", CPU_PHANDLE + index)?;
            fdt.end_node(member)?;
        }
        fdt.end_node(node)?;
    }
    fdt.end_node(map)
}

fn interrupts(fdt: &mut FdtWriter, vcpus: u64, its: bool) -> FdtWriterResult<()> {
    // Binding: interrupt-controller/arm,gic-v3.yaml
    let (distributor, redistributors) = (layout::GIC_DISTRIBUTOR, layout::GIC_REDISTRIBUTORS);
    let gic = fdt.begin_node(&format!("interrupt-controller@{:x}", distributor.0))?;
    fdt.property_string("compatible", "arm,gic-v3")?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 3)?;
    let reg = [distributor.0, distributor.1, redistributors.0, redistributors.1 * vcpus];
    fdt.property_array_u64("reg", &reg)?;
    fdt.property_phandle(GIC_PHANDLE)?;
    if its {
        fdt.property_u32("#address-cells", 2)?;
        fdt.property_u32("#size-cells", 2)?;
        fdt.property_null("ranges")?;
        let (start, bytes) = layout::GIC_ITS;
        let its = fdt.begin_node(&format!("msi-controller@{start:x}"))?;
        fdt.property_string("compatible", "arm,gic-v3-its")?;
        fdt.property_null("msi-controller")?;
        fdt.property_u32("#msi-cells", 1)?;
        fdt.property_array_u64("reg", &[start, bytes])?;
        fdt.property_phandle(ITS_PHANDLE)?;
        fdt.end_node(its)?;
    }
    fdt.end_node(gic)?;
    // Binding: timer/arm,arch_timer.yaml
    let timer = fdt.begin_node("timer")?;
    fdt.property_string("compatible", "arm,armv8-timer")?;
    let cells: Vec<u32> = TIMER_PPIS.iter().flat_map(|irq| [PPI, *irq, LEVEL_HIGH]).collect();
    fdt.property_array_u32("interrupts", &cells)?;
    fdt.property_null("always-on")?;
    fdt.end_node(timer)
}

fn serial(fdt: &mut FdtWriter) -> FdtWriterResult<()> {
    // Binding: serial/8250.yaml
    for (index, place) in layout::SERIAL.iter().enumerate() {
        let node = fdt.begin_node(&serial_name(index))?;
        fdt.property_string("compatible", "ns16550a")?;
        fdt.property_array_u64("reg", &[place.base, SERIAL_BYTES])?;
        fdt.property_array_u32("interrupts", &[SPI, place.gsi, EDGE_RISING])?;
        fdt.property_u32("clock-frequency", UART_CLOCK_HZ)?;
        fdt.end_node(node)?;
    }
    Ok(())
}

fn pci(fdt: &mut FdtWriter) -> FdtWriterResult<()> {
    // Binding: pci/host-generic-pci.yaml. Interrupts are messages to the ITS, which contain the
    // function's number (pci/pci-msi.txt).
    let window = layout::PCI_MEMORY;
    let node = fdt.begin_node(&format!("pcie@{:x}", layout::PCI_ECAM))?;
    fdt.property_string("compatible", "pci-host-ecam-generic")?;
    fdt.property_string("device_type", "pci")?;
    fdt.property_u32("#address-cells", 3)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_array_u32("bus-range", &[0, 0])?;
    fdt.property_array_u64("reg", &[layout::PCI_ECAM, ECAM_BYTES])?;
    // The window is below 4 GiB, and has the same address in PCI memory space and in the guest's
    // memory.
    let (start, bytes) = (window.start as u32, (window.end - window.start) as u32);
    fdt.property_array_u32("ranges", &[PCI_MEMORY_32, 0, start, 0, start, 0, bytes])?;
    fdt.property_array_u32("msi-map", &[0, ITS_PHANDLE, 0, FUNCTIONS])?;
    fdt.property_null("dma-coherent")?;
    fdt.end_node(node)
}

#[cfg(test)]
#[path = "fdt_tests.rs"]
mod tests;
