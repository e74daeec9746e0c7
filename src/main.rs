//! Tunesmith.
fn main() {}
