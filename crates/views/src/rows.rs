/// Set of rows of [`super::Columns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    words: Vec<u64>,
    len: usize,
}

impl Rows {
    /// Rows below `len` that `belongs` accepts.
    pub fn of(len: usize, mut belongs: impl FnMut(usize) -> bool) -> Self {
        let mut words = Vec::with_capacity(len.div_ceil(64));
        for start in (0..len).step_by(64) {
            let end = (start + 64).min(len);
            words.push((start..end).fold(0, |word, row| word | (u64::from(belongs(row)) << (row - start))));
        }
        Self { words, len }
    }

    pub fn all_or_none(len: usize, all: bool) -> Self {
        Self::of(len, |_| all)
    }

    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Rows in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|word| *word != 0)
                .map(move |word| index * 64 + word.trailing_zeros() as usize)
        })
    }

    /// Intersection of sets of the same length.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
        self
    }

    /// Union of sets of the same length.
    pub(super) fn or(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
        self
    }

    pub(super) fn not(mut self) -> Self {
        let tail = self.len % 64;
        self.words.iter_mut().for_each(|word| *word = !*word);
        if let Some(last) = self.words.last_mut().filter(|_| tail > 0) {
            *last &= (1 << tail) - 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Rows;

    proptest! {
        #[test]
        fn sets_behave_like_lists_of_flags(a in prop::collection::vec(any::<bool>(), 0..200), seed in any::<u64>()) {
            let b: Vec<bool> = (0..a.len()).map(|row| seed >> (row % 64) & 1 == 1).collect();
            let set = |flags: &[bool]| Rows::of(flags.len(), |row| flags[row]);
            let both = |f: fn(bool, bool) -> bool| -> Vec<bool> { a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect() };
            prop_assert_eq!(set(&a).and(&set(&b)), set(&both(|a, b| a && b)));
            prop_assert_eq!(set(&a).or(&set(&b)), set(&both(|a, b| a || b)));
            prop_assert_eq!(set(&a).not(), set(&both(|a, _| !a)));
            let rows: Vec<usize> = (0..a.len()).filter(|row| a[*row]).collect();
            prop_assert_eq!(set(&a).count(), rows.len());
            prop_assert_eq!(set(&a).iter().collect::<Vec<_>>(), rows);
            prop_assert!((0..a.len()).all(|row| set(&a).contains(row) == a[row]));
        }
    }
}
