//! Random streams keyed by a study's seed, a trial and a purpose.
//!
//! Without a global stream, two suggestions never share random numbers, independent of the order and the threads of
//! their computation.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::problem::TrialId;

/// Returns the random stream for `purpose` in the suggestion of `trial`.
///
/// Key a purpose per parameter by the parameter's *name*, so that the order of parameters has no effect. The key of the
/// ChaCha8 stream is SHA-256 over the three parts. All but the last have a fixed width, so different triples never
/// concatenate to the same bytes.
pub fn stream(seed: u64, trial: TrialId, purpose: &str) -> ChaCha8Rng {
    let digest = Sha256::new()
        .chain_update(seed.to_le_bytes())
        .chain_update(trial.0.to_le_bytes())
        .chain_update(purpose.as_bytes())
        .finalize();
    ChaCha8Rng::from_seed(digest.into())
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn streams_are_reproducible_and_differ_by_each_part_of_the_key() {
        let first = |seed, trial, purpose| stream(seed, TrialId(trial), purpose).random::<u64>();
        let reference = first(1, 1, "a");
        assert_eq!(reference, first(1, 1, "a"));
        for other in [first(2, 1, "a"), first(1, 2, "a"), first(1, 1, "b"), first(0, 1, "a")] {
            assert_ne!(reference, other);
        }
    }
}
