//! What a server opens for its callers: job folders, packages and buckets that the operator has allowed, and nothing else.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::geteuid;
use serde_json::{Value, json};
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program, write_probe_wheel};

const JOBS: &str = "/v1/projects/p/jobs";

/// A workspace whose data folder has a developer and a viewer of the project `p`.
pub(crate) struct Team {
    pub(crate) workspace: Workspace,
    developer: String,
    viewer: String,
}

impl Team {
    pub(crate) fn new() -> Self {
        let workspace = Workspace::new("");
        let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@p"]);
        let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
        Self { workspace, developer, viewer }
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.workspace.path().join(name).display().to_string()
    }

    pub(crate) fn create(&self, server: &Server, id: &str, input: &Value) -> (u16, Value) {
        let body = json!({"jobId": id, "trainingInput": input}).to_string();
        server.send("POST", JOBS, &bearer(&self.developer), &body)
    }

    pub(crate) fn view(&self, server: &Server, path: &str) -> (u16, Value) {
        server.send("GET", &format!("{JOBS}/{path}"), &bearer(&self.viewer), "")
    }

    pub(crate) fn end(&self, server: &Server, id: &str) -> Value {
        found(|| Some(self.view(server, id).1).filter(|job| job["endTime"].is_string()))
    }
}

/// A job that runs `true` with `job_dir`.
pub(crate) fn with_job_dir(job_dir: &str) -> Value {
    json!({"masterConfig": {"containerCommand": ["true"]}, "jobDir": job_dir})
}

/// The only violation of `answer`: field and description.
#[track_caller]
pub(crate) fn violation(answer: &(u16, Value)) -> (&str, &str) {
    assert_eq!(answer.0, 400, "{}", answer.1);
    let violations = answer.1["error"]["details"][0]["fieldViolations"].as_array().unwrap();
    assert_eq!(violations.len(), 1, "{}", answer.1);
    (violations[0]["field"].as_str().unwrap(), violations[0]["description"].as_str().unwrap())
}

#[test]
fn job_folders_are_those_that_the_operator_lists_and_the_area_of_the_project() {
    let team = Team::new();
    for name in ["out", "out/vision", "other"] {
        fs::create_dir(team.at(name)).unwrap();
    }
    symlink(team.workspace.path(), team.at("out/up")).unwrap();
    symlink("out", team.at("alias")).unwrap();
    let listed = [format!("p={}", team.at("alias")), format!("q={}", team.at("other"))];
    let server = Server::start(&team.workspace, &["--allowed-folder", &listed[0], "--allowed-folder", &listed[1]]);
    let data = fs::canonicalize(team.at("data")).unwrap();
    let area = data.join("job-dirs/p").display().to_string();
    for outside in [
        "/".to_owned(),
        "/etc".into(),
        "/proc/self/cwd".into(),
        team.at(""),
        team.at("data"),
        team.at("data/projects"),
        team.at("data/job-dirs/q/x"),
        team.at("other"),
        team.at("out2"),
        team.at("alias/../data"),
        format!("{area}/../q/x"),
        "../../q/x".into(),
        "file:///etc".into(),
        format!("file://{}", team.at("data")),
        "file://x".into(),
    ] {
        let answer = team.create(&server, "outside", &with_job_dir(&outside));
        let (field, text) = violation(&answer);
        assert_eq!(field, "trainingInput.jobDir");
        for part in ["is not allowed on this server", &area, &team.at("alias"), "--allowed-folder", "allowedFolders"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let allowed = text.split_once("allowed are ").unwrap().1;
        assert!(!allowed.contains(&team.at("other")), "folders of other projects are not shown: {text}");
    }
    for made in ["out2", "data/job-dirs/q"] {
        assert!(!team.workspace.path().join(made).exists(), "{made}");
    }

    // A link in the folder leads nowhere.
    let answer = team.create(&server, "link", &with_job_dir(&team.at("out/up/data")));
    let (field, text) = violation(&answer);
    assert!(field == "trainingInput.jobDir" && text.contains("cannot be created: not a regular file"), "{text}");

    let script = r#"for word; do case $word in --job-dir=*) dir=${word#--job-dir=};; esac; done
        echo weights > "$dir/model"; ln -s /etc/passwd "$dir/link"; echo "$dir""#;
    for (id, job_dir, folder) in [
        ("relative", "runs/1".to_owned(), format!("{area}/runs/1")),
        ("listed", team.at("alias/1"), fs::canonicalize(team.at("out")).unwrap().join("1").display().to_string()),
        (
            "below",
            team.at("out/vision/x/"),
            fs::canonicalize(team.at("out/vision")).unwrap().join("x").display().to_string(),
        ),
    ] {
        let mut input = with_job_dir(&job_dir);
        input["masterConfig"]["containerCommand"] = json!(["sh", "-c", script, "program"]);
        let (status, answer) = team.create(&server, id, &input);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(team.end(&server, id)["state"], "SUCCEEDED");
        let (status, list) = team.view(&server, &format!("{id}/artifacts"));
        assert_eq!((status, &list["folder"], &list["artifacts"][0]["file"]), (200, &json!(folder), &json!("model")));
        assert_eq!(list["artifacts"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(team.view(&server, &format!("{id}/artifacts:download?file=link")).0, 404);
    }
    for folder in ["data/job-dirs", "data/job-dirs/p"] {
        assert_eq!(fs::metadata(team.at(folder)).unwrap().mode() & 0o777, 0o700, "{folder}");
    }

    // The folder of a job is replaced by a link after its end.
    fs::remove_dir_all(team.at("out/1")).unwrap();
    symlink(data, team.at("out/1")).unwrap();
    let (status, list) = team.view(&server, "listed/artifacts");
    assert_eq!((status, list["artifacts"].as_array().map(Vec::len)), (200, None), "{list}");
    assert_eq!(team.view(&server, "listed/artifacts:download?file=tokens.json").0, 404);
}

#[test]
fn jobs_from_before_the_first_token_open_nothing_afterwards() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let folder = workspace.path().display().to_string();
    let (status, answer) = server.post(JOBS, &json!({"jobId": "early", "trainingInput": with_job_dir(&folder)}));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.until_ended(&format!("{JOBS}/early"))["state"], "SUCCEEDED");
    let listed = server.get(&format!("{JOBS}/early/artifacts")).1.to_string();
    assert!(listed.contains("data/store.sqlite"), "without tokens, the only caller owns the process: {listed}");

    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let view = |path: &str| server.send("GET", &format!("{JOBS}/early/{path}"), &bearer(&viewer), "");
    for path in ["artifacts", "artifacts:download?file=data/tokens.json", "artifacts:download?file=data/store.sqlite"] {
        let (status, answer) = view(path);
        assert_eq!((status, &answer["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{answer}");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("the artifacts of job p/early cannot be read: the job folder "), "{text}");
    }
    let page = server.exchange("GET", "/console/projects/p/jobs/early/output", &bearer(&viewer), "");
    assert!(page.0 == 200 && page.1.contains("cannot be read") && !page.1.contains("tokens.json"), "{}", page.1);
    let body = json!({"jobId": "late", "trainingInput": with_job_dir(&folder)}).to_string();
    assert_eq!(server.send("POST", JOBS, &bearer(&admin), &body).0, 400, "without a restart of the server");
    drop(server);

    // A job that the owner of the data folder has queued is refused when it is run.
    let config = "masterConfig: {containerCommand: ['true']}\n";
    workspace.write("job.yaml", config);
    let mut submit = workspace.command();
    submit.args([
        "jobs",
        "submit",
        "training",
        "queued",
        "--config",
        "job.yaml",
        "--job-dir",
        &folder,
        "--data-dir",
        "data",
    ]);
    finished(submit.args(["--project", "p"]).output().unwrap()).expect(0);
    let server = Server::start(&workspace, &[]);
    let job = found(|| {
        let job = server.send("GET", &format!("{JOBS}/queued"), &bearer(&viewer), "").1;
        job["endTime"].is_string().then_some(job)
    });
    assert_eq!(job["state"], "FAILED", "{job}");
    assert!(job["errorMessage"].as_str().unwrap().contains("is not allowed on this server"), "{job}");
}

#[test]
fn folders_that_give_access_to_the_server_are_refused_at_its_start() {
    let team = Team::new();
    symlink("data", team.at("link")).unwrap();
    let serve = |args: &[&str]| {
        let mut command = team.workspace.command();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"])
            .args(args);
        finished(command.output().unwrap()).expect(2).stderr
    };
    for folder in [
        "/".to_owned(),
        team.at(""),
        team.at("data"),
        team.at("link"),
        team.at("data/jobs"),
        format!("p={}", team.at("data")),
    ] {
        let text = serve(&["--allowed-folder", &folder]);
        assert!(text.contains("jobs could read and change the store, the tokens and the audit log"), "{text}");
    }
    let text = serve(&["--allowed-folder", "models"]);
    assert!(text.contains("\"models\" is not an allowed folder: expected [PROJECT=]/FOLDER"), "{text}");
    let text = serve(&["--allowed-folder", "s3://b b"]);
    assert!(text.contains("the bucket \"b b\" has no valid name"), "{text}");
    team.workspace.write("server.yaml", "allowedFolders: [gs://models, relative]\n");
    let text = serve(&["--server-config", "server.yaml"]);
    assert!(text.contains("allowedFolders[1]: \"relative\" is not an allowed folder"), "{text}");
    team.workspace.write("server.yaml", &format!("allowedFolders: ['{}']\n", team.at("")));
    let text = serve(&["--server-config", "server.yaml"]);
    assert!(text.contains("jobs could read and change the store"), "{text}");
}

/// A server of HTTP that counts requests and answers them: with `{}`, and deletions of objects with an empty result.
struct Counter {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Counter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut reader = BufReader::new(stream);
                let mut first = String::new();
                let _ = reader.read_line(&mut first);
                let mut line = first.clone();
                while line.len() > 2 {
                    line.clear();
                    let _ = reader.read_line(&mut line);
                }
                let body = if first.starts_with("POST ") {
                    "<DeleteResult><Deleted><Key>k</Key></Deleted></DeleteResult>"
                } else {
                    "{}"
                };
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = reader.get_mut().write_all((head + body).as_bytes());
            }
        });
        Self { url, requests }
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

#[test]
fn server_whose_programs_run_elsewhere_uses_no_folder_of_its_machine() {
    let team = Team::new();
    let ray = Counter::start();
    let shared = team.at("shared");
    let mut command = team.workspace.command();
    // Two principals have tokens, and no program runs as the user of the server.
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
        "--executor",
        "ray",
        "--ray-address",
        &ray.url,
    ]);
    let server = Server::start_command(command.args(["--allowed-folder", &shared]));
    for outside in [
        team.at("data"),
        team.at(""),
        "/etc".to_owned(),
        "out".into(),
        team.at("data/job-dirs/p/x"),
        "/shared/../etc".into(),
    ] {
        let answer = team.create(&server, "outside", &with_job_dir(&outside));
        let (field, text) = violation(&answer);
        assert_eq!(field, "trainingInput.jobDir");
        assert!(text.contains(&format!("allowed are {shared}, and what is below")), "{text}");
    }
    // The folder is one of the nodes, as are the command and the files that it names.
    let mut input = with_job_dir(&format!("{shared}/a"));
    input["masterConfig"]["containerCommand"] = json!(["./only-on-the-nodes"]);
    let (status, answer) = team.create(&server, "a", &input);
    assert_eq!(status, 200, "{answer}");
    fs::create_dir_all(format!("{shared}/a")).unwrap();
    fs::write(format!("{shared}/a/secret"), "of the server's machine").unwrap();
    for path in ["a/artifacts", "a/artifacts:download?file=secret"] {
        let (status, answer) = team.view(&server, path);
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["error"]["message"], format!("the artifacts of job p/a are in {shared}/a: read them there"));
    }
    fs::remove_dir_all(&shared).unwrap();
    assert_eq!(team.create(&server, "b", &with_job_dir(&format!("{shared}/b"))).0, 200);
    assert!(!fs::exists(&shared).unwrap(), "no folder is created for a job that runs elsewhere");
    for uri in [team.at("secret-1.0.tar.gz"), team.at("absent-1.0.tar.gz"), "/etc/shadow-1.whl".into()] {
        let input = json!({"packageUris": [uri], "pythonModule": "m"});
        let answer = team.create(&server, "package", &input);
        let (field, text) = violation(&answer);
        assert!(field == "trainingInput.packageUris" && text.contains("is not allowed on this server"), "{text}");
    }
}

#[test]
fn credentials_of_the_server_are_used_for_listed_buckets_with_valid_names_only() {
    let team = Team::new();
    let store = Counter::start();
    let variables = [
        ("AWS_ENDPOINT_URL", store.url.as_str()),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("STORAGE_EMULATOR_HOST", &store.url),
    ];
    let serve = |more: &[&str]| {
        let mut command = team.workspace.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--allow-unisolated-programs"]);
        Server::start_command(command.args(more).envs(variables))
    };
    let invalid = [
        "s3://b#f/x",
        "s3://../x",
        "s3://b b/x",
        "s3://b?list-type=2/x",
        "s3://models\r\nx: y/x",
        "gs://b b/x",
        "gs://UP/x",
    ];
    let server = serve(&["--allowed-folder", "s3://models/team", "--allowed-folder", "q=gs://models"]);
    for (address, expected) in invalid.map(|address| (address, "has no valid name")).into_iter().chain([
        ("s3://other/x", "allowed are"),
        ("s3://models/x", "s3://models/team, and what is below"),
        ("s3://models/team2", "is not allowed on this server"),
        ("s3://models/team/../x", "is not an address"),
        ("gs://models/x", "is not allowed on this server"),
    ]) {
        let answer = team.create(&server, "bucket", &with_job_dir(address));
        let (field, text) = violation(&answer);
        assert!(field == "trainingInput.jobDir" && text.contains(expected), "{address:?}: {text}");
    }
    for uri in [
        "s3://other/a-1.0.tar.gz",
        "gs://models/a-1.0.tar.gz",
        "s3://models/teams/a-1.0.tar.gz",
        "s3://models/team/%2e%2e/a-1.whl",
    ] {
        let answer = team.create(&server, "package", &json!({"packageUris": [uri], "pythonModule": "m"}));
        assert_eq!(violation(&answer).0, "trainingInput.packageUris", "{uri}");
    }
    assert_eq!(store.count(), 0, "nothing was sent with the credentials of the server");
    let (status, answer) = team.create(&server, "listed", &with_job_dir("s3://models/team/x"));
    assert_eq!(status, 200, "{answer}");
    assert!(store.count() > 0, "the listed folder is probed");
    drop(server);

    // Without tokens every bucket is allowed, and its name is checked as well.
    let workspace = Workspace::new("masterConfig: {containerCommand: ['true']}\n");
    let before = store.count();
    for address in invalid {
        let mut run = workspace.run_command(["--job-dir", address]);
        let refused = finished(run.envs(variables).output().unwrap()).expect(2);
        assert!(refused.stderr.contains("has no valid name"), "{}", refused.stderr);
    }
    assert_eq!(store.count(), before);
}

#[test]
fn programs_of_another_user_get_no_package_that_this_user_may_not_read() {
    if !geteuid().is_root() {
        return;
    }
    for with_tokens in [false, true] {
        let team = Team { workspace: Workspace::new(""), developer: String::new(), viewer: String::new() };
        let path = team.workspace.path();
        fs::set_permissions(path, PermissionsExt::from_mode(0o711)).unwrap();
        for name in ["secret", "public"] {
            fs::create_dir(team.at(name)).unwrap();
            write_probe_wheel(&path.join(name).join("probe-1.0-py3-none-any.whl"));
        }
        fs::set_permissions(path.join("secret"), PermissionsExt::from_mode(0o700)).unwrap();
        fs::set_permissions(path.join("public"), PermissionsExt::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join("public/probe-1.0-py3-none-any.whl"), PermissionsExt::from_mode(0o644)).unwrap();
        let admin = match with_tokens {
            true => token(&team.workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]),
            false => "none".to_owned(),
        };
        let (secret, public) = (team.at("secret"), team.at("public"));
        let allowed = ["--allowed-folder", &public, "--allowed-folder", &secret];
        let server = Server::start(&team.workspace, &[&["--run-as", "daemon"], &allowed[..]].concat());
        let headers = if with_tokens { bearer(&admin) } else { "content-type: application/json\r\n".to_owned() };
        let run = |id: &str, folder: &str, name: &str| {
            let input = json!({"packageUris": [format!("{folder}/{name}")], "pythonModule": "probe"});
            let body = json!({"jobId": id, "trainingInput": input}).to_string();
            let (status, answer) = server.send("POST", JOBS, &headers, &body);
            assert_eq!(status, 200, "{answer}");
            found(|| {
                let job = server.send("GET", &format!("{JOBS}/{id}"), &headers, "").1;
                job["endTime"].is_string().then(|| job["errorMessage"].as_str().unwrap_or_default().to_owned())
            })
        };
        // Whether a file exists is not reported: the user may not look.
        for (id, name) in [("there", "probe-1.0-py3-none-any.whl"), ("absent", "absent-1.0-py3-none-any.whl")] {
            let reason = run(id, &secret, name);
            assert!(reason.contains("could not be fetched") && reason.contains("Permission denied"), "{id}: {reason}");
        }
        let copied = program("find").arg(team.at("data/environments")).args(["-name", "*.whl"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&copied.stdout), "", "nothing was copied for the user");
        let reason = run("public", &public, "probe-1.0-py3-none-any.whl");
        assert!(!reason.contains("could not be fetched"), "{reason}");
    }
}

#[test]
fn programs_of_another_user_write_to_the_area_of_their_project() {
    if !geteuid().is_root() {
        return;
    }
    let team = Team::new();
    fs::set_permissions(team.workspace.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let server = Server::start(&team.workspace, &["--run-as", "daemon", "--run-as", "q=bin"]);
    let script = "for word; do case $word in --job-dir=*) cd \"${word#--job-dir=}\" && id -un > own;; esac; done";
    let mut input = with_job_dir("runs");
    input["masterConfig"]["containerCommand"] = json!(["sh", "-c", script, "program"]);
    assert_eq!(team.create(&server, "a", &input).0, 200);
    let job = team.end(&server, "a");
    assert_eq!(job["state"], "SUCCEEDED", "{job}");
    fs::write(team.at("data/job-dirs/p/runs/of-root"), "x").unwrap();
    let (_, listed) = team.view(&server, "a/artifacts");
    let names: Vec<&Value> = listed["artifacts"].as_array().unwrap().iter().map(|file| &file["file"]).collect();
    assert_eq!(names, ["own"], "{listed}");
    assert_eq!(team.view(&server, "a/artifacts:download?file=of-root").0, 404);
    let area = fs::metadata(team.at("data/job-dirs/p")).unwrap();
    assert_eq!((area.uid(), area.mode() & 0o777), (1, 0o700));
}

#[test]
fn impossible_names_are_not_found_and_addresses_after_a_login_are_plain() {
    let team = Team::new();
    let server = Server::start(&team.workspace, &[]);
    assert_eq!(team.create(&server, "a", &with_job_dir("out")).0, 200);
    team.end(&server, "a");
    for name in ["%00", "a%00b", &"n".repeat(5000), &"d/".repeat(2500), "..%00", &"%C3%A9".repeat(200)] {
        let (status, answer) = team.view(&server, &format!("a/artifacts:download?file={name}"));
        assert_eq!(status, 404, "{name}: {answer}");
    }
    for next in ["%2Fconsole%3F%0b", "%2Fconsole%3F%C3%A9", "%2Fconsole%2Fjobs%3Fa%0d%0ax:y", "%2Fconsole%2F%00"] {
        let body = format!("token={}&next={next}", team.developer);
        let headers = "content-type: application/x-www-form-urlencoded\r\n";
        let (head, _) = server.parts("POST", "/console/login", headers, &body);
        assert!(head.starts_with("HTTP/1.1 303"), "{next}: {head}");
        assert!(head.to_lowercase().contains("\r\nlocation: /console\r\n"), "{next}: {head}");
    }
}
