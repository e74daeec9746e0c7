//! Resources and devices that programs share, limits, and changes of the numbers of trials of a running job, with real
//! servers and programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::client::client;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

const JOBS: &str = "/v1/projects/local/jobs";

/// Notes its device, fails if another program uses it, and waits until the file `go-<trial>` or `go` exists.
const USES_DEVICE: &str = "echo \"$CLOUD_ML_TRIAL_ID $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES\" >> devices
    mkdir \"used-$CUDA_VISIBLE_DEVICES\" || exit 9
    until [ -e go ] || [ -e \"go-$CLOUD_ML_TRIAL_ID\" ]; do sleep 0.01; done
    rmdir \"used-$CUDA_VISIBLE_DEVICES\"; echo acc=0.5 step=1";

/// Notes how many programs run, and waits until the file `go-<trial>` or `go` exists.
const COUNTS: &str = "mkdir \"runs-$CLOUD_ML_TRIAL_ID\"; ls -d runs-* | wc -l >> counts
    until [ -e go ] || [ -e \"go-$CLOUD_ML_TRIAL_ID\" ]; do sleep 0.01; done
    rmdir \"runs-$CLOUD_ML_TRIAL_ID\"; echo acc=0.5 step=1";

const TWO_DEVICES: &str = "resources:\n  devices:\n  - {id: GPU-a}\n  - {id: GPU-b}\n";

/// A training input of `trials` trials, as many of which run at once as are allowed.
fn tuning(script: &str, trials: u32, parallel: u32, gpus: u32) -> Value {
    let mut master = json!({"containerCommand": ["sh", "-c", script]});
    if gpus > 0 {
        master["acceleratorConfig"] = json!({"type": "NVIDIA_TESLA_V100", "count": gpus});
    }
    json!({
        "masterConfig": master,
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": trials,
            "maxParallelTrials": parallel, "algorithm": "RANDOM_SEARCH",
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true, "stopGracePeriod": "1s"},
    })
}

fn configured(config: &str, more: &[&str]) -> (Workspace, Server) {
    let workspace = Workspace::new("");
    workspace.write("server.yaml", config);
    let server = serve(&workspace, more);
    (workspace, server)
}

fn serve(workspace: &Workspace, more: &[&str]) -> Server {
    Server::start(workspace, &[&["--server-config", "server.yaml", "--job-slots", "8"], more].concat())
}

#[track_caller]
fn create(server: &Server, id: &str, input: &Value) -> Value {
    let (status, answer) = server.post(JOBS, &json!({"jobId": id, "trainingInput": input}));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn job(server: &Server, id: &str) -> Value {
    server.get(&format!("{JOBS}/{id}")).1
}

/// Polls the job until trials of it wait, and returns the reasons.
fn waiting(server: &Server, id: &str) -> Vec<Value> {
    found(|| {
        let job = job(server, id);
        let waiting = job["tunesmith"]["waiting"].as_array().cloned().unwrap_or_default();
        if waiting.iter().any(|one| one["trialCount"].is_string()) {
            return Some(waiting);
        }
        assert!(!job["endTime"].is_string(), "{job}");
        None
    })
}

fn ended(server: &Server, id: &str) -> Value {
    server.until_ended(&format!("{JOBS}/{id}"))
}

/// Waits until the file `name` has `count` lines, and returns them.
fn lines(workspace: &Workspace, name: &str, count: usize) -> Vec<String> {
    found(|| {
        let text = fs::read_to_string(workspace.path().join(name)).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
}

fn release(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.write(name, "")
}

#[test]
fn listed_devices_are_never_shared_and_are_kept_across_a_restart_of_the_server() {
    let (workspace, server) = configured(TWO_DEVICES, &[]);
    create(&server, "j", &tuning(USES_DEVICE, 4, 4, 1));
    let first: BTreeSet<String> =
        lines(&workspace, "devices", 2).iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    let expected = ["GPU-a GPU-a", "GPU-b GPU-b"].map(str::to_owned);
    assert_eq!(first, BTreeSet::from(expected));
    let reason = "needs 1 GPU of type v100; 0 of 2 GPUs are free";
    let waits = waiting(&server, "j");
    assert_eq!((&waits[0]["kind"], &waits[0]["reason"]), (&json!("RESOURCES"), &json!(reason)), "{waits:?}");
    assert_eq!(waits[0]["trialCount"], "2");
    let metrics = server.text("GET", "/metrics").1;
    assert!(metrics.contains("tunesmith_trials_waiting{reason=\"resources\"} 2\n"), "{metrics}");
    let address = format!("http://{}", server.address);
    let shown = client(&workspace, &["jobs", "describe", "j", "--format", "table"], &["--server", &address]).expect(0);
    assert!(shown.stdout.contains(&format!("2 trials wait: {reason}\n")), "{}", shown.stdout);

    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    let server = serve(&workspace, &[]);
    // Another job does not get the devices of the running trials either.
    create(&server, "other", &tuning(USES_DEVICE, 1, 1, 1));
    for id in ["j", "other"] {
        let waits = waiting(&server, id);
        assert_eq!(waits[0]["kind"], "RESOURCES", "{waits:?}");
    }
    assert_eq!(lines(&workspace, "devices", 2).len(), 2);
    release(&workspace, "go");
    for id in ["j", "other"] {
        let job = ended(&server, id);
        assert_eq!(job["state"], "SUCCEEDED", "{job}");
        assert_eq!(job["tunesmith"]["waiting"], Value::Null);
    }
    assert_eq!(job(&server, "j")["trainingOutput"]["completedTrialCount"], "4");
    assert_eq!(lines(&workspace, "devices", 5).len(), 5);
}

#[test]
fn devices_are_those_of_nvidia_smi_and_programs_without_a_request_see_none() {
    let workspace = Workspace::new("trainingInput: {}\n");
    workspace.write("server.yaml", "resources: {discoverDevices: true}\naccelerators: {NVIDIA_TESLA_K80: a100}\n");
    let script = "#!/bin/sh\necho 'GPU-1, NVIDIA A100-SXM4-40GB'\n";
    let program = workspace.write("nvidia-smi", script);
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", workspace.path().display(), tunesmith_testing::environment::path());
    let run = |path: &str| {
        let command = "echo \"devices=$CUDA_VISIBLE_DEVICES,$NVIDIA_VISIBLE_DEVICES\"";
        let mut run = workspace.run_command(["--server-config", "server.yaml", "--", "sh", "-c", command]);
        finished(run.env("PATH", path).output().unwrap())
    };
    let shown = run(&path).expect(0);
    assert!(shown.stdout.contains("devices=,void\n"), "{}", shown.stdout);
    workspace.write("hptuning_config.yaml", "scaleTier: BASIC_GPU\n");
    let shown = run(&path).expect(0);
    assert!(shown.stdout.contains("devices=GPU-1,GPU-1\n"), "{}", shown.stdout);
    workspace.write("nvidia-smi", "#!/bin/sh\necho 'no driver' >&2; exit 9\n");
    let failed = run(&path).expect(2);
    assert!(
        failed
            .stderr
            .contains("nvidia-smi failed (exit status: 9): no driver: list the devices under resources.devices"),
        "{}",
        failed.stderr
    );
}

/// Prints the number of accelerators that the driver of NVIDIA shows to the program.
const COUNT_DEVICES: &str = r#"
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int(0)
if driver.cuInit(0) == 0:
    driver.cuDeviceGetCount(ctypes.byref(count))
print("devices:", count.value)
"#;

/// Runs only on a machine with an NVIDIA accelerator.
#[test]
fn real_accelerators_are_handed_out() {
    let found = tunesmith_testing::program("nvidia-smi").arg("-L").output();
    if !found.is_ok_and(|found| found.status.success() && found.stdout.starts_with(b"GPU ")) {
        eprintln!("skipped: nvidia-smi lists no accelerator on this machine");
        return;
    }
    let workspace = Workspace::new("trainingInput: {}\n");
    workspace.write("server.yaml", "resources: {discoverDevices: true}\naccelerators: {NVIDIA_TESLA_K80: any}\n");
    let run =
        || workspace.run(["--server-config", "server.yaml", "--", "python3", "-c", COUNT_DEVICES]).expect(0).stdout;
    assert!(run().contains("devices: 0\n"));
    workspace.write("hptuning_config.yaml", "scaleTier: BASIC_GPU\n");
    assert!(run().contains("devices: 1\n"));
}

#[test]
fn numbers_of_trials_change_while_the_job_runs() {
    let (workspace, server) = configured("{}\n", &[]);
    create(&server, "j", &tuning(COUNTS, 9, 1, 0));
    assert_eq!(lines(&workspace, "counts", 1), ["1"]);
    let address = format!("http://{}", server.address);
    let update = |flags: &[&str]| {
        let args = [&["jobs", "update", "j"], flags].concat();
        client(&workspace, &args, &["--server", &address]).expect(0).stdout
    };
    assert_eq!(update(&["--max-parallel-trials", "3"]), "job j has maxParallelTrials 3\n");
    // At once, beside the running trial.
    assert_eq!(lines(&workspace, "counts", 3).len(), 3);
    assert_eq!(job(&server, "j")["trainingInput"]["hyperparameters"]["maxParallelTrials"], 3);
    let lowered = update(&["--max-parallel-trials", "1", "--max-trials", "5"]);
    assert_eq!(lowered, "job j has maxParallelTrials 1\njob j has maxTrials 5\n");
    // The running trials end; only then the next one starts, alone.
    for trial in 1..=3 {
        release(&workspace, &format!("go-{trial}"));
    }
    assert_eq!(lines(&workspace, "counts", 4)[3], "1");
    release(&workspace, "go");
    let done = ended(&server, "j");
    assert_eq!((&done["state"], &done["trainingOutput"]["completedTrialCount"]), (&json!("SUCCEEDED"), &json!("5")));
    assert_eq!(lines(&workspace, "counts", 5)[4], "1");

    // A job that has ended goes on with more trials, and keeps its new number at once.
    let refused = json!({"trainingInput": {"hyperparameters": {"maxTrials": 5}}});
    let path = format!("{JOBS}/j?updateMask=trainingInput.hyperparameters.maxTrials");
    let patch = |body: &Value| server.send("PATCH", &path, "content-type: application/json\r\n", &body.to_string());
    assert_eq!(patch(&refused).0, 400);
    assert_eq!(update(&["--max-trials", "6"]), "job j has maxTrials 6\n");
    let done = found(|| Some(ended(&server, "j")).filter(|done| done["trainingOutput"]["completedTrialCount"] == "6"));
    assert_eq!(done["trainingInput"]["hyperparameters"]["maxTrials"], 6);
}

#[test]
fn running_trials_are_limited_per_principal_and_project() {
    let workspace = Workspace::new("");
    workspace.write("server.yaml", "limits:\n  runningTrials: {principal: 1, project: 2}\n");
    let [ann, bob, eve] = ["user:ann", "user:bob", "user:eve"]
        .map(|name| bearer(&token(&workspace, &["--principal", name, "--role", "ml.admin@local"])));
    let server = serve(&workspace, &[]);
    let submit = |id: &str, who: &str| {
        let body = json!({"jobId": id, "trainingInput": tuning(COUNTS, 1, 1, 0)}).to_string();
        let (status, answer) = server.send("POST", JOBS, who, &body);
        assert_eq!(status, 200, "{answer}");
    };
    let get = |id: &str| server.send("GET", &format!("{JOBS}/{id}"), &ann, "").1;
    let limit = |id: &str| {
        found(|| {
            let waiting = &get(id)["tunesmith"]["waiting"][0];
            (waiting["kind"] == "LIMIT").then(|| waiting["reason"].as_str().unwrap().to_owned())
        })
    };
    submit("a1", &ann);
    lines(&workspace, "counts", 1);
    submit("a2", &ann);
    assert_eq!(limit("a2"), "the limit on running trials of principal user:ann is reached: 1 of 1 run");
    submit("b", &bob);
    lines(&workspace, "counts", 2);
    submit("e", &eve);
    assert_eq!(limit("e"), "the limit on running trials of project local is reached: 2 of 2 run");
    release(&workspace, "go");
    for id in ["a1", "a2", "b", "e"] {
        until(|| get(id)["endTime"].is_string());
        assert_eq!(get(id)["state"], "SUCCEEDED");
    }
    let most: usize = lines(&workspace, "counts", 4).iter().map(|line| line.parse().unwrap()).max().unwrap();
    assert!(most <= 2, "{most} trials ran at once");
}

#[test]
fn queued_jobs_are_limited_and_fail_after_the_queue_deadline() {
    let workspace = Workspace::new("");
    workspace.write("server.yaml", "limits: {queuedJobs: {project: 1}}\n");
    let one_slot = ["--server-config", "server.yaml", "--job-slots", "1"];
    let server = Server::start(&workspace, &one_slot);
    create(&server, "runs", &tuning(COUNTS, 1, 1, 0));
    lines(&workspace, "counts", 1);
    let queued = create(&server, "waits", &tuning(COUNTS, 1, 1, 0));
    let reason = &queued["tunesmith"]["waiting"][0];
    assert_eq!(reason["kind"], "JOB_SLOT");
    assert_eq!(reason["reason"], "1 of 1 job slots are in use, and it is the next job");
    let third = json!({"jobId": "third", "trainingInput": tuning(COUNTS, 1, 1, 0)});
    let (status, refused) = server.post(JOBS, &third);
    assert_eq!((status, &refused["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(
        refused["error"]["message"],
        "the limit on queued jobs of project local is reached: 1 of 1 wait: wait until some have started, or cancel some"
    );
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));
    workspace.write("server.yaml", "queueDeadline: 0.001s\n");
    let server = Server::start(&workspace, &one_slot);
    let failed = ended(&server, "waits");
    assert_eq!(failed["state"], "FAILED");
    assert_eq!(
        failed["errorMessage"],
        "the job waited for a job slot longer than the queue deadline of 0.001 s of this server"
    );
    release(&workspace, "go");
    let done = ended(&server, "runs");
    assert_eq!(done["state"], "SUCCEEDED", "{done}");
}

#[test]
fn job_whose_trials_wait_longer_than_the_queue_deadline_fails_with_the_reason() {
    let config = format!("{TWO_DEVICES}queueDeadline: 1s\n");
    let (workspace, server) = configured(&config, &[]);
    create(&server, "holds", &tuning(USES_DEVICE, 1, 1, 2));
    lines(&workspace, "devices", 1);
    create(&server, "waits", &tuning(USES_DEVICE, 1, 1, 1));
    let failed = ended(&server, "waits");
    assert_eq!(failed["state"], "FAILED");
    assert_eq!(
        failed["errorMessage"],
        "no trial could start: the next one waited longer than the queue deadline of 1 s of this server: needs 1 GPU of \
         type v100; 0 of 2 GPUs are free"
    );
    release(&workspace, "go");
    assert_eq!(ended(&server, "holds")["state"], "SUCCEEDED");
}

#[test]
fn what_the_server_does_not_have_is_refused_with_what_to_do() {
    let (_workspace, server) = configured(TWO_DEVICES, &[]);
    let refusal = |input: &Value| {
        let (status, answer) = server.post(JOBS, &json!({"jobId": "j", "trainingInput": input}));
        assert_eq!(status, 400, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        refusal(&tuning("true", 1, 1, 3)),
        "trainingInput: the job can never start: it needs 3 GPUs of type v100, and this server has 2 of any type: ask for \
         less, or change what the machine type, scale tier or accelerator stands for in the server configuration"
    );
    let mut unknown = tuning("true", 1, 1, 0);
    unknown["scaleTier"] = json!("CUSTOM");
    unknown["masterType"] = json!("n1-standrd-4");
    let message = refusal(&unknown);
    let expected = "trainingInput.masterType: \"n1-standrd-4\" is not a machine type of this server; did you mean \
                    \"n1-standard-4\"?; allowed: one of ";
    assert!(message.starts_with(expected), "{message}");
    // The fields that have no effect are named.
    let mut named = tuning("true", 1, 1, 0);
    named["scaleTier"] = json!("BASIC_GPU");
    named["region"] = json!("us-central1");
    let created = create(&server, "named", &named);
    let notices = created["tunesmith"]["notices"].as_array().unwrap();
    let text = |field: &str| notices.iter().find(|one| one["field"] == field).map(|one| one["description"].clone());
    let partly = "has no effect on cpus and memory, which this server does not count";
    assert_eq!(text("trainingInput.scaleTier"), Some(json!(partly)));
    assert_eq!(text("trainingInput.region"), Some(json!("has no effect on this service")));
}

#[test]
fn predefined_scale_tier_starts_its_replicas() {
    let workspace = Workspace::new("scaleTier: STANDARD_1\n");
    let run = workspace.run(["--", "sh", "-c", "printf %s \"$TF_CONFIG\" > \"tf-$$\""]).expect(0);
    let notice = "warning: scaleTier: STANDARD_1 starts 4 workers and 3 parameter servers beside the master; its machine \
                  types: has no effect on this service";
    assert!(run.stderr.contains(notice), "{}", run.stderr);
    let master = tf_configs(workspace.path()).into_iter().find(|config| config["task"]["type"] == "master").unwrap();
    let count = |role: &str| master["cluster"][role].as_array().map_or(0, Vec::len);
    assert_eq!((count("master"), count("worker"), count("ps")), (1, 4, 3), "{master}");

    workspace.write("server.yaml", "scaleTiers: {STANDARD_1: {workerCount: 1, parameterServerCount: 0}}\n");
    for (path, _) in tf_files(workspace.path()) {
        fs::remove_file(path).unwrap();
    }
    let command = "printf %s \"$TF_CONFIG\" > \"tf-$$\"; true";
    workspace.run(["--server-config", "server.yaml", "--", "sh", "-c", command]).expect(0);
    let master = tf_configs(workspace.path()).into_iter().find(|config| config["task"]["type"] == "master").unwrap();
    assert_eq!(master["cluster"]["worker"].as_array().map(Vec::len), Some(1), "{master}");
}

/// The files in `folder` that programs have written.
fn tf_files(folder: &Path) -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_program = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("tf-"));
    of_program.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The complete ones among them: the master ends the other replicas.
fn tf_configs(folder: &Path) -> Vec<Value> {
    tf_files(folder).iter().filter_map(|(_, text)| serde_json::from_str(text).ok()).collect()
}

#[test]
fn bad_server_configuration_is_refused_with_places_and_allowed_values() {
    let workspace = Workspace::new("trainingInput: {}\n");
    let text = "resources:\n  cpus: -2\nmachineTypes:\n  big: {cpu: 4}\nscaleTiers:\n  BASIC: {masterType: \
                n1-standrd-4}\nregions:\n  here: {}\n  here: {}\n";
    workspace.write("server.yaml", text);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"];
    let served = finished(workspace.command().args(serve).output().unwrap()).expect(2);
    let run = workspace.run(["--server-config", "server.yaml", "--", "true"]).expect(2);
    for stderr in [served.stderr, run.stderr] {
        for expected in [
            "resources.cpus: -2 is negative",
            "--> server.yaml:2:9",
            "a number of processors from 0.001 to 1000000",
            "machineTypes.big.cpu: unknown field",
            "did you mean `cpus`?",
            "--> server.yaml:4:9",
            "scaleTiers.BASIC.masterType: \"n1-standrd-4\" is not a machine type",
            "did you mean `n1-standard-4`?",
            "the key `here` comes twice in one mapping",
            "4 errors in server.yaml",
        ] {
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
    }
    assert!(!workspace.path().join("data").exists());
    let missing = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "none.yaml"];
    let missing = finished(workspace.command().args(missing).output().unwrap()).expect(2);
    assert!(missing.stderr.contains("none.yaml cannot be read: No such file"), "{}", missing.stderr);
}
