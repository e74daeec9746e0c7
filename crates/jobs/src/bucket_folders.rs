//! Folders of this machine that stand for buckets. Programs of Vertex AI find the bucket `B` at `/gcs/B`.
//!
//! A container has the folder at this path. A process cannot: in its arguments and variables, the folder takes the place of
//! the path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tunesmith_domain::{JobPlan, MachineNotice, ProgramPlan, Role, TrainerContract, Variable};

/// Parent of all buckets.
const MOUNT: &str = "/gcs/";

const SCHEME: &str = "gs://";

/// Buckets that a program names, and what each path became.
#[derive(Default)]
struct Found {
    replaced: BTreeSet<String>,
    missing: BTreeSet<String>,
}

/// Lets the programs of `plan` find the buckets that have a folder. Folders that the job may not use are left out, as all
/// are if its programs do not see the files of this machine (`is_here`).
pub(super) fn place(plan: &mut JobPlan, is_here: bool, is_allowed: impl Fn(&Path) -> bool) {
    let TrainerContract::VertexAi { output_directory, buckets, .. } = &mut plan.contract else { return };
    buckets.retain(|_, folder| is_here && is_allowed(folder));
    let notices = &mut plan.machines.notices;
    if let Some(folder) = output_directory.as_deref().and_then(|address| folder_of(address, buckets)) {
        let description = format!("is {folder} on this machine, by the server configuration");
        notices.push(MachineNotice { field: "jobDir".to_owned(), description });
        plan.job_dir = Some(folder.clone());
        *output_directory = Some(folder);
    }
    let master = (Role::Master, &mut plan.program, &mut plan.variables);
    let others = plan.replicas.iter_mut().filter_map(|group| {
        let program = group.program.as_mut()?;
        Some((group.role, program, &mut group.variables))
    });
    for (role, program, variables) in std::iter::once(master).chain(others) {
        let Found { replaced, missing } = place_program(program, variables, buckets);
        let mut add = |description| notices.push(MachineNotice { field: field(role).to_owned(), description });
        for bucket in replaced {
            let folder = buckets[&bucket].display();
            add(format!("{MOUNT}{bucket} is {folder} in arguments and variables, since the program is no container"));
        }
        for bucket in missing {
            add(format!(
                "{MOUNT}{bucket} stays as it is: this server has no folder for the bucket that the job may use \
                 (buckets in the server configuration)"
            ));
        }
    }
}

/// Folder of this machine for `address`; `None` if it is in no bucket with a folder.
fn folder_of(address: &str, buckets: &BTreeMap<String, PathBuf>) -> Option<String> {
    let rest = address.strip_prefix(SCHEME)?;
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = buckets.get(bucket)?;
    Some(format!("{}/{path}", folder.display()).trim_end_matches('/').to_owned())
}

/// Field of a training input with the program of `role`.
fn field(role: Role) -> &'static str {
    match role {
        Role::Master => "masterConfig",
        Role::Worker => "workerConfig",
        Role::ParameterServer => "parameterServerConfig",
        Role::Evaluator => "evaluatorConfig",
    }
}

fn place_program(program: &mut ProgramPlan, variables: &mut [Variable], buckets: &BTreeMap<String, PathBuf>) -> Found {
    let mut found = Found::default();
    let (texts, is_process) = match program {
        ProgramPlan::Command { argv } => (argv.iter_mut().chain(&mut []), true),
        ProgramPlan::PythonModule { args, .. } => (args.iter_mut().chain(&mut []), true),
        ProgramPlan::Container { command, args, .. } => (command.iter_mut().chain(args), false),
    };
    for text in texts.chain(variables.iter_mut().map(|variable| &mut variable.value)) {
        let placed = placed(text, buckets, &mut found);
        if is_process {
            *text = placed;
        }
    }
    if !is_process {
        // Mounted.
        found.replaced.clear();
    }
    found
}

/// `text` with the folders of buckets in place of their paths.
fn placed(text: &str, buckets: &BTreeMap<String, PathBuf>, found: &mut Found) -> String {
    let (mut written, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(MOUNT) {
        let (before, path) = rest.split_at(at);
        let name = &path[MOUNT.len()..];
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).unwrap_or(name.len());
        let bucket = &name[..end];
        written.push_str(before);
        rest = &name[end..];
        // A part of a longer path is no bucket.
        let is_inner = written.ends_with(|c: char| c.is_alphanumeric() || "._-/".contains(c));
        match buckets.get(bucket).filter(|_| !is_inner) {
            Some(folder) => {
                found.replaced.insert(bucket.to_owned());
                written.push_str(&folder.display().to_string());
            }
            None => {
                if !is_inner && !bucket.is_empty() {
                    found.missing.insert(bucket.to_owned());
                }
                written.push_str(MOUNT);
                written.push_str(bucket);
            }
        }
    }
    written.push_str(rest);
    written
}

/// Host folders of the buckets of `plan`, by their path in a container.
pub(super) fn volumes(plan: &JobPlan) -> BTreeMap<String, PathBuf> {
    let TrainerContract::VertexAi { buckets, .. } = &plan.contract else { return BTreeMap::new() };
    buckets.iter().map(|(bucket, folder)| (format!("{MOUNT}{bucket}"), folder.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_buckets_become_folders() {
        let buckets = BTreeMap::from([("data".to_owned(), "/mnt/d".into()), ("a.b-c".to_owned(), "/mnt/a".into())]);
        for (text, expected) in [
            ("/gcs/data", "/mnt/d"),
            ("/gcs/data/x y", "/mnt/d/x y"),
            ("--in=/gcs/data/x,/gcs/a.b-c/y", "--in=/mnt/d/x,/mnt/a/y"),
            ("pip install /gcs/data/p.tar.gz && python3 -m t", "pip install /mnt/d/p.tar.gz && python3 -m t"),
            ("/gcs/data2/x", "/gcs/data2/x"),
            ("/mnt/gcs/data/x", "/mnt/gcs/data/x"),
            ("/gcs/", "/gcs/"),
            ("gs://data/x", "gs://data/x"),
        ] {
            assert_eq!(placed(text, &buckets, &mut Found::default()), expected);
        }
        let mut found = Found::default();
        placed("/gcs/data /gcs/none /x/gcs/inner /gcs/", &buckets, &mut found);
        assert_eq!(found.replaced, BTreeSet::from(["data".to_owned()]));
        assert_eq!(found.missing, BTreeSet::from(["none".to_owned()]));
        assert_eq!(folder_of("gs://data/out/", &buckets).as_deref(), Some("/mnt/d/out"));
        assert_eq!(folder_of("gs://data", &buckets).as_deref(), Some("/mnt/d"));
        assert_eq!(folder_of("gs://none/out", &buckets), None);
        assert_eq!(folder_of("/data/out", &buckets), None);
    }
}
