//! Cluster description of a replica: `TF_CONFIG`, and `CLUSTER_SPEC` for containers and worker pools.
//!
//! A pure function of the job and the addresses. Not here: the choice of addresses, which is up to the executor.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{ExecutorJobSpec, Replica, Role};

/// Environment variable with the value of `TF_CONFIG` for programs in containers. A specification that sets it gets it
/// for commands, too.
pub const CLUSTER_SPEC_VARIABLE: &str = "CLUSTER_SPEC";

/// Environment variable with the cluster as TensorFlow reads it.
const TF_CONFIG: &str = "TF_CONFIG";

/// Addresses of the replicas of one job.
#[derive(Debug)]
pub struct Cluster<'a> {
    spec: &'a ExecutorJobSpec,
    /// In the order of the replicas.
    addresses: Vec<String>,
}

/// Published JSON object, with the field order of the published examples.
#[derive(Serialize)]
struct Document<'a> {
    cluster: BTreeMap<&'static str, Vec<&'a str>>,
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
    /// ordered by index. Addresses of evaluators are in clusters of worker pools only.
    pub fn new(spec: &'a ExecutorJobSpec, addresses: &[String]) -> Self {
        Self { spec, addresses: addresses.to_vec() }
    }

    /// The variables of `replica`. `is_container`: whether its program is in a container.
    pub fn variables(&self, replica: &Replica, is_container: bool) -> BTreeMap<&'static str, String> {
        let mut variables = BTreeMap::new();
        let spec = self.spec;
        if spec.has_worker_pools {
            variables.insert(CLUSTER_SPEC_VARIABLE, self.document(replica, pool_name, |_| true));
            if spec.replicas.len() > 1 {
                variables.insert(TF_CONFIG, self.document(replica, |role| role_name(role, true), is_in_cluster));
            }
            return variables;
        }
        let tf_config = self.document(replica, |role| role_name(role, spec.master_is_chief), is_in_cluster);
        if is_container || spec.environment.contains_key(CLUSTER_SPEC_VARIABLE) {
            variables.insert(CLUSTER_SPEC_VARIABLE, tf_config.clone());
        }
        variables.insert(TF_CONFIG, tf_config);
        variables
    }

    /// Description for `replica`, whose cluster has the roles for which `is_in_cluster` holds.
    fn document(
        &self,
        replica: &Replica,
        name: impl Fn(Role) -> &'static str,
        is_in_cluster: impl Fn(Role) -> bool,
    ) -> String {
        let mut cluster: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
        for (replica, address) in self.spec.replicas.iter().zip(&self.addresses) {
            if is_in_cluster(replica.role) {
                cluster.entry(name(replica.role)).or_default().push(address);
            }
        }
        let document = Document {
            cluster,
            task: Task {
                kind: name(replica.role),
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

fn is_in_cluster(role: Role) -> bool {
    role != Role::Evaluator
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

/// Name of the worker pool of `role`.
fn pool_name(role: Role) -> &'static str {
    match role {
        Role::Master => "workerpool0",
        Role::Worker => "workerpool1",
        Role::ParameterServer => "workerpool2",
        Role::Evaluator => "workerpool3",
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
            has_worker_pools: false,
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
        let variables = Cluster::new(spec, &addresses).variables(&spec.replicas[replica], false);
        serde_json::from_str(&variables["TF_CONFIG"]).unwrap()
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

    #[test]
    fn worker_pools_have_their_own_description_and_one_replica_no_tf_config() {
        let mut spec = ExecutorJobSpec { has_worker_pools: true, ..spec(&[(Role::Master, 0)]) };
        let variables = |spec: &ExecutorJobSpec, replica: usize| {
            let addresses: Vec<String> = (0..spec.replicas.len()).map(|i| format!("h{i}:2222")).collect();
            Cluster::new(spec, &addresses).variables(&spec.replicas[replica], true)
        };
        let alone = variables(&spec, 0);
        assert_eq!(alone.keys().collect::<Vec<_>>(), [&"CLUSTER_SPEC"]);
        let alone: Value = serde_json::from_str(&alone["CLUSTER_SPEC"]).unwrap();
        assert_eq!(alone["cluster"], json!({"workerpool0": ["h0:2222"]}));
        assert_eq!(alone["task"], json!({"type": "workerpool0", "index": 0, "cloud": {}}));
        let roles = [(Role::Master, 0), (Role::Worker, 0), (Role::Worker, 1), (Role::Evaluator, 0)];
        spec.replicas = self::spec(&roles).replicas;
        let evaluator = variables(&spec, 3);
        let pools: Value = serde_json::from_str(&evaluator["CLUSTER_SPEC"]).unwrap();
        assert_eq!(
            pools["cluster"],
            json!({"workerpool0": ["h0:2222"], "workerpool1": ["h1:2222", "h2:2222"], "workerpool3": ["h3:2222"]})
        );
        assert_eq!(pools["task"]["type"], "workerpool3");
        let tf_config: Value = serde_json::from_str(&evaluator["TF_CONFIG"]).unwrap();
        assert_eq!(tf_config["cluster"], json!({"chief": ["h0:2222"], "worker": ["h1:2222", "h2:2222"]}));
        assert_eq!(tf_config["task"]["type"], "evaluator");
    }
}
