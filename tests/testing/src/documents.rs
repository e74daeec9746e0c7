//! Files of the repository that tests generate.

use std::fs;

use crate::root;

/// Asserts that the file `path` has the content `expected`, or writes it if `UPDATE_DOCS` is set.
#[track_caller]
pub fn assert_current(path: &str, expected: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(path), expected).unwrap();
    }
    let actual = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let differing = actual.lines().zip(expected.lines()).find(|(actual, expected)| actual != expected);
    assert!(actual == expected, "{path} is out of date, set UPDATE_DOCS=1 and run this test again; {differing:?}");
}
