//! The documentation: its commands run, its generated pages are current, its links and names exist.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod docs;
mod examples;
mod first_hour;
