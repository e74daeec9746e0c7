//! Folders that are mounted below an allowed one: what leads into the data folder is refused, at any depth.

use std::fs;
use std::path::Path;

use rustix::process::geteuid;
use serde_json::{Value, json};
use tunesmith_testing::python::{REPORTERS, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

use crate::allowed_folders::{Team, violation, with_job_dir};

/// Set in the process with mounts of its own.
const INSIDE: &str = "TUNESMITH_TEST_HAS_MOUNTS";

/// Runs the test `name` of this file in a process that may mount, where `check` runs.
fn with_mounts(name: &str, check: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return check();
    }
    let mut command = program("unshare");
    if !geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--mount").arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("mounted_folders::{name}"), "--nocapture"]).env(INSIDE, "1");
    let inside = finished(command.output().unwrap()).expect(0);
    assert!(inside.stdout.contains("1 passed"), "{}", inside.stdout);
}

/// Shows the folder `from` of `workspace` at `to` as well.
fn mount(workspace: &Workspace, from: &str, to: &str) {
    fs::create_dir_all(workspace.path().join(to)).unwrap();
    let mounted = program("mount").arg("--bind").args([from, to]).current_dir(workspace.path()).output().unwrap();
    finished(mounted).expect(0);
}

/// Writes a file of events with `loss` 0.25 to `folder`.
fn write_events(folder: &Path) {
    let script = "import sys, tensorboardX\nwriter = tensorboardX.SummaryWriter(sys.argv[1])\n\
                  writer.add_scalar('loss', 0.25, 1)\nwriter.close()";
    finished(program(interpreter(&REPORTERS)).args(["-c", script]).arg(folder).output().unwrap()).expect(0);
}

#[test]
fn data_folder_is_closed_in_whole_and_in_part() {
    with_mounts("data_folder_is_closed_in_whole_and_in_part", || {
        let team = Team::new();
        let workspace = &team.workspace;
        // The area of another project, two folders below the data folder.
        fs::create_dir_all(team.at("data/job-dirs/q/inner")).unwrap();
        fs::write(team.at("data/job-dirs/q/secret"), "of q").unwrap();
        fs::create_dir(team.at("beside")).unwrap();
        fs::write(team.at("beside/model"), "m").unwrap();
        for (from, to) in [
            ("data", "out/whole"),
            ("data/job-dirs", "out/areas"),
            ("data/job-dirs/q/inner", "out/inner"),
            ("data/job-dirs/q", "out/job/below"),
            ("beside", "out/job/mounted"),
        ] {
            mount(workspace, from, to);
        }
        mount(workspace, "data/job-dirs/q", "whole-part");
        let refused = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"];
        let mut command = workspace.command();
        command.args(refused).args(["--allowed-folder", &team.at("whole-part")]);
        let text = finished(command.output().unwrap()).expect(2).stderr;
        assert!(text.contains("jobs could read and change the store, the tokens and the audit log"), "{text}");

        let server = Server::start(workspace, &["--allowed-folder", &team.at("out")]);
        for inside in ["out/whole", "out/whole/x", "out/whole/job-dirs/p/x", "out/areas", "out/areas/q/x", "out/inner"]
        {
            let answer = team.create(&server, "inside", &with_job_dir(&team.at(inside)));
            let (field, text) = violation(&answer);
            assert_eq!(field, "trainingInput.jobDir");
            assert!(text.contains("is not allowed on this server"), "{text}");
            let package = json!({"packageUris": [team.at(inside) + "/p-1.0.tar.gz"], "pythonModule": "m"});
            let answer = team.create(&server, "package", &package);
            let (field, text) = violation(&answer);
            assert!(field == "trainingInput.packageUris" && text.contains("is not allowed on this server"), "{text}");
        }
        // Other mounts are as any folder.
        let (status, answer) = team.create(&server, "j", &with_job_dir(&team.at("out/job")));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(team.end(&server, "j")["state"], "SUCCEEDED");
        let (status, list) = team.view(&server, "j/artifacts");
        let files: Vec<&Value> = list["artifacts"].as_array().unwrap().iter().map(|one| &one["file"]).collect();
        assert_eq!((status, files), (200, vec![&json!("mounted/model")]), "{list}");
        assert_eq!(team.view(&server, "j/artifacts:download?file=below/secret").0, 404);
    });
}

#[test]
fn event_files_of_other_folders_are_not_read() {
    with_mounts("event_files_of_other_folders_are_not_read", || {
        let team = Team::new();
        write_events(&team.workspace.path().join("events"));
        write_events(&team.workspace.path().join("data/job-dirs/q"));
        let job = team.at("out/job");
        mount(&team.workspace, "data/job-dirs/q", "out/job/1/part");
        mount(&team.workspace, "events", "out/job/2/part");
        let script = format!(
            r#"for word; do case $word in --job-dir=*) dir=${{word#--job-dir=}};; esac; done
               case $CLOUD_ML_TRIAL_ID in 3) rmdir "$dir"; ln -s '{0}' "$dir";; 4) ln -s '{0}' "$dir/events";; esac"#,
            team.at("events")
        );
        let mut input = with_job_dir(&job);
        input["masterConfig"]["containerCommand"] = json!(["sh", "-c", script, "program"]);
        input["hyperparameters"] = json!({"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 4,
            "maxFailedTrials": 4, "algorithm": "RANDOM_SEARCH",
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]});
        let server = Server::start(&team.workspace, &["--allowed-folder", &team.at("out")]);
        let (status, answer) = team.create(&server, "j", &input);
        assert_eq!(status, 200, "{answer}");
        let ended = team.end(&server, "j");
        // What is mounted from a folder beside the data folder is as any folder.
        let trials = ended["trainingOutput"]["trials"].as_array().unwrap();
        let values: Vec<_> =
            trials.iter().map(|trial| (&trial["trialId"], &trial["finalMetric"]["objectiveValue"])).collect();
        assert_eq!(values, [(&json!("2"), &json!(0.25))], "{ended}");
        let notices = ended["tunesmith"]["notices"].to_string();
        assert!(notices.contains("job/1/part is not a regular file"), "{notices}");
    });
}
