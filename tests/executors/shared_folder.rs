//! Two commands on one data folder.

use std::process::Stdio;

use tunesmith_testing::{Workspace, finished, wait_for_line};

#[test]
fn second_run_on_a_data_folder_names_the_first_and_the_ways_out() {
    let workspace = Workspace::new("scheduling: {maxRunningTime: 600s}\n");
    let script = "echo > started; exec tail -f /dev/null";
    let mut first = workspace.run_command(["--", "sh", "-c", script]).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(first.stderr.as_mut().unwrap(), "created, in ");
    let second = workspace.run(["--", "true"]).expect(2);
    let holder = format!("is in use by process {} (tunesmith run --config hptuning_config.yaml) since 2", first.id());
    for part in [
        holder.as_str(),
        "give another folder, such as --data-dir .tunesmith-2",
        "`tunesmith serve`",
        "tunesmith jobs submit training --server",
    ] {
        assert!(second.stderr.contains(part), "{part}: {}", second.stderr);
    }
    let other = workspace.run(["--data-dir", "other", "--", "true"]);
    other.expect(0);
    tunesmith_testing::signal(&first, rustix::process::Signal::INT);
    assert_eq!(finished(first.wait_with_output().unwrap()).code, Some(130));
}
