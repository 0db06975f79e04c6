//! Ids derive from the conversation's seed, the claim's fence and a counter in the state, so that a
//! load continues the sequence and two owners never meet.

use super::model::Id;
use sha2::{Digest, Sha256};

/// Five bits a character.
pub(super) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Where a conversation's ids come from.
#[derive(Clone, Debug)]
pub struct IdSource {
    key: u64,
}

impl IdSource {
    /// The source of a seed.
    #[must_use]
    pub fn new(seed: &str) -> Self {
        let digest = Sha256::digest(seed.as_bytes());
        IdSource { key: digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte)) }
    }

    /// The id with this number under this fence: `kind-` and 13 characters.
    #[must_use]
    pub fn derive(&self, kind: &str, fence: u64, counter: u64) -> Id {
        // A bijection of (fence, counter) for each seed: distinct below 2^24 claims and 2^40 ids.
        let bits = mix(self.key ^ (fence << 40) ^ counter);
        let mut digits = [0; 13];
        for (place, digit) in digits.iter_mut().enumerate() {
            *digit = ALPHABET.get((bits >> (5 * place)) as usize & 31).copied().unwrap_or(b'0');
        }
        let mut id = String::with_capacity(kind.len() + 1 + digits.len());
        id.push_str(kind);
        id.push('-');
        // The alphabet is ASCII.
        id.push_str(str::from_utf8(&digits).unwrap_or_default());
        id.into()
    }
}

/// The finaliser of SplitMix64, which is invertible.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn c51_ids_repeat_for_equal_seeds_and_differ_otherwise() {
        assert_eq!(IdSource::new("s").derive("turn", 1, 7), IdSource::new("s").derive("turn", 1, 7));
        assert_eq!(
            &*IdSource::new("s").derive("turn", 1, 7),
            "turn-xg4yhc8844rq8",
            "old journals go on with the same ids"
        );
        let mut seen = BTreeSet::new();
        for seed in ["a", "b"] {
            for fence in 0..20 {
                for counter in 0..200 {
                    assert!(seen.insert(IdSource::new(seed).derive("turn", fence, counter)));
                }
            }
        }
    }
}
