// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Ports through which a guest powers off or restarts.

use std::sync::Arc;

use super::layout;
use crate::bus::Device;
use crate::stop::{End, Stop};

/// Offset of the sleep control register (ACPI 6.5, 4.8.3.7).
pub const SLEEP_CONTROL: u16 = 0;
/// Offset of the sleep status register.
pub const SLEEP_STATUS: u16 = 1;
/// Offset of the reset register (4.8.3.6).
pub const RESET: u16 = 2;
/// Number of these registers, of one byte each.
pub const POWER_BYTES: u64 = 3;
/// The value that resets the machine when it is written to the reset register.
pub const RESET_VALUE: u8 = 1;
/// The code at the reset vector, which writes RESET_VALUE to the reset register. On
/// hardware-reduced ACPI, Linux expects EFI for restarting. There is no EFI here, so Linux restarts
/// through the BIOS (reboot_init() and native_machine_emergency_restart() in
/// arch/x86/kernel/reboot.c).
pub const RESET_CODE: [u8; 9] = {
    let [low, high] = (layout::POWER + RESET).to_le_bytes();
    // mov dx, port; mov al, value; out dx, al; hlt; jmp to the hlt
    [0xba, low, high, 0xb0, RESET_VALUE, 0xee, 0xf4, 0xeb, 0xfd]
};
/// The sleep type for power off.
pub const SLEEP_TYPE_S5: u8 = 5;

const SLEEP_TYPE_SHIFT: u32 = 2;
const SLEEP_TYPE_MASK: u8 = 7;
const SLEEP_ENABLE: u8 = 1 << 5;

/// The ACPI registers. They read as 0, which means that the machine is awake.
pub struct Power(pub Arc<Stop>);

impl Device for Power {
    fn read(&self, _: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [value] = *data else { return };
        let sleep_type = (value >> SLEEP_TYPE_SHIFT) & SLEEP_TYPE_MASK;
        let off = value & SLEEP_ENABLE != 0 && sleep_type == SLEEP_TYPE_S5;
        if offset == u64::from(SLEEP_CONTROL) && off {
            self.0.request(End::PoweredOff);
        } else if offset == u64::from(RESET) && value == RESET_VALUE {
            self.0.request(End::Restarted);
        }
    }
}

/// Size of the range of the keyboard controller's ports.
pub const KEYBOARD_BYTES: u64 = 5;
const KEYBOARD_COMMAND: u64 = 4;
/// Command that pulses the reset line. A kernel restarts with it if it was started with `reboot=k`,
/// or if it knows no better method.
const KEYBOARD_RESET: u8 = 0xfe;

/// The keyboard controller, of which only the reset line exists. Its status reads 0: it is ready
/// for a command, and no key was pressed.
pub struct Keyboard(pub Arc<Stop>);

impl Device for Keyboard {
    fn read(&self, _: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if offset == KEYBOARD_COMMAND && data == [KEYBOARD_RESET] {
            self.0.request(End::Restarted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;

    fn after(
        offset: u64,
        data: &[u8],
        device: impl Fn(Arc<Stop>) -> Box<dyn Device>,
    ) -> Option<End> {
        let stop = Arc::new(Stop::new(Arc::new(Wake::new().unwrap())));
        device(stop.clone()).write(offset, data);
        stop.end()
    }

    #[test]
    fn what_linux_writes_to_power_off_and_restart() {
        let power = |offset, data: &[u8]| after(offset, data, |stop| Box::new(Power(stop)));
        assert_eq!(power(0, &[5 << 2 | 0x20]), Some(End::PoweredOff));
        assert_eq!(power(2, &[1]), Some(End::Restarted));
        for (offset, data) in
            [(0, &[5 << 2][..]), (0, &[3 << 2 | 0x20]), (1, &[0x34]), (2, &[0, 0])]
        {
            assert_eq!(power(offset, data), None, "{offset} {data:?}");
        }
        let keyboard = |offset, data: &[u8]| after(offset, data, |stop| Box::new(Keyboard(stop)));
        assert_eq!(keyboard(4, &[0xfe]), Some(End::Restarted));
        assert_eq!((keyboard(0, &[0xfe]), keyboard(4, &[0xaa])), (None, None));
    }
}
