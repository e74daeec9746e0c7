//! Cluster description of a replica: `TF_CONFIG`, and `CLUSTER_SPEC` for containers.
//!
//! A pure function of the job and the addresses. Not here: the choice of addresses, which is up to the executor.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{ExecutorJobSpec, Replica, Role};

/// Environment variable with the value of `TF_CONFIG` for programs in containers. A specification that sets it gets it
/// for commands, too.
pub const CLUSTER_SPEC_VARIABLE: &str = "CLUSTER_SPEC";

/// Addresses of the replicas of one job.
#[derive(Debug)]
pub struct Cluster<'a> {
    spec: &'a ExecutorJobSpec,
    /// Addresses by role name, in index order; without evaluators.
    addresses: BTreeMap<&'static str, Vec<String>>,
}

/// Published JSON object, with the field order of the published examples.
#[derive(Serialize)]
struct Document<'a> {
    cluster: &'a BTreeMap<&'static str, Vec<String>>,
    task: Task,
    job: &'a Value,
    environment: &'static str,
}

#[derive(Serialize)]
struct Task {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<String>,
    cloud: BTreeMap<String, Value>,
}

impl<'a> Cluster<'a> {
    /// Cluster of `spec` with `addresses` (`host:port`), one per replica in the same order. Replicas of a role must be
    /// ordered by index. Addresses of evaluators are ignored.
    pub fn new(spec: &'a ExecutorJobSpec, addresses: &[String]) -> Self {
        let mut by_role: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for (replica, address) in spec.replicas.iter().zip(addresses) {
            if replica.role != Role::Evaluator {
                by_role.entry(role_name(replica.role, spec.master_is_chief)).or_default().push(address.clone());
            }
        }
        Self { spec, addresses: by_role }
    }

    pub fn tf_config(&self, replica: &Replica) -> String {
        let document = Document {
            cluster: &self.addresses,
            task: Task {
                kind: role_name(replica.role, self.spec.master_is_chief),
                index: replica.index,
                trial: self.spec.id.trial.map(|trial| trial.to_string()),
                cloud: BTreeMap::new(),
            },
            job: &self.spec.training_input,
            environment: "cloud",
        };
        serde_json::to_string(&document).expect("keys are strings and values are JSON already")
    }
}

/// Published name of `role`.
pub fn role_name(role: Role, master_is_chief: bool) -> &'static str {
    match role {
        Role::Master if master_is_chief => "chief",
        Role::Master => "master",
        Role::Worker => "worker",
        Role::ParameterServer => "ps",
        Role::Evaluator => "evaluator",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{ExecutorJobId, Placement, Program};
    use tunesmith_domain::TrialId;

    fn spec(roles: &[(Role, u32)]) -> ExecutorJobSpec {
        let replica = |&(role, index): &(Role, u32)| {
            Replica::new(role, index, Program::Command { argv: vec!["true".to_owned()] })
        };
        ExecutorJobSpec {
            id: ExecutorJobId { job: "census".parse().unwrap(), trial: None, attempt: 1 },
            replicas: roles.iter().map(replica).collect(),
            training_input: json!({"region": "us-central1"}),
            master_is_chief: false,
            environment: BTreeMap::new(),
            working_directory: "/".into(),
            program_folders: Vec::new(),
            directory: "/nowhere".into(),
            time_limit: None,
            grace: Duration::ZERO,
            reports: Default::default(),
            server: Default::default(),
            start_port: None,
            packages: None,
            part: None,
            placement: Placement::default(),
        }
    }

    fn parsed(spec: &ExecutorJobSpec, replica: usize) -> Value {
        let addresses: Vec<String> = (0..spec.replicas.len()).map(|i| format!("127.0.0.1:{}", 9000 + i)).collect();
        serde_json::from_str(&Cluster::new(spec, &addresses).tf_config(&spec.replicas[replica])).unwrap()
    }

    #[test]
    fn single_replica_is_a_cluster_of_one_master() {
        assert_eq!(
            parsed(&spec(&[(Role::Master, 0)]), 0),
            json!({
                "cluster": {"master": ["127.0.0.1:9000"]},
                "task": {"type": "master", "index": 0, "cloud": {}},
                "job": {"region": "us-central1"},
                "environment": "cloud",
            })
        );
    }

    #[test]
    fn every_role_has_its_published_name_and_evaluators_are_not_in_the_cluster() {
        let roles = [(Role::Master, 0), (Role::Worker, 0), (Role::Worker, 1), (Role::ParameterServer, 0)];
        let mut spec = spec(&[&roles[..], &[(Role::Evaluator, 0)]].concat());
        let worker = parsed(&spec, 2);
        assert_eq!(
            worker["cluster"],
            json!({
                "master": ["127.0.0.1:9000"],
                "worker": ["127.0.0.1:9001", "127.0.0.1:9002"],
                "ps": ["127.0.0.1:9003"],
            })
        );
        assert_eq!(worker["task"], json!({"type": "worker", "index": 1, "cloud": {}}));
        assert_eq!(parsed(&spec, 4)["task"]["type"], "evaluator");
        spec.master_is_chief = true;
        let chief = parsed(&spec, 0);
        assert_eq!(chief["task"]["type"], "chief");
        assert_eq!(chief["cluster"]["chief"], json!(["127.0.0.1:9000"]));
    }

    #[test]
    fn trial_id_is_a_string() {
        let mut spec = spec(&[(Role::Master, 0)]);
        spec.id.trial = Some(TrialId(7));
        assert_eq!(parsed(&spec, 0)["task"]["trial"], "7");
    }
}
