//! Job folders on volumes of pods, on a server with tokens.

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::access::{bearer, token};
use tunesmith_testing::server::Server;

use super::InProcess;
use super::runs::kubeconfig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_folder_on_a_volume_needs_no_folder_of_the_server() {
    let place = InProcess::without_nodes();
    let workspace = Workspace::new("");
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.developer@p"]);
    token(&workspace, &["--principal", "user:other@x", "--role", "ml.developer@q"]);
    let volume = workspace.path().join("volume");
    let mut command = workspace.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--executor", "kubernetes"]);
    command.args(["--kubernetes-agent-image", "tunesmith:test", "--kubernetes-image", "trainer:1"]);
    workspace.write("server.yaml", &json!({"kubernetes": {"volumes": {"models": volume}}}).to_string());
    command.args(["--server-config", "server.yaml"]);
    command.env("KUBECONFIG", kubeconfig(&place, &workspace));
    let check = move || {
        // Several principals have tokens: programs run in pods, not as the user of the server.
        let server = Server::start_command(&mut command);
        let create = |id: &str, job_dir: String| -> (u16, Value) {
            let input =
                json!({"masterConfig": {"imageUri": "trainer:1", "containerCommand": ["true"]}, "jobDir": job_dir});
            let body = json!({"jobId": id, "trainingInput": input}).to_string();
            server.send("POST", "/v1/projects/p/jobs", &bearer(&developer), &body)
        };
        let (status, answer) = create("on_volume", volume.join("a").display().to_string());
        assert_eq!(status, 200, "{answer}");
        assert!(!volume.exists(), "no folder is created on the server");
        std::fs::create_dir_all(volume.join("a")).unwrap();
        std::fs::write(volume.join("a/file"), "of the server").unwrap();
        let artifacts = "/v1/projects/p/jobs/on_volume/artifacts";
        for path in [artifacts.to_owned(), format!("{artifacts}:download?file=file")] {
            let (status, answer) = server.send("GET", &path, &bearer(&developer), "");
            assert_eq!((status, &answer["error"]["status"]), (400, &json!("FAILED_PRECONDITION")), "{answer}");
        }
        for outside in ["/data", "/etc"].map(str::to_owned).into_iter().chain([
            volume.join("../data").display().to_string(),
            format!("{}2", volume.display()),
            workspace.path().join("data").display().to_string(),
        ]) {
            let (status, answer) = create("outside", outside);
            assert_eq!(status, 400, "{answer}");
            let violation = &answer["error"]["details"][0]["fieldViolations"][0];
            assert_eq!(violation["field"], "trainingInput.jobDir", "{answer}");
        }
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}
