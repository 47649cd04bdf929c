// SPDX-License-Identifier: GPL-2.0-only
//! The simulator's only source of random numbers: SplitMix64 (Steele, Lea, Flood: "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014).
//!
//! A run is repeated by its seed. Therefore the numbers that a seed gives must never change. The
//! tests contain the first values of every function.

/// The state grows by this for each number: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of numbers that depends only on its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n - 1`, or 0 if `n` is 0. Uses one number of the stream.
    ///
    /// The result is the upper half of a product. Numbers below 2^32 are equally likely to within
    /// 2^-32.
    pub fn below(&mut self, n: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `a` to `b`, both included, or `a` if `b` is not larger. Uses one number of the
    /// stream.
    pub fn between(&mut self, a: u64, b: u64) -> u64 {
        match b.saturating_sub(a).checked_add(1) {
            Some(count) => a + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True in `permille` of 1000 cases. Uses one number of the stream.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_for_ever_what_they_drew() {
        // The values that other implementations of SplitMix64 give for this seed.
        let mut rng = Rng::new(1_234_567);
        let first = [(); 5].map(|()| rng.next_u64());
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
        assert_eq!(Rng::new(0).next_u64(), 0xE220_A839_7B1D_CDAF);
        let mut rng = Rng::new(7);
        assert_eq!([(); 6].map(|()| rng.below(1000)), [389, 16, 900, 582, 452, 249]);
        let mut rng = Rng::new(7);
        assert_eq!([(); 4].map(|()| rng.between(10, 19)), [13, 10, 19, 15]);
        let mut rng = Rng::new(7);
        assert_eq!([(); 4].map(|()| rng.chance(500)), [true, true, false, false]);
    }

    #[test]
    fn both_ends_are_reached_and_nothing_beyond() {
        let mut rng = Rng::new(3);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.between(4, 6)).collect();
        assert_eq!(drawn.iter().min(), Some(&4));
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(9, 2), 9);
        assert!(!rng.chance(0));
        assert!(rng.chance(1000));
        let mut twin = rng.clone();
        assert_eq!(rng.between(0, u64::MAX), twin.next_u64());
    }
}
