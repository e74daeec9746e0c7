//! Concurrent changes of one policy.

use std::sync::Barrier;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

const CLIENTS: usize = 8;
const ROUNDS: usize = 25;

#[test]
fn one_of_several_policies_with_the_same_etag_is_set() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let input = json!({"jobId": "j", "trainingInput": {"masterConfig": {"containerCommand": ["true"]}}});
    assert_eq!(server.post("/v1/projects/p/jobs", &input).0, 200);
    let set = |etag: &str, round: usize, client: usize| {
        let members = json!([format!("user:{round}-{client}@x")]);
        let policy = json!({"etag": etag, "bindings": [{"role": "roles/ml.jobOwner", "members": members}]});
        server.post("/v1/projects/p/jobs/j:setIamPolicy", &json!({"policy": policy}))
    };
    let mut current = set("", 0, 0).1;
    for round in 1..=ROUNDS {
        let etag = current["etag"].as_str().unwrap().to_owned();
        let begin = Barrier::new(CLIENTS);
        let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (begin, etag) = (&begin, &etag);
                    scope.spawn(move || {
                        begin.wait();
                        set(etag, round, client)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(status, _)| *status == 200);
        assert_eq!(done.len(), 1, "round {round}: {done:?}");
        assert!(refused.iter().all(|(status, error)| *status == 409 && error["error"]["status"] == "ABORTED"));
        current = server.get("/v1/projects/p/jobs/j:getIamPolicy").1;
        assert_eq!(current, done[0].1);
    }
}
