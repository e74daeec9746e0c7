//! The limits on running trials and queued jobs hold over all servers of a database.

use std::path::Path;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::{found, until};
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

const JOBS: &str = "/v1/projects/p/jobs";

/// A job of `trials` trials, all at once, the programs of which write `+` to `uses`, wait for the file `go`, and write `-`.
fn job(workspace: &Workspace, id: &str, trials: u32) -> Value {
    let folder = workspace.path().display();
    let script = format!(
        "echo + >> {folder}/uses; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo - >> {folder}/uses; \
         echo loss=0.5 step=1"
    );
    json!({"jobId": id, "trainingInput": {
        "masterConfig": {"containerCommand": ["sh", "-c", script]},
        "hyperparameters": {
            "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": trials, "maxParallelTrials": trials,
            "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
        },
        "tunesmith": {"metricFromStdout": true},
    }})
}

/// What the programs have written to `uses`.
fn uses(workspace: &Workspace) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join("uses")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn started(workspace: &Workspace) -> usize {
    uses(workspace).iter().filter(|line| *line == "+").count()
}

/// Servers on the database at `address` with the configuration `config` and one job slot each.
fn servers(workspace: &Workspace, address: &str, config: &str, count: usize) -> Vec<Server> {
    (0..count).map(|number| server(workspace, address, config, number)).collect()
}

/// The server of that number.
fn server(workspace: &Workspace, address: &str, config: &str, number: usize) -> Server {
    workspace.write("server.yaml", config);
    let config = workspace.path().join("server.yaml");
    let options = ["--job-slots", "1", "--server-config", config.to_str().unwrap()];
    Cluster::serve_in(&folder(workspace, number), address, &options)
}

fn folder(workspace: &Workspace, number: usize) -> std::path::PathBuf {
    Path::new(workspace.path()).join(format!("server{number}"))
}

/// Waits until trials of the job wait for a limit, and returns the reason.
fn limit(server: &Server, id: &str) -> String {
    found(|| {
        let (status, job) = server.get(&format!("{JOBS}/{id}"));
        assert_eq!(status, 200, "{job}");
        assert!(job["endTime"].is_null(), "{job}");
        let waiting = job["tunesmith"]["waiting"].as_array().cloned().unwrap_or_default();
        let waiting = waiting.iter().find(|waiting| waiting["kind"] == "LIMIT")?;
        Some(waiting["reason"].as_str().unwrap().to_owned())
    })
}

#[test]
fn limit_on_running_trials_holds_over_three_servers() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let servers = servers(&workspace, &address, "limits: {runningTrials: {cluster: 3, study: 2}}\n", 3);
    let ids = ["first", "second", "third"];
    for (server, id) in servers.iter().zip(ids) {
        let (status, answer) = server.post(JOBS, &job(&workspace, id, 3));
        assert_eq!(status, 200, "{answer}");
    }
    // Each server runs a job, and every job has a trial that waits.
    let mut reasons = Vec::new();
    for id in ids {
        let running =
            || cluster.query("tuning", &format!("SELECT owner FROM claims WHERE job = 'p/{id}' AND until > now()"));
        until(|| !running().is_empty());
        let owner = servers.iter().enumerate().find(|(number, _)| {
            let own = std::fs::read_to_string(folder(&workspace, *number).join("SERVER")).unwrap();
            own.trim() == running()
        });
        reasons.push(limit(owner.unwrap().1, id));
    }
    let of_all = "the limit on running trials of all servers is reached: 3 of 3 run";
    assert!(reasons.iter().any(|reason| reason == of_all), "{reasons:?}");
    until(|| started(&workspace) >= 3);
    assert_eq!(cluster.query("tuning", "SELECT count(*) FROM running_trials WHERE until > now()"), "3");
    workspace.write("go", "");
    for id in ids {
        servers[0].until(&format!("{JOBS}/{id}"), "SUCCEEDED");
    }
    let (mut running, mut most) = (0, 0);
    for line in uses(&workspace) {
        running += if line == "+" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!((started(&workspace), running, most), (9, 0, 3));
    until(|| cluster.query("tuning", "SELECT count(*) FROM running_trials WHERE until > now()") == "0");
}

#[test]
fn trials_of_a_dead_server_count_until_their_lease_ends() {
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let start = |number| server(&workspace, &address, "limits: {runningTrials: {cluster: 2}}\n", number);
    let dead = start(0);
    assert_eq!(dead.post(JOBS, &job(&workspace, "first", 2)).0, 200);
    until(|| started(&workspace) >= 2);
    // The other server is started now, so that it does not run the first job.
    let other = start(1);
    assert_eq!(other.post(JOBS, &job(&workspace, "second", 1)).0, 200);
    assert_eq!(limit(&other, "second"), "the limit on running trials of all servers is reached: 2 of 2 run");
    assert_eq!(started(&workspace), 2);
    dead.kill();
    until(|| started(&workspace) >= 3);
    workspace.write("go", "");
    for id in ["first", "second"] {
        other.until(&format!("{JOBS}/{id}"), "SUCCEEDED");
    }
}

#[test]
fn limit_on_queued_jobs_holds_for_jobs_that_are_created_through_three_servers_at_once() {
    const REQUESTS: usize = 9;
    let cluster = Cluster::start();
    let workspace = Workspace::new("");
    let address = cluster.create_database("tuning");
    let servers = servers(&workspace, &address, "limits: {queuedJobs: {project: 2}}\n", 3);
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(server.post(JOBS, &job(&workspace, &format!("runs{number}"), 1)).0, 200);
        until(|| started(&workspace) > number);
    }
    let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let requests = (0..REQUESTS).map(|number| {
            let (server, body) = (&servers[number % 3], job(&workspace, &format!("waits{number}"), 1));
            scope.spawn(move || server.post(JOBS, &body))
        });
        let requests: Vec<_> = requests.collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    let created = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(created, 2, "{answers:?}");
    for (status, answer) in answers.iter().filter(|(status, _)| *status != 200) {
        assert_eq!(*status, 429, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the limit on queued jobs of project p is reached: 2 of 2 wait"), "{message}");
    }
}
