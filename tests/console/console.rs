//! The console: pages, sessions and actions of a real server, by raw HTTP and in a real browser.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::console::{JOBS, browse, job, sign_in};
use tunesmith_testing::server::Server;

#[test]
fn every_page_opens_and_works_in_a_browser() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(JOBS, &job("first", 3)).0, 200);
    server.until(&format!("{JOBS}/first"), "SUCCEEDED");
    let plain =
        json!({"jobId": "plain", "trainingInput": {"masterConfig": {"containerCommand": ["echo", "some output"]}}});
    assert_eq!(server.post(JOBS, &plain).0, 200);
    server.until(&format!("{JOBS}/plain"), "SUCCEEDED");
    browse("pages.py", &server, &[]);
}

#[test]
fn visitor_acts_and_sees_changes_while_a_job_runs() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let command = json!(["tail", "-f", "/dev/null"]);
    let waits = json!({"jobId": "waits", "trainingInput": {"masterConfig": {"containerCommand": command}}});
    assert_eq!(server.post(JOBS, &waits).0, 200);
    let mut tuned = job("tuned", 3);
    let reports = "echo loss=0.5 step=1; exec tail -f /dev/null";
    tuned["trainingInput"]["masterConfig"]["containerCommand"] = json!(["bash", "-c", reports]);
    assert_eq!(server.post(JOBS, &tuned).0, 200);
    browse("actions.py", &server, &[]);
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    let of_trials = ["tunesmith.projects.jobs.trials.create", "tunesmith.projects.jobs.trials.stop"];
    for method in
        ["ml.projects.jobs.cancel", "ml.projects.jobs.patch", "tunesmith.projects.jobs.delete"].iter().chain(&of_trials)
    {
        assert!(audit.contains(method), "{method} is recorded: {audit}");
    }
}

#[test]
fn session_has_the_role_of_its_token_until_it_is_revoked() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let server = Server::start(&workspace, &[]);
    let (head, _) = server.parts("GET", "/console/jobs?filter=a", "", "");
    assert!(head.contains("location: /console/login?next=%2Fconsole%2Fjobs%3Ffilter%3Da"), "{head}");
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let (status, page) = server.exchange("POST", "/console/login", form, "token=wrong");
    assert_eq!(status, 401);
    assert!(page.contains("the token is unknown, was revoked, or has expired"), "{page}");

    let (cookie, csrf) = sign_in(&server, &admin);
    let json = format!("cookie: {cookie}\r\ncontent-type: application/json\r\n");
    let with_csrf = format!("{json}x-tunesmith-csrf: {csrf}\r\n");
    let body = job("owned", 1).to_string();
    let (status, refused) = server.send("POST", JOBS, &json, &body);
    assert_eq!(
        (status, &refused["error"]["status"]),
        (403, &json!("PERMISSION_DENIED")),
        "a cookie alone changes nothing"
    );
    assert_eq!(server.send("POST", JOBS, &format!("{json}x-tunesmith-csrf: {cookie}\r\n"), &body).0, 403);
    assert_eq!(server.send("POST", JOBS, &with_csrf, &body).0, 200);
    let page = format!("/console{}", &format!("{JOBS}/owned")[3..]);
    let (status, text) = server.exchange("GET", &page, &format!("cookie: {cookie}\r\n"), "");
    assert_eq!(status, 200);
    assert!(text.contains("data-method="), "an administrator sees actions");

    let (looks, token_of_viewer) = sign_in(&server, &viewer);
    let (status, text) = server.exchange("GET", &page, &format!("cookie: {looks}\r\n"), "");
    assert_eq!(status, 200);
    assert!(!text.contains("data-method=") && text.contains("user:view@x"), "a viewer sees no action: {text}");
    let by_hand =
        format!("cookie: {looks}\r\ncontent-type: application/json\r\nx-tunesmith-csrf: {token_of_viewer}\r\n");
    for method in [":cancel", "/trials/1:stop", "/trials"] {
        assert_eq!(server.send("POST", &format!("{JOBS}/owned{method}"), &by_hand, "{}").0, 403, "{method}");
    }
    for tab in ["/trials", "/trials/1"] {
        let (_, text) = server.exchange("GET", &format!("{page}{tab}"), &format!("cookie: {looks}\r\n"), "");
        assert!(!text.contains("data-method="), "{tab}: {text}");
    }
    for new in ["/console/new", "/console/new-study"] {
        assert_eq!(server.exchange("GET", new, &format!("cookie: {looks}\r\n"), "").0, 403, "{new}");
    }
    let (status, _) = server.exchange("GET", "/console/projects/q/jobs/none", &format!("cookie: {looks}\r\n"), "");
    assert_eq!(status, 403);

    // The session of another visitor is not ended without its secret.
    server.exchange("POST", "/console/logout", &format!("cookie: {cookie}\r\n{form}"), "csrf=wrong");
    assert_eq!(server.send("GET", JOBS, &format!("cookie: {cookie}\r\n"), "").0, 200);
    server.exchange("POST", "/console/logout", &format!("cookie: {cookie}\r\n{form}"), &format!("csrf={csrf}"));
    assert_eq!(server.send("GET", JOBS, &format!("cookie: {cookie}\r\n"), "").0, 401);

    let id = viewer.split('_').nth(1).unwrap();
    let revoked = workspace.command().args(["tokens", "revoke", id, "--data-dir", "data"]).output().unwrap();
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    assert_eq!(server.send("GET", JOBS, &format!("cookie: {looks}\r\n"), "").0, 401);
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    assert!(audit.lines().any(|line| line.contains("console.login") && line.contains("user:view@x")), "{audit}");
}

#[test]
fn pages_may_load_nothing_from_elsewhere_and_be_shown_in_no_frame() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let (head, page) = server.parts("GET", "/console", "", "");
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or_default();
    let policy = header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("referrer-policy"), "same-origin");
    let script = page.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let (head, _) = server.parts("GET", script, "", "");
    assert!(head.contains("cache-control: public, max-age=31536000, immutable"), "{head}");
    assert_eq!(server.text("GET", "/console/assets/0/app.js").0, 404);
    assert_eq!(server.text("GET", "/console/nothing").0, 404);
    assert_eq!(server.exchange("GET", "/console", "sec-fetch-site: cross-site\r\n", "").0, 403);
}

#[test]
fn job_is_submitted_by_form_and_text_which_follow_each_other_and_by_keyboard() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    browse("new_job.py", &server, &[]);
    browse("completion.py", &server, &[]);
    browse("keyboard.py", &server, &[]);
}

#[test]
fn dialogs_errors_and_printed_pages_are_usable() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let files = workspace.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let server = Server::start(&workspace, &["--allowed-folder", &files.display().to_string()]);
    let create = |path: &str, body: &Value| {
        let (status, answer) = server.send("POST", path, &bearer(&admin), &body.to_string());
        assert_eq!(status, 200, "{answer}");
    };
    let mut first = job("first", 3);
    first["trainingInput"]["jobDir"] = json!(files.join("output"));
    create(JOBS, &first);
    let study =
        json!({"studyConfig": {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": [real("rate")]}});
    create(&format!("{STUDIES}?studyId=s"), &study);
    create(&format!("{STUDIES}/s/trials"), &json!({"parameters": [{"parameter": "rate", "floatValue": 0.5}]}));
    browse("dialogs.py", &server, &[&admin, &viewer]);
}

const STUDIES: &str = "/v1/projects/p/locations/l/studies";

fn real(name: &str) -> Value {
    json!({"parameter": name, "type": "DOUBLE", "doubleValueSpec": {"minValue": 0, "maxValue": 1}})
}

/// Creates a study that minimizes `loss`, with these parameters and completed trials: values, then the loss.
fn create_study(server: &Server, id: &str, parameters: &[Value], trials: &[(Vec<Value>, f64)]) {
    let config = json!({"studyConfig": {
        "metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters, "algorithm": "RANDOM_SEARCH",
    }});
    assert_eq!(server.post(&format!("{STUDIES}?studyId={id}"), &config).0, 200);
    for (parameters, loss) in trials {
        let result = json!({"metrics": [{"metric": "loss", "value": loss}]});
        let trial = json!({"parameters": parameters, "finalMeasurement": result});
        let (status, made) = server.post(&format!("{STUDIES}/{id}/trials"), &trial);
        assert_eq!(status, 200, "{made}");
    }
}

#[test]
fn table_keys_commands_cards_and_curves_work_in_a_browser() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.post(JOBS, &job("first", 1)).0, 200);
    server.until(&format!("{JOBS}/first"), "SUCCEEDED");
    let mut long = job("long", 1);
    let steps = "for step in $(seq 1 40); do echo \"loss=0.$((100 - step)) step=$step\"; done";
    long["trainingInput"]["masterConfig"]["containerCommand"] = json!(["bash", "-c", steps]);
    assert_eq!(server.post(JOBS, &long).0, 200);
    server.until(&format!("{JOBS}/long"), "SUCCEEDED");

    let kind = json!({"parameter": "kind", "type": "CATEGORICAL", "categoricalValueSpec": {"values": ["a", "b", "c"]}});
    let trials = (0..12).map(|index| {
        let rate = json!({"parameter": "rate", "floatValue": f64::from(index) / 16.0});
        let level = ["c", "a", "b"][index as usize % 3];
        let kind = json!({"parameter": "kind", "stringValue": level});
        // Neither increasing nor decreasing.
        (vec![rate, kind], f64::from(index * 5 % 12) / 8.0 + 0.125)
    });
    create_study(&server, "table", &[real("rate"), kind], &trials.collect::<Vec<_>>());
    let (_, failing) = server.post(
        &format!("{STUDIES}/table/trials"),
        &json!({"parameters": [{"parameter": "rate", "floatValue": 1}, {"parameter": "kind", "stringValue": "a"}]}),
    );
    let (status, asked) =
        server.post(&format!("{STUDIES}/table/trials:suggest"), &json!({"clientId": "c", "suggestionCount": 1}));
    assert_eq!(status, 200, "{asked}");
    let ended = json!({"trialInfeasible": true, "infeasibleReason": "diverged"});
    let (status, ended) = server.post(&format!("/v1/{}:complete", failing["name"].as_str().unwrap()), &ended);
    assert_eq!(status, 200, "{ended}");

    // A bowl around (0.3, 0.7) on a grid.
    let bowl = (0..81).map(|index| {
        let (u, v) = (f64::from(index % 9) / 8.0, f64::from(index / 9) / 8.0);
        let value = |name: &str, value: f64| json!({"parameter": name, "floatValue": value});
        (vec![value("u", u), value("v", v)], (u - 0.3).powi(2) + (v - 0.7).powi(2))
    });
    create_study(&server, "surface", &[real("u"), real("v")], &bowl.collect::<Vec<_>>());
    let far = (0..12).map(|index| {
        let rate = f64::from(index) / 11.0;
        let value = json!({"parameter": "u", "floatValue": rate});
        (vec![value], if index == 7 { 1e6 } else { rate })
    });
    create_study(&server, "far", &[real("u")], &far.collect::<Vec<_>>());
    browse("trials.py", &server, &[]);
    browse("notes.py", &server, &[]);
}

/// A job that minimizes x, and one whose program fails.
fn simple_job(id: &str, script: &str) -> Value {
    json!({
        "jobId": id,
        "trainingInput": {
            "hyperparameters": {
                "goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 3, "maxFailedTrials": 2,
                "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
            },
            "masterConfig": {"containerCommand": ["bash", "-c", script, "trainer"]},
            "tunesmith": {"metricFromStdout": true, "seed": 7},
        },
    })
}

#[test]
fn five_tasks_take_at_most_five_steps() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let server = Server::start(&workspace, &[]);
    let headers = tunesmith_testing::access::bearer(&admin);
    let trains = "for word; do case $word in --x=*) echo loss=${word#--x=};; esac; done";
    let fails = "echo \"FileNotFoundError: No such file or directory: '/data/train.csv'\" >&2; exit 1";
    for (id, script, state) in
        [("first", trains, "SUCCEEDED"), ("second", trains, "SUCCEEDED"), ("broken", fails, "FAILED")]
    {
        assert_eq!(server.send("POST", JOBS, &headers, &simple_job(id, script).to_string()).0, 200);
        tunesmith_testing::paced::until(|| {
            server.send("GET", &format!("{JOBS}/{id}"), &headers, "").1["state"] == state
        });
    }
    browse("five_tasks.py", &server, &[&admin]);
}
