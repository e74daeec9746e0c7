//! Files below a job-dir: over HTTP and in the console.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::paced::found;
use tunesmith_testing::server::Server;

/// Writes files, folders and links into the job-dir.
const PROGRAM: &str = r#"for word; do case $word in --job-dir=*) dir=${word#--job-dir=};; esac; done
mkdir -p "$dir/model/deep"; cd "$dir" || exit 1
printf weights > 'model/größe <b>.bin'; printf x > model/deep/x; printf log > a.txt
ln -s /etc/passwd link; ln -s / root; mkfifo pipe; ln /etc/hostname hard 2> /dev/null
echo loss=0.5"#;

fn job(id: &str, job_dir: Option<&str>, tunes: bool) -> Value {
    let mut input = json!({"masterConfig": {"containerCommand": ["sh", "-c", PROGRAM, "program"]}});
    if let Some(folder) = job_dir {
        input["jobDir"] = json!(folder);
    }
    if tunes {
        input["tunesmith"] = json!({"metricFromStdout": true});
        input["hyperparameters"] = json!({
            "hyperparameterMetricTag": "loss", "maxTrials": 1,
            "params": [{"parameterName": "p", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
        });
    }
    json!({"jobId": id, "trainingInput": input})
}

#[test]
fn files_below_a_job_dir_are_listed_and_read_without_links() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin"]);
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@p"]);
    let stranger = token(&workspace, &["--principal", "user:other@x", "--role", "ml.viewer@q"]);
    let out = std::fs::canonicalize(workspace.path()).unwrap().join("out");
    let server = Server::start(&workspace, &["--job-slots", "3", "--allowed-folder", out.to_str().unwrap()]);
    let folder = out.join("models").display().to_string();
    let once = out.join("once").display().to_string();
    for body in [job("tunes", Some(&folder), true), job("once", Some(&once), false), job("without", None, false)] {
        assert_eq!(server.send("POST", "/v1/projects/p/jobs", &bearer(&admin), &body.to_string()).0, 200);
    }
    let wait = |id: &str| {
        found(|| {
            let (_, job) = server.send("GET", &format!("/v1/projects/p/jobs/{id}"), &bearer(&viewer), "");
            job["endTime"].is_string().then(|| job["state"].clone())
        })
    };
    assert_eq!((wait("tunes"), wait("once")), (json!("SUCCEEDED"), json!("SUCCEEDED")));
    // Without a job-dir the program writes nowhere.
    wait("without");

    let list = |query: &str| server.send("GET", &format!("/v1/projects/p/jobs/{query}"), &bearer(&viewer), "");
    let (status, listed) = list("tunes/artifacts?trial=1");
    assert_eq!(status, 200, "{listed}");
    assert_eq!(listed["folder"], format!("{folder}/1"));
    assert_eq!(listed["hasMore"], false);
    let files: Vec<(&str, &str)> = listed["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["file"].as_str().unwrap(), file["sizeBytes"].as_str().unwrap()))
        .filter(|(name, _)| *name != "hard")
        .collect();
    assert_eq!(files, [("a.txt", "3"), ("model/größe <b>.bin", "7"), ("model/deep/x", "1")]);
    assert!(listed["artifacts"][0]["modifyTime"].as_str().unwrap().starts_with("20"), "{listed}");
    assert_eq!(list("once/artifacts").1["artifacts"].as_array().unwrap().len(), files.len() + listed_hard(&listed));

    let read = |token: &str, query: &str| {
        server.parts("GET", &format!("/v1/projects/p/jobs/tunes/artifacts:download?{query}"), &bearer(token), "")
    };
    let (head, body) = read(&viewer, "trial=1&file=model/gr%C3%B6%C3%9Fe%20%3Cb%3E.bin");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}{body}");
    assert_eq!(body, "weights");
    for header in [
        "content-disposition: attachment; filename=\"gr__e__b_.bin\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%3Cb%3E%2Ebin",
        "content-type: application/octet-stream",
        "content-security-policy: default-src 'none'; sandbox",
        "x-content-type-options: nosniff",
    ] {
        assert!(head.contains(header), "{header}\n{head}");
    }
    for (query, status) in [
        ("trial=1&file=link", 404),
        ("trial=1&file=root/etc/passwd", 404),
        ("trial=1&file=../../server.yaml", 404),
        ("trial=1&file=%2Fetc%2Fpasswd", 404),
        ("trial=1&file=model", 404),
        ("trial=1&file=pipe", 404),
        ("trial=1&file=none", 404),
        ("trial=1", 400),
        ("trial=2&file=a.txt", 404),
        ("file=a.txt", 404),
    ] {
        let (head, body) = read(&viewer, query);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{query}: {head}{body}");
        assert!(!body.contains("root:"), "{query}: {body}");
    }
    assert!(read(&stranger, "trial=1&file=a.txt").0.starts_with("HTTP/1.1 403"));
    let (status, error) = list("without/artifacts");
    assert_eq!(status, 404);
    assert_eq!(error["error"]["message"], "job p/without has no jobDir, so that it has no artifacts");

    // The page of a trial, and that of a program that runs once.
    let page = |path: &str| server.exchange("GET", &format!("/console/projects/p/jobs/{path}"), &bearer(&viewer), "").1;
    let address = "/v1/projects/p/jobs/tunes/artifacts:download?file=model%2Fdeep%2Fx&amp;trial=1";
    for (path, text) in [
        ("tunes/trials/1", address),
        ("tunes/trials/1", "model/größe &#60;b&#62;.bin"),
        ("once/output", "/v1/projects/p/jobs/once/artifacts:download?file=a%2Etxt"),
    ] {
        let page = page(path).replace("&#38;", "&amp;");
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert!(!page("without/output").contains("Artifacts"));
}

/// Whether the program could give a file of another user a second name: 0 or 1.
fn listed_hard(listed: &Value) -> usize {
    listed["artifacts"].as_array().unwrap().iter().filter(|file| file["file"] == "hard").count()
}
