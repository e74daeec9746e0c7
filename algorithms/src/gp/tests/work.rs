//! Work counters of models, so that tests bound it without a clock.

use std::cell::Cell;

thread_local! {
    static ENTRIES: Cell<usize> = const { Cell::new(0) };
}

/// Adds the entries of a factor with `rows` rows.
pub(super) fn factor_of(rows: usize) {
    ENTRIES.set(ENTRIES.get() + rows * rows);
}

/// Number of factor entries that `work` computed or copied on this thread.
pub(crate) fn entries(work: impl FnOnce()) -> usize {
    let before = ENTRIES.get();
    work();
    ENTRIES.get() - before
}
