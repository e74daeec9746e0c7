//! Submission request of an attempt.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{AgentProgram, RaySettings};
use tunesmith_domain::{JobId, Resources};
use tunesmith_executor::remote::AgentId;
use tunesmith_executor::{ExecutorJobSpec, Program};

/// Variable with the specification. The kernel limits its size (`MAX_ARG_STRLEN`, 128 KiB including the name).
const SPEC_VARIABLE: &str = "TUNESMITH_AGENT_SPEC";
const MAX_SPEC_BYTES: usize = 120 << 10;

/// Known placement options.
const KNOWN_OPTIONS: [&str; 1] = ["resources"];

/// Record name of `id`, and prefix of its submission ID, for the server `identity`. Safe in URLs and shells.
pub(super) fn record_name(identity: &str, id: &AgentId) -> String {
    let AgentId { run, task } = id;
    let mut name = prefix(identity, &run.job);
    if let Some(trial) = run.trial {
        name.push_str(&format!("trial-{trial}-"));
    }
    name.push_str(&format!("attempt-{}", run.attempt));
    task.iter().for_each(|task| name.push_str(&format!("-{task}")));
    name
}

/// Common prefix of all submission IDs of `job`.
pub(super) fn prefix(identity: &str, job: &JobId) -> String {
    let text = job.as_str();
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("tunesmith-{identity}-{plain}-{}-", hex::encode(&Sha256::digest(text)[..4]))
}

/// Request body that submits `spec` as `name`; `text` is the content of its specification file.
///
/// # Errors
/// The reason why Ray cannot run it.
pub(super) fn submission(
    name: &str,
    spec: &ExecutorJobSpec,
    text: &[u8],
    settings: &RaySettings,
    working_folder: Option<String>,
) -> Result<Value, String> {
    let [replica] = spec.own_replicas() else {
        return Err(format!("a job of Ray has one replica, and it has {}", spec.own_replicas().len()));
    };
    if matches!(replica.program, Program::Container { .. }) {
        return Err("it is a container, which this engine does not run; use a command or a Python package".to_owned());
    }
    let encoded = BASE64_STANDARD.encode(text);
    if encoded.len() > MAX_SPEC_BYTES {
        return Err(format!(
            "its specification has {} KiB, of which Ray takes {} KiB; shorten the training input",
            text.len() >> 10,
            (MAX_SPEC_BYTES / 4 * 3) >> 10
        ));
    }
    if let Some(unknown) = spec.placement.options.keys().find(|name| !KNOWN_OPTIONS.contains(&name.as_str())) {
        return Err(format!("its place has the unknown setting {unknown:?}; Ray knows {}", KNOWN_OPTIONS.join(", ")));
    }
    if let Some(queue) = &spec.placement.queue {
        return Err(format!("its place is the queue {queue:?}, and Ray has no queues"));
    }
    let mut environment = json!({"env_vars": {SPEC_VARIABLE: encoded}});
    if let Some(server) = &settings.server {
        environment["env_vars"]["TUNESMITH_SERVER"] = server.as_str().into();
    }
    if let Some(folder) = working_folder {
        environment["working_dir"] = folder.into();
    }
    let mut body = json!({
        "submission_id": name,
        "entrypoint": entrypoint(name, &settings.agent)?,
        "runtime_env": environment,
        "metadata": {"tunesmith_run": AgentId::of(spec).to_string()},
    });
    let custom = spec.placement.options.get("resources").map(String::as_str);
    for (key, value) in resources(&replica.resources, custom)? {
        body[key] = value;
    }
    Ok(body)
}

/// Requested resources by their names in a submission.
fn resources(wanted: &Resources, custom: Option<&str>) -> Result<Vec<(&'static str, Value)>, String> {
    // Without a CPU request, a job neither queues nor leaves the head node.
    let cpus = wanted.milli_cpus.map_or(1.0, |milli| f64::from(milli) / 1000.0);
    let mut found = vec![("entrypoint_num_cpus", json!(cpus))];
    if let Some(bytes) = wanted.memory_bytes {
        found.push(("entrypoint_memory", json!(bytes)));
    }
    let mut names = serde_json::Map::new();
    if let Some(accelerators) = &wanted.accelerators {
        found.push(("entrypoint_num_gpus", json!(accelerators.count)));
        if let Some(kind) = &accelerators.kind {
            // Resource by which Ray marks nodes with an accelerator type.
            names.insert(format!("accelerator_type:{kind}"), json!(0.001));
        }
    }
    for pair in custom.unwrap_or_default().split(',').filter(|pair| !pair.is_empty()) {
        let amount = pair.split_once('=').and_then(|(name, amount)| Some((name, amount.parse::<f64>().ok()?)));
        let (name, amount) = amount
            .filter(|(name, amount)| !name.is_empty() && amount.is_finite() && *amount > 0.0)
            .ok_or_else(|| format!("its place has the resource {pair:?}; expected NAME=NUMBER, separated by commas"))?;
        names.insert(name.to_owned(), json!(amount));
    }
    if !names.is_empty() {
        found.push(("entrypoint_resources", names.into()));
    }
    Ok(found)
}

/// Shell command that writes the specification to a new folder and execs the agent. The folder, with its logs, is
/// left to the node's cleanup of temporary files.
fn entrypoint(name: &str, agent: &AgentProgram) -> Result<String, String> {
    let program = match agent {
        AgentProgram::Uploaded(_) => "./tunesmith".to_owned(),
        AgentProgram::Installed(path) => {
            let path = path.to_str().ok_or("the path of the agent is not UTF-8")?;
            format!("'{}'", path.replace('\'', r"'\''"))
        }
    };
    Ok(format!(
        "umask 077 && D=$(mktemp -d \"${{TMPDIR:-/tmp}}/{name}.XXXXXX\") && \
         printf %s \"${SPEC_VARIABLE}\" | base64 -d > \"$D/spec.json\" && unset {SPEC_VARIABLE} && \
         exec {program} agent --spec \"$D/spec.json\" --spool \"$D\"",
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tunesmith_domain::{Accelerators, TrialId};
    use tunesmith_executor::{AttemptPart, ExecutorJobId, Placement, Replica, Role};

    use super::*;

    fn spec() -> ExecutorJobSpec {
        let program = Program::Command { argv: vec!["true".to_owned()] };
        ExecutorJobSpec {
            id: ExecutorJobId { job: "p/My_Job".parse().unwrap(), trial: Some(TrialId(3)), attempt: 2 },
            replicas: vec![Replica::new(Role::Master, 0, program)],
            training_input: Value::Null,
            master_is_chief: false,
            has_worker_pools: false,
            environment: BTreeMap::new(),
            working_directory: "/".into(),
            program_folders: Vec::new(),
            directory: "/d".into(),
            reports: Default::default(),
            server: Default::default(),
            time_limit: None,
            grace: Duration::from_secs(30),
            start_port: None,
            packages: None,
            part: None,
            placement: Placement::default(),
        }
    }

    fn settings() -> RaySettings {
        RaySettings {
            address: "http://127.0.0.1:8265".parse().unwrap(),
            token: crate::RayToken::default(),
            server: Some("http://head:8080".to_owned()),
            agent: AgentProgram::Installed("/opt/it's/tunesmith".into()),
            registry: "/r".into(),
        }
    }

    fn submitted(spec: &ExecutorJobSpec) -> Result<Value, String> {
        submission(&record_name("cafe", &AgentId::of(spec)), spec, b"{}", &settings(), None)
    }

    #[test]
    fn submission_requests_resources_and_starts_the_agent() {
        let mut spec = spec();
        let accelerators = Accelerators { kind: Some("A100".to_owned()), count: 2 };
        spec.replicas[0].resources =
            Resources { milli_cpus: Some(500), memory_bytes: Some(1 << 30), accelerators: Some(accelerators) };
        spec.placement.options.insert("resources".to_owned(), "highmem=1,n2=0.5".to_owned());
        let body = submitted(&spec).unwrap();
        let name = body["submission_id"].as_str().unwrap();
        assert!(name.starts_with("tunesmith-cafe-p-My-Job-") && name.ends_with("-trial-3-attempt-2"), "{name}");
        assert!(name.starts_with(&prefix("cafe", &spec.id.job)));
        assert_eq!(body["entrypoint_num_cpus"], 0.5);
        assert_eq!(body["entrypoint_num_gpus"], 2);
        assert_eq!(body["entrypoint_memory"], 1 << 30);
        assert_eq!(body["entrypoint_resources"], json!({"accelerator_type:A100": 0.001, "highmem": 1.0, "n2": 0.5}));
        let variables = &body["runtime_env"]["env_vars"];
        assert_eq!(*variables, json!({"TUNESMITH_AGENT_SPEC": "e30=", "TUNESMITH_SERVER": "http://head:8080"}));
        let entrypoint = body["entrypoint"].as_str().unwrap();
        assert!(entrypoint.contains(r"exec '/opt/it'\''s/tunesmith' agent --spec"), "{entrypoint}");
        assert_eq!(submitted(&self::tests::spec()).unwrap()["entrypoint_num_cpus"], 1.0);
    }

    #[test]
    fn each_replica_has_a_submission_with_its_own_resources() {
        let mut spec = spec();
        let resources = Resources { milli_cpus: Some(4000), ..Resources::default() };
        spec.replicas.push(Replica { resources, ..Replica::new(Role::Worker, 0, spec.replicas[0].program.clone()) });
        spec.part = Some(AttemptPart { replica: 1, addresses: Vec::new() });
        let body = submitted(&spec).unwrap();
        let name = body["submission_id"].as_str().unwrap();
        assert!(
            name.ends_with("-trial-3-attempt-2-worker-0") && name.starts_with(&prefix("cafe", &spec.id.job)),
            "{name}"
        );
        assert_eq!(body["entrypoint_num_cpus"], 4.0);
    }

    #[test]
    fn submission_that_ray_cannot_run_is_refused() {
        let refused = |change: fn(&mut ExecutorJobSpec)| {
            let mut spec = spec();
            change(&mut spec);
            submitted(&spec).unwrap_err()
        };
        let queue = refused(|spec| spec.placement.queue = Some("gpu".to_owned()));
        assert_eq!(queue, "its place is the queue \"gpu\", and Ray has no queues");
        let unknown = refused(|spec| drop(spec.placement.options.insert("account".to_owned(), "a".to_owned())));
        assert_eq!(unknown, "its place has the unknown setting \"account\"; Ray knows resources");
        let amount = refused(|spec| drop(spec.placement.options.insert("resources".to_owned(), "n2=-1".to_owned())));
        assert!(amount.starts_with("its place has the resource \"n2=-1\"; expected NAME=NUMBER"), "{amount}");
        let large = submission("name", &spec(), &vec![b' '; 100 << 10], &settings(), None).unwrap_err();
        assert!(large.starts_with("its specification has 100 KiB, of which Ray takes 90 KiB"), "{large}");
    }
}
