//! A server with several executors, which regions name.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;

const JOBS: &str = "/v1/projects/p/jobs";

const CONFIG: &str = "
resources: {cpus: 2}
machineTypes: {huge: {cpus: 64}}
regions:
  near: {}
  far: {executor: agent}
  cluster: {executor: agent}
";

fn serve(workspace: &Workspace, listen: SocketAddr, config: &str) -> Server {
    std::fs::write(workspace.path().join("server.yaml"), config).unwrap();
    let mut command = workspace.command();
    command.args(["serve", "--listen", &listen.to_string(), "--data-dir", "data", "--allow-unisolated-programs"]);
    Server::start_command(command.args(["--server-config", "server.yaml", "--job-slots", "4"]))
}

/// Waits until the program of the job `id` has opened the pipe `<id>.started`. Panics if the job ends before.
fn until_started(server: &Server, workspace: &Workspace, id: &str) {
    // Without waiting for the other end, which a job that has failed never opens.
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut pipe = options.open(workspace.path().join(format!("{id}.started"))).unwrap();
    found(|| {
        let mut text = [0; 1];
        match pipe.read(&mut text) {
            Ok(1) => return Some(()),
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        let job = server.get(&format!("{JOBS}/{id}")).1;
        assert!(job["endTime"].is_null(), "it has ended without having started: {job}");
        None
    });
}

/// Lets the program of the job `id` end.
fn release(server: &Server, workspace: &Workspace, id: &str) {
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let path = workspace.path().join(format!("{id}.go"));
    found(|| match options.open(&path) {
        Ok(_) => Some(()),
        // The program has not opened it.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            let job = server.get(&format!("{JOBS}/{id}")).1;
            assert!(job["endTime"].is_null(), "it has ended before it was released: {job}");
            None
        }
        Err(error) => panic!("{error}"),
    });
}

fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A job of one trial in `region` whose program opens the pipe `<id>.started` and then waits for the pipe `<id>.go`.
fn job(workspace: &Workspace, id: &str, region: &str) -> Value {
    let pipe = |end: &str| workspace.path().join(format!("{id}.{end}")).display().to_string();
    let script = format!("echo acc=0.5; echo > {}; cat {}", pipe("started"), pipe("go"));
    json!({"jobId": id, "trainingInput": {
        "region": region,
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {"goal": "MAXIMIZE", "hyperparameterMetricTag": "acc", "maxTrials": 1,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}]},
        "tunesmith": {"metricFromStdout": true},
    }})
}

#[test]
fn region_of_a_job_chooses_its_executor_which_finds_its_trials_after_a_restart() {
    let workspace = Workspace::new("");
    let listen = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let server = serve(&workspace, listen, CONFIG);
    // What cannot be routed is refused.
    let (status, refused) = server.post(JOBS, &job(&workspace, "lost", "europe-west9"));
    assert_eq!(status, 400, "{refused}");
    let message =
        "trainingInput.region: \"europe-west9\" is not a region of this server; allowed: one of cluster, far, near";
    assert_eq!(refused["error"]["message"], message);
    // The resources of this machine are not those of another executor.
    let mut large = job(&workspace, "large", "near");
    large["trainingInput"]["scaleTier"] = json!("CUSTOM");
    large["trainingInput"]["masterType"] = json!("huge");
    let (status, refused) = server.post(JOBS, &large);
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("needs 64 cpus, and this server has 2"), "{refused}");
    large["jobId"] = json!("away");
    large["trainingInput"]["region"] = json!("far");
    let mut small = job(&workspace, "here", "near");
    small["trainingInput"]["masterConfig"] = job(&workspace, "here", "")["trainingInput"]["masterConfig"].clone();
    large["trainingInput"]["masterConfig"] = job(&workspace, "away", "")["trainingInput"]["masterConfig"].clone();
    let ids = ["here", "away"];
    for (id, job) in ids.iter().zip([&small, &large]) {
        for end in ["started", "go"] {
            make_pipe(&workspace.path().join(format!("{id}.{end}")));
        }
        let (status, answer) = server.post(JOBS, job);
        assert_eq!(status, 200, "{answer}");
    }
    for id in ids {
        until_started(&server, &workspace, id);
    }
    let count = |folder: &str| {
        let entries = std::fs::read_dir(workspace.path().join("data").join(folder)).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("-attempt-1")).count()
    };
    assert_eq!((count("executions"), count("executors/agent/agent-spools"), count("routes")), (1, 1, 1));
    // Both trials run on when the server is killed, and are found where they run, whatever the regions are by then.
    server.kill();
    let changed = CONFIG.replace("far: {executor: agent}", "far: {}");
    let server = serve(&workspace, listen, &changed);
    for id in ids {
        release(&server, &workspace, id);
        let ended = server.until(&format!("{JOBS}/{id}"), "SUCCEEDED");
        let trial = &ended["trainingOutput"]["trials"][0];
        assert_eq!(trial["finalMetric"]["objectiveValue"], 0.5, "{ended:#}");
        let files = workspace.path().join(format!("data/projects/p/jobs/{id}/trials/1"));
        assert!(files.join("attempt-1").is_dir() && !files.join("attempt-2").exists(), "no attempt was lost");
    }
    // The node and the executor of each attempt are stored.
    let here = tunesmith_executor::host_name();
    for (id, executor) in ids.iter().zip(["local", "agent"]) {
        let (_, trials) = server.get(&format!("/v1/projects/p/locations/jobs/studies/{id}/trials"));
        let trial = &trials["trials"][0];
        let expected = json!([{"attempt": "1", "executor": executor, "nodes": [{"node": here}]}]);
        assert_eq!(trial["tunesmith"]["attempts"], expected, "{trial:#}");
    }
    // A deleted job leaves no record.
    assert_eq!(server.send("DELETE", &format!("{JOBS}/away"), "", "").0, 200);
    assert_eq!(count("routes"), 0);
}

#[test]
fn executor_that_cannot_be_used_is_named_when_the_server_starts() {
    let workspace = Workspace::new("");
    std::fs::write(workspace.path().join("server.yaml"), "regions: {cloud: {executor: kubernetes}}").unwrap();
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"]);
    let output = command.arg("--allow-unisolated-programs").stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("the executor kubernetes of the server configuration"), "{text}");
    assert!(text.contains("--kubernetes-agent-image is missing"), "{text}");
}

const NAMED: &str = "
executors:
  near: {kind: agent}
  far: {kind: agent, maxRunningTrials: 1}
executor: near
regions: {east: {}, west: {executor: far}}
";

#[test]
fn several_executors_of_one_kind_have_names_limits_and_trials_of_their_own() {
    let workspace = Workspace::new("");
    let listen = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let server = serve(&workspace, listen, NAMED);
    let ids = ["east", "west", "late"];
    for id in ids {
        for end in ["started", "go"] {
            make_pipe(&workspace.path().join(format!("{id}.{end}")));
        }
    }
    for id in ["east", "west"] {
        assert_eq!(server.post(JOBS, &job(&workspace, id, id)).0, 200);
        until_started(&server, &workspace, id);
    }
    // The limit of its executor is the reason for which a further trial waits.
    assert_eq!(server.post(JOBS, &job(&workspace, "late", "west")).0, 200);
    let reason = "the limit on running trials of the executor far is reached: 1 of 1 run";
    let waiting = found(|| {
        let (_, job) = server.get(&format!("{JOBS}/late"));
        assert_ne!(job["state"], "FAILED", "{job}");
        // Before, it waits for a moment for its job slot.
        (job["tunesmith"]["waiting"][0]["kind"] == "EXECUTOR_LIMIT").then_some(job)
    });
    let waiting = &waiting["tunesmith"]["waiting"][0];
    assert_eq!((&waiting["kind"], &waiting["reason"]), (&json!("EXECUTOR_LIMIT"), &json!(reason)));
    let (_, metrics) = server.text("GET", "/metrics");
    assert!(metrics.contains("tunesmith_trials_waiting{reason=\"executor_limit\"} 1"), "{metrics}");
    let address = format!("http://{listen}");
    let mut describe = workspace.command();
    describe.args(["jobs", "describe", "late", "--project", "p", "--server", &address, "--format", "table"]);
    let described = String::from_utf8(describe.output().unwrap().stdout).unwrap();
    assert!(described.contains(reason), "{described}");
    let (_, page) = server.text("GET", "/console/workers");
    assert!(page.contains(reason), "{page}");
    let (_, page) = server.text("GET", "/console/server");
    assert!(page.contains("1 of 1 run on far") && page.contains("near (agent)"), "{page}");
    // A server whose configuration lacks the name reports it, and the trial waits for it.
    server.kill();
    let server = serve(&workspace, listen, "executors: {near: {kind: agent}}\nexecutor: near\n");
    server
        .wait_for_error("it runs on the executor \"far\", and the executors of this server are local, near: add it to");
    assert_eq!(server.get(&format!("{JOBS}/west")).1["state"], "RUNNING");
    // So does one that was not submitted yet, and has no limit to wait for here.
    found(|| {
        let (_, job) = server.get(&format!("{JOBS}/late"));
        assert!(job["endTime"].is_null(), "{job}");
        let waiting = job["tunesmith"]["waiting"].to_string();
        waiting.contains("names the executor \\\"far\\\"").then_some(())
    });
    server.kill();
    // A changed default does not change where attempts are looked for.
    let server = serve(&workspace, listen, &NAMED.replace("executor: near", "executor: far"));
    for id in ids {
        if id == "late" {
            until_started(&server, &workspace, id);
        }
        release(&server, &workspace, id);
        let ended = server.until(&format!("{JOBS}/{id}"), "SUCCEEDED");
        assert_eq!(ended["trainingOutput"]["trials"][0]["finalMetric"]["objectiveValue"], 0.5, "{ended:#}");
        let (_, trials) = server.get(&format!("/v1/projects/p/locations/jobs/studies/{id}/trials"));
        let trial = &trials["trials"][0];
        let attempts = trial["tunesmith"]["attempts"].as_array().unwrap();
        let executor = if id == "east" { "near" } else { "far" };
        assert_eq!((attempts.len(), &attempts[0]["executor"]), (1, &json!(executor)), "{trial:#}");
        let (_, page) = server.text("GET", &format!("/console/projects/p/jobs/{id}/trials/1"));
        let here = tunesmith_executor::host_name();
        assert!(page.contains(&format!("<td>{executor}</td><td class=\"wrap\"><div>{here}</div>")), "{page}");
        let mut describe = workspace.command();
        describe.args([
            "trials",
            "describe",
            "1",
            "--job",
            id,
            "--project",
            "p",
            "--server",
            &address,
            "--format",
            "table",
        ]);
        let described = String::from_utf8(describe.output().unwrap().stdout).unwrap();
        assert!(described.contains(&format!("attempt 1 on {here}, executor {executor}")), "{described}");
    }
    server.kill();
    // A name keeps its kind.
    let text = NAMED.replace("near: {kind: agent}", "near: {kind: local}");
    std::fs::write(workspace.path().join("server.yaml"), text).unwrap();
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--server-config", "server.yaml"]);
    let output = command.arg("--allow-unisolated-programs").stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("the executor near was of the kind agent before"), "{text}");
}
