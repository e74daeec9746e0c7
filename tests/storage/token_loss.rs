//! Once tokens were created, their loss opens nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished};

/// Puts something else in the place of the file.
type Damage = fn(&Path);

const JOBS: &str = "/v1/projects/p/jobs";

#[test]
fn lost_or_damaged_tokens_close_the_server_until_a_reset() {
    let workspace = Workspace::new("");
    let admin = token(&workspace, &["--principal", "user:a@x", "--role", "ml.admin"]);
    let (file, kept) = (workspace.path().join("data/tokens.json"), workspace.path().join("kept.json"));
    let losses: [(&str, Damage); 4] = [
        ("absent", |_| {}),
        ("broken link", |file| symlink("nowhere", file).unwrap()),
        ("damaged", |file| fs::write(file, "{").unwrap()),
        ("another thing", |file| fs::create_dir(file).unwrap()),
    ];
    for (loss, damage) in losses {
        let server = Server::start(&workspace, &[]);
        assert_eq!(server.send("GET", JOBS, &bearer(&admin), "").0, 200);
        fs::rename(&file, &kept).unwrap();
        damage(&file);
        assert_eq!(server.get(JOBS).0, 401, "{loss}");
        assert_eq!(server.send("GET", JOBS, &bearer("tsm_other_token"), "").0, 503, "{loss}");
        let (status, error) = server.send("GET", JOBS, &bearer(&admin), "");
        assert!(status == 503 && error.to_string().contains("tokens cannot be read"), "{loss}: {error}");
        assert_eq!(server.text("GET", "/readyz").0, 503, "{loss}");
        drop(server);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
        let refused = finished(workspace.command().args(serve).output().unwrap()).expect(2);
        assert!(refused.stderr.contains("tokens.json"), "{loss}: {}", refused.stderr);
        let more = ["tokens", "create", "--data-dir", "data", "--principal", "user:b@x", "--role", "ml.admin"];
        finished(workspace.command().args(more).output().unwrap()).expect(2);
        if file.is_dir() {
            fs::remove_dir(&file).unwrap()
        } else {
            drop(fs::remove_file(&file))
        }
        fs::rename(&kept, &file).unwrap();
    }

    let server = Server::start(&workspace, &[]);
    fs::write(&file, "{").unwrap();
    let reset = ["tokens", "reset", "--data-dir", "data"];
    finished(workspace.command().args(reset).output().unwrap()).expect(0);
    assert_eq!(server.get(JOBS).0, 401, "a running server stays closed");
    drop(server);
    let server = Server::start(&workspace, &[]);
    assert_eq!(server.get(JOBS).0, 200);
    let methods = workspace.read("data/audit/admin_activity.jsonl");
    assert!(methods.lines().any(|line| line.contains("\"tunesmith.tokens.reset\"")), "{methods}");
}
