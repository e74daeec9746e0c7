//! A set of trial numbers, which have few gaps.

use tunesmith_domain::TrialId;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NumberSet {
    words: Vec<u64>,
}

impl NumberSet {
    /// Creates the set from words of 64 numbers each.
    pub(crate) fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// Words for [`Self::from_words`].
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a trial; returns whether it is new.
    pub(crate) fn insert(&mut self, id: TrialId) -> bool {
        let (word, bit) = position(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes a trial; returns whether it was present.
    pub(crate) fn remove(&mut self, id: TrialId) -> bool {
        let is_known = self.contains(id);
        let (word, bit) = position(id);
        if is_known {
            self.words[word] &= !bit;
        }
        is_known
    }

    pub(crate) fn contains(&self, id: TrialId) -> bool {
        let (word, bit) = position(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
}

fn position(id: TrialId) -> (usize, u64) {
    // Numbers of existing trials are far below the limits of memory.
    (usize::try_from(id.0 / 64).unwrap_or(usize::MAX), 1 << (id.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_and_removed_once() {
        let mut set = NumberSet::default();
        assert_eq!([1, 64, 1, 200].map(|id| set.insert(TrialId(id))), [true, true, false, true]);
        assert_eq!([63, 64, 64, 9999].map(|id| set.remove(TrialId(id))), [false, true, false, false]);
        assert_eq!([1, 64, 65, 200].map(|id| set.contains(TrialId(id))), [true, false, false, true]);
        assert_eq!(NumberSet::from_words(set.words().to_vec()), set);
    }
}
