//! The one source of chance. Everything a schedule decides comes from here, so a seed repeats it.

use std::cell::Cell;

/// SplitMix64; shared by reference, so that every part of a schedule draws from one sequence.
pub struct Rng(Cell<u64>);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.0.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound - 1`.
    pub fn below(&self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// True in so many cases of a thousand.
    pub fn chance(&self, per_mille: u32) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
