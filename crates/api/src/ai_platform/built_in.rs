//! Built-in algorithms: images of AI Platform's registry that stand for trainers of this program.
//!
//! The images are never pulled. A job that names one runs a module of the package
//! [`BUILT_IN_TRAINERS`] instead; every other part of the job is unchanged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::prediction::FrameworkName;
use super::violations::Violations;
use super::{Int64, ReplicaConfig, ScaleTier, TrainingInput};
use tunesmith_domain::{BUILT_IN_TRAINERS, Job, JobState, ProgramPlan, TrainerContract};

/// Registry of the published images.
const REGISTRY: &str = "gcr.io/cloud-ml-algos/";

/// Packages that open addresses of object stores, by scheme.
const STORAGE: [(&str, &str); 2] = [("gs://", "gcsfs"), ("s3://", "s3fs")];

/// A built-in algorithm with a trainer.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltInAlgorithm {
    /// Name of the trainer.
    pub name: &'static str,
    /// Names of the published images, without the registry.
    images: &'static [&'static str],
    module: &'static str,
    /// Framework of the model, as in a `Version`.
    framework: &'static str,
    /// Minor version of the framework.
    runtime_version: &'static str,
    /// Requirement on the framework, in that version.
    pub requirement: &'static str,
}

/// All built-in algorithms with a trainer.
pub const BUILT_IN_ALGORITHMS: [BuiltInAlgorithm; 2] = [
    BuiltInAlgorithm {
        name: "boosted_trees",
        images: &["boosted_trees", "xgboost_dist"],
        module: "tunesmith_builtin.boosted_trees",
        framework: "XGBOOST",
        runtime_version: "3.2",
        requirement: "xgboost-cpu~=3.2.0",
    },
    BuiltInAlgorithm {
        name: "linear_learner",
        images: &["linear_learner_cpu", "linear_learner_gpu", "linear_learner"],
        module: "tunesmith_builtin.linear_learner",
        framework: "SCIKIT_LEARN",
        runtime_version: "1.9",
        requirement: "scikit-learn~=1.9.0",
    },
];

/// Output of a built-in algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuiltInAlgorithmOutput {
    /// Framework of the model: `XGBOOST` or `SCIKIT_LEARN`.
    pub framework: String,
    /// Minor version of the framework.
    pub runtime_version: String,
    /// Python version of the trainer; absent until it is installed, and if another machine installs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python_version: Option<String>,
    /// Folder of the model, with a slash at its end; absent without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_path: Option<String>,
}

impl BuiltInAlgorithm {
    /// Algorithm of `image`; `None` for images of other registries.
    ///
    /// # Errors
    /// The name of a built-in algorithm without a trainer.
    pub fn of_image(image: &str) -> Option<Result<&'static Self, &str>> {
        let name = image.strip_prefix(REGISTRY)?;
        let name = name.split(['@', ':']).next().unwrap_or_default();
        let known: &'static [Self] = &BUILT_IN_ALGORITHMS;
        Some(known.iter().find(|algorithm| algorithm.images.contains(&name)).ok_or(name))
    }

    /// Algorithm of `input`; `None` if it has none with a trainer.
    pub fn of_input(input: &TrainingInput) -> Option<&'static Self> {
        Self::of_image(&input.master_config.as_ref()?.image_uri)?.ok()
    }

    /// Algorithm whose models have `framework` and `runtime_version`, as its output states them.
    pub fn of_runtime(framework: FrameworkName, runtime_version: &str) -> Option<&'static Self> {
        let framework = match framework {
            FrameworkName::ScikitLearn => "SCIKIT_LEARN",
            FrameworkName::Xgboost => "XGBOOST",
            FrameworkName::FrameworkUnspecified | FrameworkName::Tensorflow => return None,
        };
        let known: &'static [Self] = &BUILT_IN_ALGORITHMS;
        known.iter().find(|known| (known.framework, known.runtime_version) == (framework, runtime_version))
    }

    /// Address of the published image.
    pub fn image(&self) -> String {
        format!("{REGISTRY}{}:latest", self.images[0])
    }

    /// Program of `input`, whose model goes to `job_dir`.
    pub(super) fn program(&self, input: &TrainingInput, job_dir: &str) -> ProgramPlan {
        let fixed = input.master_config.as_ref().map(|config| config.container_args.clone()).unwrap_or_default();
        let texts = || input.args.iter().chain(&fixed).map(String::as_str).chain([job_dir]);
        let storage = STORAGE.into_iter().filter(|(scheme, _)| texts().any(|text| text.contains(scheme)));
        let mut requirements = vec![self.requirement.to_owned()];
        requirements.extend(storage.map(|(_, package)| package.to_owned()));
        requirements.extend(input.tunesmith.requirements.iter().cloned());
        ProgramPlan::PythonModule {
            package_uris: vec![BUILT_IN_TRAINERS.to_owned()],
            package_path: None,
            requirements,
            module: self.module.to_owned(),
            args: fixed,
        }
    }
}

impl BuiltInAlgorithmOutput {
    /// Output of `job`, without the model; `None` unless it runs a built-in algorithm.
    pub fn of(job: &Job) -> Option<Self> {
        let image = job.training_input["masterConfig"]["imageUri"].as_str()?;
        let algorithm = BuiltInAlgorithm::of_image(image)?.ok()?;
        let is_vertex = |contract: &TrainerContract| *contract != TrainerContract::AiPlatform;
        if job.plan.as_ref().is_ok_and(|plan| is_vertex(&plan.contract)) {
            return None;
        }
        Some(Self {
            framework: algorithm.framework.to_owned(),
            runtime_version: algorithm.runtime_version.to_owned(),
            python_version: job.python_version.clone(),
            model_path: None,
        })
    }

    /// With the model of `job` itself, if it has one: a successful job without trials.
    pub(super) fn of_single_run(self, job: &Job) -> Self {
        let has_model = job.study.is_none() && job.state == JobState::Succeeded;
        let folder = job.plan.as_ref().ok().filter(|_| has_model).and_then(|plan| plan.job_dir.as_deref());
        Self { model_path: folder.map(|folder| format!("{}/model/", folder.trim_end_matches('/'))), ..self }
    }

    /// With the model of the successful trial `trial` of `job`.
    pub(super) fn of_trial(&self, job: &Job, trial: &str) -> Self {
        let folder = job.plan.as_ref().ok().and_then(|plan| plan.job_dir.as_deref());
        Self {
            model_path: folder.map(|folder| format!("{}/{trial}/model/", folder.trim_end_matches('/'))),
            ..self.clone()
        }
    }
}

/// Checks an input that names a built-in algorithm.
pub(super) fn check_built_in(input: &TrainingInput, violations: &mut Violations) {
    let Some(master) = &input.master_config else { return };
    match BuiltInAlgorithm::of_image(&master.image_uri) {
        None => return,
        Some(Err(name)) => {
            let known: Vec<&str> = BUILT_IN_ALGORITHMS.iter().map(|algorithm| algorithm.images[0]).collect();
            return violations.error(
                "masterConfig.imageUri",
                format_args!("the built-in algorithm {name:?} is not supported"),
                format_args!(
                    "{}; any other model in a container of your own, or a Python package with pythonModule",
                    known.join(", ")
                ),
            );
        }
        Some(Ok(_)) => {}
    }
    if !master.container_command.is_empty() {
        violations.error(
            "masterConfig.containerCommand",
            "is given together with a built-in algorithm",
            "args alone: the algorithm is the program",
        );
    }
    if input.tunesmith.job_dir_flag.is_some() {
        violations.error(
            "tunesmith.jobDirFlag",
            "is given together with a built-in algorithm",
            "absent: built-in algorithms take --job-dir",
        );
    }
    for (field, arguments) in [("args", &input.args), ("masterConfig.containerArgs", &master.container_args)] {
        if let Some((index, name)) = given_twice(input, arguments) {
            violations.error(
                format_args!("{field}[{index}]"),
                format_args!("--{name} is also a parameter of hyperparameters.params"),
                "a fixed value here, or a parameter, not both",
            );
        }
    }
    check_replicas(input, violations);
}

/// Position and name of the first of `arguments` that is also a parameter.
pub(super) fn given_twice<'a>(input: &TrainingInput, arguments: &'a [String]) -> Option<(usize, &'a str)> {
    let params = input.hyperparameters.as_ref().map_or(&[][..], |spec| &spec.params);
    let names = arguments.iter().enumerate().filter_map(|(index, argument)| {
        let text = argument.strip_prefix("--")?;
        Some((index, text.split_once('=').map_or(text, |(name, _)| name)))
    });
    names.into_iter().find(|(_, name)| params.iter().any(|parameter| parameter.parameter_name == *name))
}

/// Warns about replicas, of which a built-in algorithm has one.
fn check_replicas(input: &TrainingInput, violations: &mut Violations) {
    const ONE: &str = "has no effect: built-in algorithms train on one machine, with all its processors";
    let counts = [
        ("workerCount", input.worker_count),
        ("parameterServerCount", input.parameter_server_count),
        ("evaluatorCount", input.evaluator_count),
    ];
    for (field, Int64(count)) in counts {
        if count > 0 {
            violations.warning(field, ONE, "0");
        }
    }
    if matches!(input.scale_tier, Some(ScaleTier::Standard1 | ScaleTier::Premium1)) {
        violations.warning("scaleTier", format_args!("the number of workers {ONE}"), "BASIC or CUSTOM");
    }
    let has_accelerator = |config: &ReplicaConfig| config.accelerator_config.is_some();
    let is_gpu = input.master_config.as_ref().is_some_and(|master| master.image_uri.contains("_gpu"));
    if is_gpu || input.master_config.as_ref().is_some_and(has_accelerator) {
        violations.warning("masterConfig", "GPUs have no effect on built-in algorithms", "a machine without GPUs");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::ai_platform::plan::{CommandLine, job_plan};
    use crate::ai_platform::{Severity, check};

    fn input(value: &Value) -> TrainingInput {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn errors(value: &Value) -> Vec<String> {
        let found = check(&input(value)).into_iter().filter(|one| one.severity == Severity::Error);
        found.map(|one| format!("{}: {}; {}", one.field, one.message, one.allowed)).collect()
    }

    #[test]
    fn images_are_recognised_by_host_and_path() {
        let name = |image: &'static str| BuiltInAlgorithm::of_image(image).map(|found| found.map(|one| one.name));
        for tag in ["", ":latest", ":v1", "@sha256:0123"] {
            let image: &'static str = format!("gcr.io/cloud-ml-algos/boosted_trees{tag}").leak();
            assert_eq!(name(image), Some(Ok("boosted_trees")));
        }
        assert_eq!(name("gcr.io/cloud-ml-algos/linear_learner_gpu:latest"), Some(Ok("linear_learner")));
        assert_eq!(name("gcr.io/cloud-ml-algos/wide_deep_learner_cpu:latest"), Some(Err("wide_deep_learner_cpu")));
        assert_eq!(name("gcr.io/other/boosted_trees"), None);
        for algorithm in &BUILT_IN_ALGORITHMS {
            assert_eq!(BuiltInAlgorithm::of_image(&algorithm.image()), Some(Ok(algorithm)));
        }
    }

    #[test]
    fn plan_runs_the_trainer_once_with_the_packages_of_its_files() {
        let given = input(&json!({
            "scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerType": "n1-standard-4", "workerCount": "2",
            "masterConfig": {"imageUri": "gcr.io/cloud-ml-algos/xgboost_dist:latest"},
            "args": ["--training_data_path=gs://b/birds.csv"], "jobDir": "out",
            "tunesmith": {"requirements": ["pandas"]},
        }));
        let command_line = CommandLine { working_directory: PathBuf::from("/home/ada"), ..CommandLine::default() };
        let plan = job_plan(&given, &command_line).unwrap();
        let expected = ProgramPlan::PythonModule {
            package_uris: vec!["tunesmith://built-in".to_owned()],
            package_path: None,
            requirements: ["xgboost-cpu~=3.2.0", "gcsfs", "pandas"].map(str::to_owned).to_vec(),
            module: "tunesmith_builtin.boosted_trees".to_owned(),
            args: Vec::new(),
        };
        assert_eq!(plan.program, expected);
        assert!(plan.program.is_built_in());
        assert_eq!((plan.replicas.len(), plan.job_dir.as_deref()), (0, Some("/home/ada/out")));
        let warnings: Vec<String> = check(&given).into_iter().map(|one| one.field).collect();
        assert_eq!(warnings, ["workerCount"]);
        let without = TrainingInput { job_dir: String::new(), ..given };
        let error = job_plan(&without, &command_line).unwrap_err().to_string();
        assert_eq!(error, "a built-in algorithm writes its model to the job folder: give jobDir, or --job-dir");
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let with = |more: Value| {
            let mut value = json!({"masterConfig": {"imageUri": "gcr.io/cloud-ml-algos/boosted_trees"}, "jobDir": "j"});
            for (name, field) in more.as_object().unwrap() {
                value[name] = field.clone();
            }
            errors(&value)
        };
        assert_eq!(with(json!({})), [""; 0]);
        let unsupported = with(json!({"masterConfig": {"imageUri": "gcr.io/cloud-ml-algos/tab_net:latest"}}));
        assert_eq!(
            unsupported,
            ["masterConfig.imageUri: the built-in algorithm \"tab_net\" is not supported; boosted_trees, \
                 linear_learner_cpu; any other model in a container of your own, or a Python package with pythonModule"]
        );
        let params = json!([{"parameterName": "eta", "type": "DOUBLE", "maxValue": 1}]);
        let twice = json!({"args": ["--preprocess", "--eta=0.1"], "hyperparameters": {"params": params}});
        assert_eq!(
            with(twice),
            [
                "args[1]: --eta is also a parameter of hyperparameters.params; a fixed value here, or a parameter, not both"
            ]
        );
        let flag = with(json!({"tunesmith": {"jobDirFlag": "out"}}));
        assert!(flag[0].starts_with("tunesmith.jobDirFlag: is given together with a built-in algorithm"), "{flag:?}");
        let image = "gcr.io/cloud-ml-algos/boosted_trees";
        let command = with(json!({"masterConfig": {"imageUri": image, "containerCommand": ["sh"]}}));
        assert!(command[0].starts_with("masterConfig.containerCommand: is given together"), "{command:?}");
    }
}
