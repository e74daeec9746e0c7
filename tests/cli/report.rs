//! `tunesmith report`: a job as one page, in a real browser without any server.

use std::path::Path;

use tunesmith_testing::access::token;
use tunesmith_testing::python::interpreter;
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

/// Text that ends a script, an attribute or a comment where it is not escaped.
const PAYLOAD: &str = r#"</script><!--<script>injected()</script><img src=x onerror=injected()>"'"#;

/// 30 trials over three parameters, of which one is named so that its name is an attack, and one has attacks as levels.
fn config() -> String {
    let name = serde_json::to_string(PAYLOAD).unwrap();
    format!(
        r"
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 30
    maxParallelTrials: 2
    maxFailedTrials: 30
    algorithm: RANDOM_SEARCH
    params:
    - {{parameterName: x, type: DOUBLE, minValue: 0.01, maxValue: 1, scaleType: UNIT_LOG_SCALE}}
    - {{parameterName: {name}, type: CATEGORICAL, categoricalValues: [{name}, plain]}}
    - {{parameterName: depth, type: INTEGER, minValue: 1, maxValue: 9}}
  tunesmith: {{metricFromStdout: true, seed: 7}}
"
    )
}

/// Reports a curve whose end is x, and fails if x is above 0.5.
const TRAINER: &str = "for word; do case $word in --x=*) x=${word#--x=};; esac; done
for step in 1 2 3; do echo step=$step loss=$x; done
case $x in 0.[5-9]*) echo '</script><script>injected()</script>' >&2; exit 3;; esac";

/// A workspace whose data folder has the job `first`.
fn workspace() -> Workspace {
    let workspace = Workspace::new(&config());
    workspace.run(["--data-dir", "data", "--job-id", "first", "--", "sh", "-c", TRAINER, "trainer"]).expect(0);
    workspace
}

fn report(workspace: &Workspace, more: &[&str]) -> Finished {
    finished(workspace.command().arg("report").args(more).output().unwrap())
}

#[test]
fn page_shows_all_plots_without_a_server() {
    let workspace = workspace();
    let done = report(&workspace, &["fir", "--data-dir", "data", "--out", "page.html"]).expect(0);
    assert_eq!(done.stdout, "report of job first: page.html\n");
    let python = interpreter(&["playwright==1.65.2", "axe-playwright-python==0.1.8"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/console/report.py");
    let page = format!("file://{}", workspace.path().join("page.html").display());
    let done = finished(tunesmith_testing::program(python).arg(script).arg(page).output().unwrap());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}

#[test]
fn report_of_a_server_replaces_a_file_and_needs_a_role() {
    let workspace = workspace();
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@local"]);
    let foreign = token(&workspace, &["--principal", "user:other@x", "--role", "ml.viewer@other"]);
    let server = Server::start(&workspace, &[]);
    let address = format!("http://{}", server.address);
    let of_server = |token: &str, out: &str| {
        let mut command = workspace.command();
        command.args(["report", "first", "--server", &address, "--out", out]).env("TUNESMITH_ACCESS_TOKEN", token);
        finished(command.output().unwrap())
    };
    workspace.write("page.html", "old");
    of_server(&viewer, "page.html").expect(0);
    let page = workspace.read("page.html");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{}", &page[..200]);
    assert!(!workspace.path().join("page.html.partial").exists());
    let done = of_server(&foreign, "other.html").expect(1);
    assert!(done.stderr.contains("permission ml.jobs.get is denied"), "{}", done.stderr);
    assert!(!workspace.path().join("other.html").exists());

    // By hand: without the role and without a token.
    let path = "/console/projects/local/jobs/first/report";
    assert_eq!(server.exchange("GET", path, &format!("authorization: Bearer {foreign}\r\n"), "").0, 403);
    assert_eq!(server.exchange("GET", path, "", "").0, 303);
    let (head, _) = server.parts("GET", path, &format!("authorization: Bearer {viewer}\r\n"), "");
    assert!(head.contains("content-disposition: attachment; filename=\"first.html\""), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'; sandbox"), "{head}");
}

#[test]
fn report_that_cannot_be_written_names_the_place() {
    let workspace = Workspace::new("");
    let done = report(&workspace, &["first", "--out", "absent/page.html"]).expect(2);
    assert!(done.stderr.contains("--out absent/page.html: the file cannot be written"), "{}", done.stderr);
    let done = report(&workspace, &["first", "--data-dir", "none", "--out", "page.html"]).expect(2);
    assert!(done.stderr.contains("none"), "{}", done.stderr);

    let server = Server::start(&workspace, &[]);
    let plain = serde_json::json!({
        "jobId": "plain", "trainingInput": {"masterConfig": {"containerCommand": ["true"]}},
    });
    assert_eq!(server.post("/v1/projects/local/jobs", &plain).0, 200);
    let address = format!("http://{}", server.address);
    let done = report(&workspace, &["plain", "--server", &address, "--out", "page.html"]).expect(2);
    assert!(done.stderr.contains("error: job plain has no trials: it runs its program once"), "{}", done.stderr);
    let done = report(&workspace, &["plian", "--server", &address, "--out", "page.html"]).expect(2);
    assert!(done.stderr.contains("did you mean \"plain\"?"), "{}", done.stderr);
    assert!(!workspace.path().join("page.html").exists());
}

#[test]
fn study_is_reported_by_name_on_a_folder_and_on_a_server() {
    let workspace = Workspace::new("");
    workspace.write(
        "study.yaml",
        "metrics: [{metric: loss, goal: MINIMIZE}]\n\
         parameters:\n- {parameter: lr, type: DOUBLE, doubleValueSpec: {minValue: 0, maxValue: 1}}\n",
    );
    let command = |args: &[&str]| finished(workspace.command().args(args).output().unwrap()).expect(0).stdout;
    command(&["studies", "create", "sweep", "--config", "study.yaml", "--region", "here", "--data-dir", "data"]);
    let of = ["--study", "sweep", "--region", "here", "--data-dir", "data"];
    for value in ["0.25", "0.5"] {
        let point = [format!("lr={value}"), format!("loss={value}")];
        command(&[&["trials", "create"][..], &of, &["--parameter", &point[0], "--metric", &point[1]]].concat());
    }
    assert_eq!(command(&[&["report"][..], &of].concat()), "report of study sweep: sweep.html\n");
    for (subcommand, region, expected) in [
        ("report", "local", "job sweep does not exist; for the study of this name: --study sweep --region here"),
        ("explain", "here", "job sweep does not exist; for the study of this name: --study sweep"),
    ] {
        let args = [subcommand, "sweep", "--region", region, "--data-dir", "data"];
        let error = finished(workspace.command().args(args).output().unwrap()).expect(2).stderr;
        assert_eq!(error, format!("error: {expected}\n"));
    }
    assert!(workspace.read("sweep.html").contains("0.25"));
    let server = Server::start(&workspace, &[]);
    let url = format!("http://{}", server.address);
    let of = ["--study", "sweep", "--region", "here", "--server", &url];
    assert_eq!(command(&[&["report"][..], &of, &["--out", "s.html"]].concat()), "report of study sweep: s.html\n");
    // Studies of all locations are listed, with their location; of one if it is given.
    let list = |more: &[&str]| command(&[&["studies", "list", "--server", &url][..], more].concat());
    assert!(list(&[]).lines().nth(1).unwrap().starts_with("sweep     here      ACTIVE"), "{}", list(&[]));
    assert_eq!(list(&["--format", "value(name.basename())", "--region", "here"]), "sweep\n");
    assert_eq!(list(&["--format", "value(name.basename())", "--region", "local"]), "");
}

#[test]
fn trials_are_listed_with_their_running_values_and_sorted() {
    let workspace = Workspace::new("");
    workspace.write(
        "study.yaml",
        "metrics: [{metric: loss, goal: MINIMIZE}]\n\
         parameters:\n- {parameter: lr, type: DOUBLE, doubleValueSpec: {minValue: 0, maxValue: 1}}\n",
    );
    let command = |args: &[&str]| finished(workspace.command().args(args).output().unwrap()).expect(0).stdout;
    command(&["studies", "create", "s", "--config", "study.yaml"]);
    for (lr, loss) in [("lr=0.1", "loss=3"), ("lr=0.2", "loss=1")] {
        command(&["trials", "create", "--study", "s", "--parameter", lr, "--metric", loss]);
    }
    command(&["trials", "suggest", "--study", "s", "--client-id", "me"]);
    command(&["trials", "add-measurement", "3", "--study", "s", "--step", "1", "--metric", "loss=2"]);
    let list = |more: &[&str]| command(&[&["trials", "list", "--study", "s"][..], more].concat());
    let running = list(&[]).lines().nth(3).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((running[0].as_str(), running[1].as_str(), running[4].as_str()), ("3", "2", "ACTIVE"), "{}", list(&[]));
    let ids = |by: &str| list(&["--sort-by", by, "--format", "value(name.basename().segment(0))"]).replace('\n', " ");
    assert_eq!(ids("metric.loss"), "2 3 1 ");
    assert_eq!(ids("~metric.loss"), "1 3 2 ");
    assert_eq!(ids("~id"), "3 2 1 ");
    assert_eq!(list(&["--sort-by", "state,~id", "--limit", "1", "--format", "value(state)"]), "ACTIVE\n");
    let unknown =
        workspace.command().args(["trials", "list", "--study", "s", "--sort-by", "metric.x"]).output().unwrap();
    assert!(finished(unknown).expect(2).stderr.contains("--sort-by: no trial has a field \"metric.x\""));
}
