//! Randomness that is handed in: a seed goes in, the same numbers come out (SplitMix64).

/// A small generator for choices, never for secrets. Seeded by the world.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 128 random bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        // Bias of one in 2^64 / bound: of no consequence for choices.
        self.next_u64() % bound
    }

    /// True in `permille` of a thousand cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of the items; nothing of nothing.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() {
            return None;
        }
        let at = usize::try_from(self.below(items.len() as u64)).expect("within a slice");
        items.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn one_seed_gives_one_sequence() {
        let (mut a, mut b) = (Random::new(9), Random::new(9));
        let drawn: Vec<u64> = (0..8).map(|_| a.next_u64()).collect();
        assert_eq!(drawn, (0..8).map(|_| b.next_u64()).collect::<Vec<_>>());
        assert_ne!(drawn[0], Random::new(10).next_u64());
    }
}
