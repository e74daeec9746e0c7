//! Arguments and environment of a trainer, identical on every executor.
//!
//! The user's arguments come first, then `--<parameter>=<value>` for each parameter, by name. On AI Platform, the user's
//! arguments have `{trial}` replaced by the trial number and `{parameters.NAME}` by a value, after which no parameter is a
//! flag, and `--job-dir=<jobDir>/<trialId>` follows; on Vertex AI, `AIP_` variables name that folder. The environment has the service's variables, those of the
//! user, and `TUNESMITH_` variables for HTTP reports. The executor sets `TF_CONFIG` and `CLUSTER_SPEC`, since replica
//! addresses are unknown here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tunesmith_domain::{Document, Job, JobPlan, MachinePlan, ProgramPlan, StudyId, TrainerContract, Trial, Variable};
use tunesmith_executor::reports::{ReportSources, metric_file};
use tunesmith_executor::{
    AgentPackages, ExecutorJobId, ExecutorJobSpec, METRIC_FILE_VARIABLE, Placement, Program, Replica, Role,
    ServerAccess,
};

use crate::allowed_folders::JobFolder;
use crate::bucket_folders;
use crate::resource_pool::Grant;

/// Inputs for starting a program.
pub(super) struct Launch<'a> {
    pub(super) job: &'a Job,
    pub(super) plan: &'a JobPlan,
    /// Job folder of the plan.
    pub(super) folder: &'a JobFolder,
    /// `None` for a job without hyperparameters.
    pub(super) trial: Option<&'a Trial>,
    pub(super) id: ExecutorJobId,
    /// Folder of the attempt.
    pub(super) directory: PathBuf,
    /// Python interpreter of the environment with the packages.
    pub(super) python: Option<&'a Path>,
    /// Packages installed by an agent; `python` is then [`ENVIRONMENT_PYTHON`](tunesmith_executor::ENVIRONMENT_PYTHON).
    pub(super) packages: Option<&'a AgentPackages>,
    /// Base address for HTTP reports.
    pub(super) endpoint: &'a str,
    /// Trial token for HTTP reports.
    pub(super) token: String,
    pub(super) grant: &'a Grant,
}

impl Launch<'_> {
    pub(super) fn spec(self) -> ExecutorJobSpec {
        let trial_job_dir = job_dir(self.plan, self.trial);
        let args = self.args(trial_job_dir.as_deref());
        let machines = &self.plan.machines;
        let environment = self.environment();
        let mut replicas = vec![self.replica(Role::Master, 0, &self.plan.program, &args)];
        replicas[0].resources = machines.resources.clone();
        replicas[0].variables = expanded_variables(&self.plan.variables, &environment);
        for group in &self.plan.replicas {
            let program = group.program.as_ref().unwrap_or(&self.plan.program);
            let variables = expanded_variables(&group.variables, &environment);
            replicas.extend((0..group.count).map(|index| Replica {
                resources: group.resources.clone(),
                variables: variables.clone(),
                ..self.replica(group.role, index, program, &args)
            }));
        }
        for (index, replica) in replicas.iter_mut().enumerate() {
            replica.devices = self.grant.devices(index);
        }
        ExecutorJobSpec {
            replicas,
            training_input: match &self.plan.contract {
                TrainerContract::AiPlatform => self.job.training_input.clone(),
                TrainerContract::VertexAi { .. } => vertex_job_spec(self.job).clone(),
            },
            master_is_chief: self.plan.master_is_chief,
            has_worker_pools: self.is_vertex(),
            environment,
            working_directory: self.plan.working_directory.clone(),
            program_folders: local_job_dir(self.plan, self.trial).into_iter().collect(),
            reports: report_sources(self.plan, self.trial, Some(self.folder)),
            server: ServerAccess { address: self.endpoint.to_owned(), token: self.token.clone() },
            time_limit: self.plan.trial_time_limit,
            grace: self.plan.grace,
            start_port: None,
            packages: self.packages.cloned(),
            part: None,
            placement: placement(machines),
            id: self.id,
            directory: self.directory,
        }
    }

    fn args(&self, trial_job_dir: Option<&str>) -> Vec<String> {
        let mut args: Vec<String> = self.expanded(&self.plan.args).collect();
        let parameters = self.trial.iter().flat_map(|trial| &trial.parameters);
        if let TrainerContract::VertexAi { flags, .. } = &self.plan.contract {
            args.extend(parameters.map(|(name, value)| format!("--{}={value}", flags.get(name).unwrap_or(name))));
            return args;
        }
        if !self.names_parameters() {
            args.extend(parameters.map(|(name, value)| format!("--{name}={value}")));
        }
        let flag = self.plan.job_dir_flag.as_deref().unwrap_or("job-dir");
        args.extend(trial_job_dir.map(|dir| format!("--{flag}={dir}")));
        args
    }

    fn is_vertex(&self) -> bool {
        matches!(self.plan.contract, TrainerContract::VertexAi { .. })
    }

    /// User arguments with values of the trial inserted; unchanged on Vertex AI and in a job without hyperparameters.
    fn expanded<'a>(&'a self, arguments: &'a [String]) -> impl Iterator<Item = String> + use<'a> {
        let trial = self.trial.filter(|_| !self.is_vertex());
        arguments.iter().map(move |argument| trial.map_or_else(|| argument.clone(), |trial| expand(argument, trial)))
    }

    /// Whether arguments of a program name parameters, which are then no flags.
    fn names_parameters(&self) -> bool {
        let programs = self.plan.replicas.iter().filter_map(|group| group.program.as_ref());
        let texts = std::iter::once(&self.plan.program).chain(programs).flat_map(|program| match program {
            ProgramPlan::PythonModule { args, .. } => args.iter().chain(&[]),
            ProgramPlan::Command { argv } => argv.iter().chain(&[]),
            ProgramPlan::Container { command, args, .. } => command.iter().chain(args),
        });
        self.plan.args.iter().chain(texts).any(|text| {
            let names = self.trial.iter().flat_map(|trial| trial.parameters.keys());
            text.contains(PARAMETER) && names.into_iter().any(|name| text.contains(&format!("{PARAMETER}{name}}}")))
        })
    }

    fn replica(&self, role: Role, index: u32, program: &ProgramPlan, args: &[String]) -> Replica {
        let program = match program {
            ProgramPlan::PythonModule { module, args: fixed, .. } => {
                let python = self.python.or(self.plan.machines.python.as_deref());
                let python = python.map_or_else(|| "python3".to_owned(), |path| path.display().to_string());
                let mut argv = vec![python, "-m".to_owned(), module.clone()];
                argv.extend(self.expanded(fixed));
                argv.extend_from_slice(args);
                Program::Command { argv }
            }
            ProgramPlan::Command { argv } => {
                Program::Command { argv: self.expanded(argv).chain(args.iter().cloned()).collect() }
            }
            ProgramPlan::Container { image, command, args: fixed } => Program::Container {
                image: image.clone(),
                command: self.expanded(command).collect(),
                args: self.expanded(fixed).chain(args.iter().cloned()).collect(),
                mounts: self.plan.local_job_dir().into_iter().chain([self.directory.clone()]).collect(),
            },
        };
        let volumes = match &program {
            Program::Container { .. } => bucket_folders::volumes(self.plan),
            Program::Command { .. } => BTreeMap::new(),
        };
        Replica { volumes, ..Replica::new(role, index, program) }
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from([
            ("CLOUD_ML_HP_METRIC_TAG".to_owned(), self.plan.metric_tag.clone()),
            (METRIC_FILE_VARIABLE.to_owned(), metric_file(&self.directory).display().to_string()),
            // Python buffers output to files by default.
            ("PYTHONUNBUFFERED".to_owned(), "1".to_owned()),
        ]);
        let (project, name) = self.job.id.parts();
        if let TrainerContract::VertexAi { output_directory, .. } = &self.plan.contract {
            let region = self.job.training_input["region"].as_str().unwrap_or_default();
            environment.extend([
                ("CLOUD_ML_JOB_ID".to_owned(), self.job.id.vertex_id().to_owned()),
                ("CLOUD_ML_PROJECT_ID".to_owned(), project.to_owned()),
                ("CLOUD_ML_REGION".to_owned(), region.to_owned()),
            ]);
            let folder = output_directory.as_deref().map(|folder| of_trial(folder, self.trial));
            for (variable, part) in
                [("AIP_MODEL_DIR", "model"), ("AIP_CHECKPOINT_DIR", "checkpoints"), ("AIP_TENSORBOARD_LOG_DIR", "logs")]
            {
                environment.extend(folder.iter().map(|folder| (variable.to_owned(), format!("{folder}/{part}/"))));
            }
        } else {
            environment.extend([
                ("CLOUD_ML_JOB_ID".to_owned(), name.to_owned()),
                ("CLOUD_ML_JOB".to_owned(), self.job.training_input.to_string()),
            ]);
        }
        if let Some(trial) = self.trial {
            environment.extend([
                ("CLOUD_ML_TRIAL_ID".to_owned(), trial.id.to_string()),
                ("TUNESMITH_ENDPOINT".to_owned(), self.endpoint.to_owned()),
                ("TUNESMITH_STUDY".to_owned(), study_name(self.job)),
                ("TUNESMITH_TRIAL".to_owned(), format!("{}/trials/{}", study_name(self.job), trial.id)),
                ("TUNESMITH_TOKEN".to_owned(), self.token.clone()),
            ]);
        }
        environment
    }
}

/// The specification of a job of Vertex AI, as given; null if it is missing.
fn vertex_job_spec(job: &Job) -> &Document {
    let given = &job.training_input["tunesmith"]["vertex"];
    given.get("trialJobSpec").unwrap_or(&given["jobSpec"])
}

/// Values of `variables`, in which `$(NAME)` stands for an earlier one or one of `environment`, and `$$(NAME)` for `$(NAME)`.
/// A reference to an unknown variable stays as written.
fn expanded_variables(variables: &[Variable], environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for Variable { name, value } in variables {
        let (mut expanded, mut rest) = (String::with_capacity(value.len()), value.as_str());
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at..];
            let reference = |text: &str| {
                let name = text.strip_prefix("$(")?.split_once(')')?.0;
                Some((name.to_owned(), name.len() + "$()".len()))
            };
            let known = |name: &str| values.get(name).or_else(|| environment.get(name));
            if let Some((_, length)) = rest.strip_prefix('$').and_then(reference) {
                expanded.push_str(&rest[1..=length]);
                rest = &rest[length + 1..];
            } else if let Some((name, length)) = reference(rest)
                && let Some(value) = known(&name)
            {
                expanded.push_str(value);
                rest = &rest[length..];
            } else {
                expanded.push('$');
                rest = &rest[1..];
            }
        }
        expanded.push_str(rest);
        values.insert(name.clone(), expanded);
    }
    values
}

/// Beginning of the placeholder of a parameter.
const PARAMETER: &str = "{parameters.";

/// Replaces `{trial}` by the number of `trial`, `{parameters.NAME}` by the value of a parameter, and the same in two braces
/// by itself in one. Other braces stay, so JSON arguments pass unchanged.
fn expand(argument: &str, trial: &Trial) -> String {
    let value = |name: &str| match name.strip_prefix("parameters.") {
        Some(name) => trial.parameters.get(name).map(ToString::to_string),
        None => (name == "trial").then(|| trial.id.to_string()),
    };
    let (mut text, mut rest) = (String::with_capacity(argument.len()), argument);
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let inner = |opening: &str, closing: &str| {
            let (name, after) = rest.strip_prefix(opening)?.split_once(closing)?;
            value(name).map(|value| (name, value, after))
        };
        if let Some((name, _, after)) = inner("{{", "}}") {
            text.push_str(&format!("{{{name}}}"));
            rest = after;
        } else if let Some((_, value, after)) = inner("{", "}") {
            text.push_str(&value);
            rest = after;
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}

/// Placement of the programs of a job.
pub(super) fn placement(machines: &MachinePlan) -> Placement {
    let MachinePlan { executor, queue, options, .. } = machines;
    Placement { executor: executor.clone(), queue: queue.clone(), options: options.clone() }
}

/// Report sources of the program of `trial`, or of a job without hyperparameters. Event files are read in `folder`, the
/// job folder of `plan`, if given.
pub(super) fn report_sources(plan: &JobPlan, trial: Option<&Trial>, folder: Option<&JobFolder>) -> ReportSources {
    let here = match folder {
        Some(JobFolder::Here(here)) => Some(here),
        _ => None,
    };
    ReportSources {
        tag: plan.metric_tag.clone(),
        further_tags: plan.further_tags.clone(),
        stdout: plan.metric_from_stdout,
        metric_folder: plan.metric_folder.clone(),
        event_dir: match (folder, here) {
            (_, Some(here)) => Some(here.of(trial.map(|trial| trial.id)).path()),
            // An agent reads them on its machine.
            (Some(JobFolder::Elsewhere), None) => local_job_dir(plan, trial),
            _ => None,
        },
        event_dir_without_links: here.is_some_and(|here| here.is_without_links),
        event_user: here.and_then(|here| here.user.clone()),
        event_closed: here.map(|here| Arc::clone(here.of(None).closed())).unwrap_or_default(),
        event_url: job_dir(plan, trial).filter(|_| matches!(folder, Some(JobFolder::Objects(_)))),
    }
}

/// Folder for models and events of `trial`, or of the job.
fn job_dir(plan: &JobPlan, trial: Option<&Trial>) -> Option<String> {
    let job_dir = plan.job_dir.as_deref()?;
    Some(match trial {
        Some(_) => of_trial(job_dir, trial),
        None => job_dir.to_owned(),
    })
}

/// Folder of `trial` below `folder`, or `folder` itself; without a slash at its end.
fn of_trial(folder: &str, trial: Option<&Trial>) -> String {
    let folder = folder.trim_end_matches('/');
    trial.map_or_else(|| folder.to_owned(), |trial| format!("{folder}/{}", trial.id))
}

fn local_job_dir(plan: &JobPlan, trial: Option<&Trial>) -> Option<PathBuf> {
    let job_dir = plan.local_job_dir()?;
    Some(match trial {
        Some(trial) => job_dir.join(trial.id.to_string()),
        None => job_dir,
    })
}

/// Resource name of a job's study.
pub(super) fn study_name(job: &Job) -> String {
    let (project, id) = job.id.parts();
    format!("projects/{project}/locations/{}/studies/{id}", StudyId::JOBS_LOCATION)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use tunesmith_algorithms::problem::{ParameterValue, TrialId};

    use super::*;
    use crate::resource_pool::{Capacity, Claim, Device, PoolSettings, ResourcePool};
    use tunesmith_domain::{
        Accelerators, JobFields, JobState, MachinePlan, NewTrial, ReplicaPlan, Resources, TrialStart,
    };

    fn job() -> Job {
        let plan = plan(ProgramPlan::Command { argv: vec![] });
        let fields = JobFields::new("census_1".parse().unwrap(), plan, Timestamp::UNIX_EPOCH);
        let training_input = serde_json::json!({"region": "r"});
        Job::restore(JobFields { state: JobState::Running, training_input, ..fields })
    }

    fn plan(program: ProgramPlan) -> JobPlan {
        JobPlan {
            max_trials: 1,
            max_parallel_trials: 1,
            max_failed_trials: 0,
            metric_tag: "acc".into(),
            further_tags: Vec::new(),
            metric_from_stdout: false,
            metric_folder: None,
            job_dir_flag: None,
            program,
            replicas: vec![ReplicaPlan {
                role: Role::Worker,
                count: 2,
                program: None,
                variables: Vec::new(),
                resources: Resources { milli_cpus: Some(500), ..Resources::default() },
            }],
            args: vec!["--data=d".into()],
            working_directory: "/w".into(),
            job_dir: Some("/models/".into()),
            master_is_chief: false,
            contract: TrainerContract::default(),
            variables: Vec::new(),
            priority: 0,
            max_wait_time: None,
            max_running_time: None,
            trial_time_limit: None,
            grace: Duration::from_secs(1),
            max_lost_attempts: 3,
            continues_from_checkpoints: false,
            machines: MachinePlan { queue: Some("gpu".into()), ..MachinePlan::default() },
            principal: None,
        }
    }

    fn trial() -> Trial {
        Trial::new(NewTrial {
            id: TrialId(7),
            parameters: [
                ("lr".to_owned(), ParameterValue::Double(1e-5)),
                ("batch".to_owned(), ParameterValue::Discrete(32.0)),
                ("layers".to_owned(), ParameterValue::Integer(2)),
            ]
            .into(),
            origin: None,
            fallback_reason: None,
            fixed_parameters: Vec::new(),
            client_id: "c".into(),
            start: TrialStart::Given,
            create_time: Timestamp::UNIX_EPOCH,
            request_key: None,
        })
        .unwrap()
    }

    #[test]
    fn only_the_placeholder_of_the_trial_is_replaced() {
        for (argument, expanded) in [
            ("--output-dir=out/{trial}", "--output-dir=out/7"),
            ("{trial}{trial}-{trial}", "77-7"),
            ("{{trial}}", "{trial}"),
            ("{{trial}}/{trial}", "{trial}/7"),
            (r#"{"trial": 1, "a": {"b": "{x}"}}"#, r#"{"trial": 1, "a": {"b": "{x}"}}"#),
            ("--lr={parameters.lr}", "--lr=1e-5"),
            ("{parameters.batch}/{parameters.none}", "32/{parameters.none}"),
            ("{{parameters.lr}} {", "{parameters.lr} {"),
            ("{ trial } {} {{}} {Trial} ${HOME} {job}", "{ trial } {} {{}} {Trial} ${HOME} {job}"),
        ] {
            assert_eq!(expand(argument, &trial()), expanded);
        }
    }

    #[test]
    fn arguments_have_the_published_order_and_form() {
        let job = job();
        let plan = plan(ProgramPlan::PythonModule {
            package_uris: vec![],
            package_path: None,
            requirements: vec![],
            module: "trainer.task".into(),
            args: vec![],
        });
        let trial = trial();
        let id = ExecutorJobId { job: job.id.clone(), trial: Some(trial.id), attempt: 1 };
        let device = Device { id: "GPU-7".into(), kind: None };
        let capacity = Capacity { devices: Some(vec![device]), ..Capacity::default() };
        let pool = ResourcePool::new(PoolSettings { capacity, ..PoolSettings::default() });
        let claim = Claim {
            job: job.id.clone(),
            trial: None,
            principal: None,
            executor: None,
            replicas: vec![Resources {
                accelerators: Some(Accelerators { kind: None, count: 1 }),
                ..Resources::default()
            }],
            trials: 1,
            since: Timestamp::UNIX_EPOCH,
        };
        let grant = pool.adopt(&id, claim, Some(vec![vec!["GPU-7".into()]]));
        let folder = JobFolder::Elsewhere;
        let spec = Launch {
            folder: &folder,
            grant: &grant,
            job: &job,
            plan: &plan,
            trial: Some(&trial),
            id,
            directory: "/a".into(),
            python: Some(Path::new("/env/bin/python")),
            packages: None,
            endpoint: "http://127.0.0.1:1",
            token: "t".into(),
        }
        .spec();
        let Program::Command { argv } = &spec.replicas[0].program else { panic!("not a command") };
        assert_eq!(
            argv.join(" "),
            "/env/bin/python -m trainer.task --data=d --batch=32 --layers=2 --lr=1e-5 --job-dir=/models/7"
        );
        assert_eq!(spec.replicas.iter().map(|replica| replica.index).collect::<Vec<_>>(), [0, 0, 1]);
        let devices = spec.replicas.iter().map(|replica| replica.devices.clone()).collect::<Vec<_>>();
        assert_eq!(devices, [Some(vec!["GPU-7".to_owned()]), Some(vec![]), Some(vec![])]);
        assert_eq!(spec.replicas[1].resources.milli_cpus, Some(500));
        assert_eq!(spec.placement.queue.as_deref(), Some("gpu"));
        assert_eq!(spec.environment["CLOUD_ML_TRIAL_ID"], "7");
        assert_eq!(spec.environment["CLOUD_ML_HP_METRIC_FILE"], "/a/metrics/output.metrics");
        assert_eq!(spec.environment["TUNESMITH_TRIAL"], "projects/local/locations/jobs/studies/census_1/trials/7");
    }
}
