// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The device tree node by which the driver finds the device
//! (Documentation/devicetree/bindings/cpufreq/qemu,virtual-cpufreq.yaml).

use super::registers::PAGE_BYTES;

/// The string by which the driver finds the node.
pub const COMPATIBLE: &str = "qemu,virtual-cpufreq";

/// The node. Its parent must have two cells for addresses and two for sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name with unit address.
    pub name: String,
    /// Property `compatible`.
    pub compatible: &'static str,
    /// Property `reg`: address and bytes of the window.
    pub reg: [u64; 2],
}

impl Node {
    /// Makes the node of a device that has `vcpus` vCPUs and its window at `base`.
    pub fn new(base: u64, vcpus: u32) -> Node {
        let reg = [base, u64::from(vcpus) * PAGE_BYTES];
        Node { name: format!("cpufreq@{base:x}"), compatible: COMPATIBLE, reg }
    }

    /// Writes the node as a child of the currently open node.
    ///
    /// # Errors
    /// The error that the writer of the device tree reports.
    #[cfg(feature = "fdt")]
    pub fn write(&self, fdt: &mut vm_fdt::FdtWriter) -> Result<(), vm_fdt::Error> {
        let node = fdt.begin_node(&self.name)?;
        fdt.property_string("compatible", self.compatible)?;
        fdt.property_array_u64("reg", &self.reg)?;
        fdt.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_names_the_whole_window() {
        let node = Node::new(0x9_0000, 20);
        assert_eq!((node.name.as_str(), node.reg), ("cpufreq@90000", [0x9_0000, 0x1_4000]));
        let mut fdt = vm_fdt::FdtWriter::new().unwrap();
        let root = fdt.begin_node("").unwrap();
        node.write(&mut fdt).unwrap();
        fdt.end_node(root).unwrap();
        let blob = fdt.finish().unwrap();
        let holds = |bytes: &[u8]| blob.windows(bytes.len()).any(|window| window == bytes);
        assert!(holds(b"cpufreq@90000\0") && holds(b"qemu,virtual-cpufreq\0"));
        assert!(holds(&[0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0x40, 0]));
    }
}
