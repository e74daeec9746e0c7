//! Workers of two servers that share a database and one address.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tunesmith_testing::Workspace;
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;

use super::InProcess;
use super::runs::kubeconfig;
use super::worker_failures::answering;
use super::workers::{ask, blocking, deploy, objects, routine};

type Targets = Arc<Mutex<Vec<SocketAddr>>>;

/// Passes connections on to the targets in turn, as a Service does at random. Returns its address.
fn balance(targets: &Targets) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (address, targets) = (listener.local_addr().unwrap(), Arc::clone(targets));
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let target = {
                let targets = targets.lock().unwrap();
                targets[number % targets.len()]
            };
            // A server that was killed accepts nothing.
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(target)) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_find_their_own_server_behind_a_common_address() {
    let place = InProcess::new();
    let workspace = Workspace::new("");
    blocking(|| {
        let targets = Targets::default();
        let config = json!({
            "prediction": {"executor": "kubernetes"}, "runtimeVersions": {"2.11": {"image": "models:1"}},
            "kubernetes": {"configFile": kubeconfig(&place, &workspace), "server": format!("http://{}", balance(&targets))},
        });
        let config = workspace.write("server.yaml", &config.to_string());
        let cluster = Cluster::start();
        let address = cluster.create_database("tuning");
        let options = ["--server-config", config.to_str().unwrap()];
        let serve = |name: &str| Cluster::serve_in(&workspace.path().join(name), &address, &options);
        let servers = [serve("first"), serve("second")];
        targets.lock().unwrap().extend(servers.iter().map(|server| server.address));
        deploy(&servers[0], &routine(&workspace, "fine", &answering("pass")));
        for number in 0..4 {
            // Each has workers of its own.
            for server in &servers {
                assert_eq!(ask(server, &json!([number])), (200, json!({"predictions": [number]})));
            }
        }
        assert_eq!(place.api().all("deployments").len(), 2);
        let [first, second] = servers;
        first.kill();
        assert_eq!(ask(&second, &json!([9])), (200, json!({"predictions": [9]})));
        assert_eq!(second.send("DELETE", "/v1/projects/p/models/m/versions/v1", "", "").0, 200);
        // Those of the server that was killed wait for its next start.
        until(|| place.api().all("deployments").len() == 1);
        let _first = serve("first");
        until(|| objects(&place) == 0);
    });
}
