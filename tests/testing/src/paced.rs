//! Looks at what announces no changes, at a pace that leaves the processor to what is looked at.

use std::time::{Duration, Instant};

/// The first pause between two looks, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// Time after which a look gives up: far more than anything takes that a test waits for.
const LIMIT: Duration = Duration::from_secs(240);

/// Looks until `look` finds something, and returns it. `look` panics if that cannot come any more.
#[track_caller]
pub fn found<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let (begin, mut pause) = (Instant::now(), PAUSES[0]);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "nothing was found within {} s", LIMIT.as_secs());
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// Looks until `is_so` holds. It panics if that cannot happen any more.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    found(|| is_so().then_some(()));
}
