//! What programs of jobs inherit, as whom they run, and who may read the files of a data folder.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};
use serde_json::{Value, json};
use tunesmith_testing::access::token;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

const CONFIG: &str = "
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: acc
  maxTrials: 1
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith:
  metricFromStdout: true
";

/// Runs a trainer that writes its environment to a file, and returns the variables.
fn environment_of_trainer(more: &[&str]) -> BTreeMap<String, String> {
    let workspace = Workspace::new(CONFIG);
    workspace.write("train.sh", "env > variables; echo acc=1");
    let arguments = more.iter().copied().chain(["--", "bash", "train.sh"]);
    let mut command = workspace.run_command(arguments);
    command.env("SECRET_KEY", "s").env("AWS_SECRET_ACCESS_KEY", "s").env("PYTHONHASHSEED", "7").env("LC_TIME", "C");
    finished(command.output().unwrap()).expect(0);
    let variables = workspace.read("variables");
    variables.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn programs_inherit_the_documented_variables_and_those_that_are_passed() {
    let inherited = environment_of_trainer(&[]);
    assert_eq!((inherited.get("SECRET_KEY"), inherited.get("AWS_SECRET_ACCESS_KEY")), (None, None));
    assert_eq!((inherited["PYTHONHASHSEED"].as_str(), inherited["LC_TIME"].as_str()), ("7", "C"));
    assert!(inherited.contains_key("PATH") && inherited.contains_key("CLOUD_ML_TRIAL_ID"));
    let passed = environment_of_trainer(&["--pass-environment", "SECRET_KEY,AWS_*"]);
    assert_eq!((passed["SECRET_KEY"].as_str(), passed["AWS_SECRET_ACCESS_KEY"].as_str()), ("s", "s"));

    let workspace = Workspace::new(CONFIG);
    let run = workspace.run(["--pass-environment", "A=B", "--", "true"]).expect(2);
    assert!(run.stderr.contains("--pass-environment: \"A=B\" is not the name of a variable"), "{}", run.stderr);
}

/// Runs `command` with the umask 022, under which other users may read new files.
fn with_usual_umask(mut command: Command) -> Output {
    // SAFETY: the closure makes one system call.
    #[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
    unsafe {
        command.pre_exec(|| {
            umask(Mode::from_raw_mode(0o022));
            Ok(())
        });
    }
    command.output().unwrap()
}

/// Panics if other users have access to an entry of `folder`.
fn expect_private(folder: &Path) {
    let metadata = folder.symlink_metadata().unwrap();
    if metadata.is_symlink() {
        return;
    }
    assert_eq!(metadata.mode() & 0o077, 0, "{} has mode {:o}", folder.display(), metadata.mode());
    if metadata.is_dir() {
        for entry in std::fs::read_dir(folder).unwrap() {
            expect_private(&entry.unwrap().path());
        }
    }
}

#[test]
fn data_folder_is_private_and_the_files_of_the_user_have_the_usual_modes() {
    for store in ["sqlite", "sled"] {
        let workspace = Workspace::new(CONFIG);
        workspace.write("train.sh", "touch models/1/model; echo acc=1; kill -9 $PPID; exit 0");
        let arguments = ["--store", store, "--data-dir", "data", "--job-dir", "models", "--", "bash", "train.sh"];
        finished(with_usual_umask(workspace.run_command(arguments))).code.unwrap();
        expect_private(&workspace.path().join("data"));
        let mode = |name: &str| workspace.path().join(name).metadata().unwrap().mode() & 0o777;
        let modes = ["models", "models/1", "models/1/model", "job.json", "trials.csv"].map(mode);
        assert_eq!(modes, [0o755, 0o755, 0o644, 0o644, 0o644]);
    }
}

#[test]
fn store_that_others_could_read_is_made_private() {
    let workspace = Workspace::new(CONFIG);
    let arguments = ["--data-dir", "data", "--", "bash", "-c", "echo acc=1"];
    workspace.run(arguments).expect(0);
    let path = |name: &str| workspace.path().join("data").join(name);
    for (name, mode) in [("store.sqlite", 0o644), ("jobs", 0o755), ("LOCK", 0o644)] {
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    workspace.run(arguments).expect(0);
    let modes = ["store.sqlite", "jobs", "LOCK"].map(|name| path(name).metadata().unwrap().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o711, 0o600]);
}

#[test]
fn server_of_several_principals_needs_isolated_programs() {
    let workspace = Workspace::new("");
    token(&workspace, &["--principal", "user:one@x", "--role", "ml.admin"]);
    token(&workspace, &["--principal", "user:one@x", "--role", "ml.viewer"]);
    drop(Server::start(&workspace, &[]));
    token(&workspace, &["--principal", "user:two@x", "--role", "ml.developer@p"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    let refused = finished(workspace.command().args(serve).output().unwrap()).expect(2);
    assert!(refused.stderr.contains("2 principals have tokens"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-unisolated-programs"), "{}", refused.stderr);
    let unknown = finished(workspace.command().args(serve).args(["--run-as", "no-such-user"]).output().unwrap());
    let expected = if geteuid().is_root() { "there is no user \"no-such-user\"" } else { "only root may run programs" };
    assert!(unknown.expect(2).stderr.contains(expected));
}

fn run_job(server: &Server, id: &str, input: &Value) -> Value {
    let (status, answer) = server.post("/v1/projects/p/jobs", &json!({"jobId": id, "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    server.until_ended(&format!("/v1/projects/p/jobs/{id}"))
}

#[test]
fn programs_of_another_user_reach_their_metric_file_and_no_file_of_the_server() {
    let workspace = Workspace::new("");
    let run_as = ["--run-as", "daemon", "--run-as", "q=bin"];
    if !geteuid().is_root() {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
        let refused = finished(workspace.command().args(serve).args(run_as).output().unwrap()).expect(2);
        assert!(refused.stderr.contains("only root may run programs as another user"), "{}", refused.stderr);
        return;
    }
    // The folders above the data folder are those of the operator.
    std::fs::set_permissions(workspace.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let data = workspace.path().join("data");
    let server = Server::start(&workspace, &run_as);
    let script = format!(
        "id -un; echo $HOME; touch \"$CLOUD_ML_HP_METRIC_FILE\" && echo metric; cd $(dirname $CLOUD_ML_HP_METRIC_FILE)/..; \
         for file in spec.json started.json {data}/store.sqlite {data}/STORE; do cat $file > /dev/null && echo read $file; done; \
         rm -f stdout.log || echo kept; echo > exit.json || echo kept; ls {data} > /dev/null || echo hidden",
        data = data.display()
    );
    let input = json!({"masterConfig": {"containerCommand": ["bash", "-c", format!("({script}) 2> /dev/null")]}});
    let job = run_job(&server, "j", &input);
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    let log = server.get("/v1/projects/p/jobs/j/logs/attempt-1.master-0.stdout").1["text"].clone();
    assert_eq!(log, "daemon\n/usr/sbin\nmetric\nkept\nkept\nhidden\n");

    // Of the files below a job-dir, only those of the user of the programs can be read.
    let folder = workspace.path().join("shared");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(1), None).unwrap();
    std::fs::write(folder.join("secret"), "of root").unwrap();
    let input =
        json!({"jobDir": folder, "masterConfig": {"containerCommand": ["sh", "-c", "echo x > \"$0/own\"", folder]}});
    assert_eq!(run_job(&server, "writes", &input)["state"], "SUCCEEDED");
    let (_, listed) = server.get("/v1/projects/p/jobs/writes/artifacts");
    let names: Vec<&Value> = listed["artifacts"].as_array().unwrap().iter().map(|file| &file["file"]).collect();
    assert_eq!(names, ["own"], "{listed}");
    let download =
        |file: &str| server.text("GET", &format!("/v1/projects/p/jobs/writes/artifacts:download?file={file}"));
    assert_eq!(download("own"), (200, "x\n".to_owned()));
    assert_eq!(download("secret").0, 404);

    // The folder of a job is created as the user of its programs, who may not write here.
    let input = json!({"jobDir": workspace.path().join("models"), "masterConfig": {"containerCommand": ["true"]}});
    let job = run_job(&server, "elsewhere", &input);
    assert_eq!(job["state"], "FAILED");
    let reason = job["errorMessage"].as_str().unwrap();
    assert!(reason.contains("models cannot be created") && reason.contains("as user daemon"), "{reason}");
    assert!(!workspace.path().join("models").exists());
}

/// The capabilities that the unit of a server with `--run-as` keeps, as `setpriv` names them.
fn capabilities_of_the_unit() -> Vec<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/systemd/tunesmith-isolated.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = lines.flat_map(str::split_whitespace);
    names.map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect()
}

/// Serves in `workspace` as root with these capabilities only, as the unit does.
fn serve_with(workspace: &Workspace, capabilities: &[&str]) -> Server {
    let kept: String = capabilities.iter().map(|name| format!(",+{name}")).collect();
    let mut command = program("setpriv");
    command.args(["--bounding-set", &format!("-all{kept}"), "--inh-caps", "-all", "--no-new-privs", "--"]);
    command.arg(env!("CARGO_BIN_EXE_tunesmith")).current_dir(workspace.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--run-as", "daemon"]);
    Server::start_command(&mut command)
}

#[test]
fn shipped_unit_has_the_capabilities_that_isolated_programs_take() {
    if !geteuid().is_root() {
        return;
    }
    let capabilities = capabilities_of_the_unit();
    let all: Vec<&str> = capabilities.iter().map(String::as_str).collect();
    assert_eq!(all, ["setuid", "setgid", "chown", "dac_override", "kill"]);
    let workspace = Workspace::new("");
    std::fs::set_permissions(workspace.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let server = serve_with(&workspace, &all);
    let input = |script: &str| json!({"masterConfig": {"containerCommand": ["sh", "-c", script]}});
    let private = "umask 077; id -un; mkdir kept; echo x > kept/file; touch \"$CLOUD_ML_HP_METRIC_FILE\"";
    assert_eq!(run_job(&server, "j", &input(private))["state"], "SUCCEEDED");
    let log = server.get("/v1/projects/p/jobs/j/logs/attempt-1.master-0.stdout").1["text"].clone();
    assert_eq!(log, "daemon\n");
    // A running program is stopped, and the folders of programs are removed.
    let request = json!({"jobId": "runs", "trainingInput": input("exec sleep 600")});
    assert_eq!(server.post("/v1/projects/p/jobs", &request).0, 200);
    server.until("/v1/projects/p/jobs/runs", "RUNNING");
    assert_eq!(server.post("/v1/projects/p/jobs/runs:cancel", &json!({})).0, 200);
    assert_eq!(server.until_ended("/v1/projects/p/jobs/runs")["state"], "CANCELLED");
    assert_eq!(server.send("DELETE", "/v1/projects/p/jobs/j", "", "").0, 200);
    // The next server opens what this one left.
    drop(server);
    let server = serve_with(&workspace, &all);
    assert_eq!(server.get("/v1/projects/p/jobs/j").0, 404);
    assert_eq!(run_job(&server, "k", &input("true"))["state"], "SUCCEEDED");
    drop(server);

    // Without the right to become another user, as in the other unit, no program starts.
    let few: Vec<&str> = all.iter().copied().filter(|name| *name != "setuid").collect();
    let server = serve_with(&workspace, &few);
    let failed = run_job(&server, "l", &input("true"));
    assert_eq!(failed["state"], "FAILED", "{failed}");
}
