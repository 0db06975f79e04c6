//! Digests of texts, and the hasher of the engine's maps: fast on short keys, and without a random key,
//! since the same inputs must take the same steps.

use sha2::{Digest, Sha256};
use std::hash::{BuildHasherDefault, Hasher};

/// The SHA-256 of a text's UTF-8, in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes [`FixedHasher`]s; the last parameter of a map.
pub type FixedState = BuildHasherDefault<FixedHasher>;

/// Multiplies and mixes, eight bytes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

/// An odd number with as many ones as zeros, from the digits of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl FixedHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.add(last ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.add(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.add(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    // Tables use the highest bits and the lowest: the product's best bits are in the middle of neither.
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(FACTOR);
        mixed ^ mixed >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn ids_spread_over_the_bits_that_tables_use() {
        const BUCKETS: usize = 1024;
        let hash = |id: String| FixedState::default().hash_one(id);
        for shift in [0, 57] {
            let mut full = HashSet::new();
            for number in 0..4 * BUCKETS {
                full.insert((hash(format!("turn-{number}")) >> shift) as usize % BUCKETS);
            }
            let buckets = if shift == 57 { 128 } else { BUCKETS };
            // Of four balls for each bucket, chance leaves 1.8 % of the buckets empty.
            assert!(full.len() > buckets * 95 / 100, "{} of {buckets} from bit {shift}", full.len());
        }
    }

    #[test]
    fn what_differs_in_length_alone_differs() {
        let hash = |id: &str| FixedState::default().hash_one(id);
        let hashes: HashSet<u64> = ["", "\0", "\0\0", "\0\0\0\0\0\0\0\0", "a", "a\0"].map(hash).into();
        assert_eq!(hashes.len(), 6);
    }
}
