// SPDX-License-Identifier: GPL-2.0-only
//! Runs the body of the fuzz target (fuzz/fuzz_targets/step.rs) for a few seconds in plain `cargo
//! test`, on random inputs with a fixed seed.

use paracord_policy::invariants::Inputs;

/// A 64-bit linear congruential generator (Knuth, MMIX), of which only the highest byte is used.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }
}

#[test]
fn steps_over_random_bytes_keep_the_invariants() {
    let mut random = Random(1);
    let mut bytes = vec![0; Inputs::BYTES];
    for round in 0..300_000_u32 {
        // Most rounds change only a few bytes of the previous round's input, so that steps on
        // similar inputs are tested.
        let changes = if round % 16 == 0 { bytes.len() } else { 4 };
        for _ in 0..changes {
            let at = (usize::from(random.byte()) << 8 | usize::from(random.byte())) % bytes.len();
            bytes[at] = random.byte() & if round % 3 == 0 { 0x81 } else { 0xff };
        }
        Inputs::from_bytes(&bytes).check();
    }
}
