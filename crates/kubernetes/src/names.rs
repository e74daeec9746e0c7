//! Names and labels of an agent's objects.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use tunesmith_domain::JobId;
use tunesmith_executor::remote::AgentId;

/// Label on all objects of this program.
pub(super) const MANAGED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "tunesmith");

pub(super) const SERVER_LABEL: &str = "tunesmith.dev/server";

/// Label with the identity of the shared store.
pub(super) const STORE_LABEL: &str = "tunesmith.dev/store";

/// Label with the name of an agent's Job.
pub(super) const RUN_LABEL: &str = "tunesmith.dev/run";

/// Label with the digest of a job name.
const JOB_LABEL: &str = "tunesmith.dev/job";

/// Labels with the trial and attempt numbers.
const TRIAL_LABEL: &str = "tunesmith.dev/trial";
pub(super) const ATTEMPT_LABEL: &str = "tunesmith.dev/attempt";

const REPLICA_LABEL: &str = "tunesmith.dev/replica";

/// Annotation with the agent's full name.
pub(super) const RUN_ANNOTATION: &str = "tunesmith.dev/run";

pub(super) const PREFIX: &str = "ts-";

/// Maximum length of the readable part of a name.
const MAX_READABLE: usize = 20;

/// Maximum length of a name. Names are also label values, which have at most 63 characters.
const MAX_NAME: usize = 63;

/// Name of the Job and Secret of agent `id`, submitted by the server `identity`.
pub(super) fn name_of(identity: &str, id: &AgentId) -> String {
    let AgentId { run, task } = id;
    let mut rest = match run.trial {
        Some(trial) => format!("t{trial}-a{}", run.attempt),
        None => format!("a{}", run.attempt),
    };
    task.iter().for_each(|task| rest.push_str(&format!("-{task}")));
    let prefix = prefix(identity, &run.job);
    let name = format!("{prefix}{rest}");
    if name.len() <= MAX_NAME {
        return name;
    }
    format!("{prefix}x{}", hex::encode(&Sha256::digest(rest)[..6]))
}

/// Common prefix of all attempts of `job`.
pub(super) fn prefix(identity: &str, job: &JobId) -> String {
    let (_, name) = job.parts();
    format!("{PREFIX}{}-{}-", readable(name), digest(identity, job))
}

/// `name` as a part of names in the cluster.
pub(super) fn readable(name: &str) -> String {
    let mut readable = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if readable.len() < MAX_READABLE && !(c == '-' && (readable.is_empty() || readable.ends_with('-'))) {
            readable.push(c);
        }
    }
    readable.truncate(readable.trim_end_matches('-').len());
    readable
}

fn digest(identity: &str, job: &JobId) -> String {
    hex::encode(&Sha256::digest(format!("{identity}/{}", job.as_str()))[..6])
}

pub(super) fn labels(identity: &str, id: &AgentId) -> BTreeMap<String, String> {
    let AgentId { run, task } = id;
    let mut labels = BTreeMap::from([
        (MANAGED_LABEL.0.to_owned(), MANAGED_LABEL.1.to_owned()),
        (SERVER_LABEL.to_owned(), identity.to_owned()),
        (RUN_LABEL.to_owned(), name_of(identity, id)),
        (JOB_LABEL.to_owned(), digest(identity, &run.job)),
        (ATTEMPT_LABEL.to_owned(), run.attempt.to_string()),
    ]);
    if let Some(trial) = run.trial {
        labels.insert(TRIAL_LABEL.to_owned(), trial.to_string());
    }
    if let Some(task) = task {
        labels.insert(REPLICA_LABEL.to_owned(), task.clone());
    }
    labels
}

/// Attempt name shared by all replicas, from an object's `labels`; `None` if a label is missing.
pub(super) fn attempt_key(labels: &BTreeMap<String, String>) -> Option<String> {
    let trial = labels.get(TRIAL_LABEL).map(String::as_str).unwrap_or_default();
    Some(format!("{}/{trial}/{}", labels.get(JOB_LABEL)?, labels.get(ATTEMPT_LABEL)?))
}

/// ID of the attempt that `job` was created for, as text; `None` without an annotation.
pub(super) fn attempt_of(job: &Job) -> Option<&str> {
    let agent = job.annotations().get(RUN_ANNOTATION)?;
    match job.labels().get(REPLICA_LABEL) {
        Some(task) => agent.strip_suffix(task.as_str())?.strip_suffix('-'),
        None => Some(agent),
    }
}

/// Selector of all objects of the server `identity`.
pub(super) fn selector(identity: &str) -> String {
    format!("{}={},{SERVER_LABEL}={identity}", MANAGED_LABEL.0, MANAGED_LABEL.1)
}

#[cfg(test)]
mod tests {
    use tunesmith_domain::TrialId;
    use tunesmith_executor::ExecutorJobId;

    use super::*;

    fn is_valid(name: &str) -> bool {
        let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        name.len() <= MAX_NAME && name.chars().all(is_inside) && !name.ends_with('-')
    }

    #[test]
    fn names_are_valid_and_distinct() {
        let id = |job: &str, trial, attempt| AgentId {
            run: ExecutorJobId { job: job.parse().unwrap(), trial, attempt },
            task: None,
        };
        let one = id("project/My_Job", Some(TrialId(12)), 3);
        let name = name_of("cafe", &one);
        assert!(name.starts_with("ts-my-job-") && name.ends_with("-t12-a3") && is_valid(&name), "{name}");
        assert_ne!(name, name_of("cafe", &id("other/My_Job", Some(TrialId(12)), 3)));
        assert_ne!(name, name_of("beef", &one), "another server");
        assert_eq!(name, name_of("cafe", &one));
        assert!(name_of("cafe", &id("p/My_Job", None, 1)).ends_with("-a1"));
        let long = |attempt| name_of("cafe", &id(&format!("p/{}", "x".repeat(120)), Some(TrialId(u64::MAX)), attempt));
        assert!(is_valid(&long(9)), "{}", long(9));
        assert_ne!(long(9), long(10));
        assert_eq!(labels("cafe", &one)[RUN_LABEL], name);
        let worker = AgentId { task: Some("worker-11".to_owned()), ..one.clone() };
        assert!(name_of("cafe", &worker).ends_with("-t12-a3-worker-11") && is_valid(&name_of("cafe", &worker)));
        assert!(name_of("cafe", &worker).starts_with(&prefix("cafe", &one.run.job)));
        assert_eq!(labels("cafe", &worker)["tunesmith.dev/replica"], "worker-11");
        let key = |identity: &str, id: &AgentId| attempt_key(&labels(identity, id)).unwrap();
        assert_eq!(key("cafe", &worker), key("cafe", &one));
        for other in [id("project/My_Job", Some(TrialId(12)), 4), id("project/My_Job", None, 3)] {
            assert_ne!(key("cafe", &other), key("cafe", &one), "{other}");
        }
        assert_ne!(key("beef", &one), key("cafe", &one), "another server");
    }
}
