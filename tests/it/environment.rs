//! The environment of the programs that tests start.

use std::collections::BTreeSet;

use crate::support::{Workspace, program};

#[test]
fn programs_of_tests_depend_on_nothing_of_the_user() {
    let workspace = Workspace::new("");
    let output = program("env").current_dir(workspace.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let allowed = [
        "HOME",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LLVM_PROFILE_FILE",
        "LOGNAME",
        "PATH",
        "RUST_BACKTRACE",
        "TMPDIR",
        "TUNESMITH_TEST_HOME",
        "TZ",
        "USER",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    let home = text.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(std::path::Path::new(home).starts_with(env!("CARGO_TARGET_TMPDIR")), "{home}");
    // The product gets the same.
    let command = workspace.command();
    let given: BTreeSet<&str> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
    assert!(given.iter().all(|name| allowed.contains(name)), "{given:?}");
}
