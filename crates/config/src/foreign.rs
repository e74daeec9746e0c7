//! Detection of other tuners' files by their keys, so that one error names the format instead of one per field.

use super::diagnostic::Finding;
use super::document::JobFormat;
use super::yaml::{Content, Entry, Node};

/// Error for another tool's configuration; `None` for all other files.
pub(super) fn foreign_format(tree: &Node) -> Option<Finding> {
    let Content::Mapping(entries) = &tree.content else { return None };
    let keys = Keys(entries);
    // No format below has this key.
    if keys.find(&["trainingInput"]).is_some() {
        return None;
    }
    let (entry, format, advice) = keys.format()?;
    let finding =
        Finding::error("", entry.key_span.clone(), format!("this is {format}"), "AI Platform's trainingInput");
    Some(Finding { help: Some(format!("{advice}; `tunesmith init` writes a configuration to start from")), ..finding })
}

pub(super) struct Keys<'a>(pub(super) &'a [Entry]);

impl<'a> Keys<'a> {
    /// First entry with one of the keys `names`, in either spelling.
    pub(super) fn find(&self, names: &[&str]) -> Option<&'a Entry> {
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        self.0.iter().find(|entry| names.iter().any(|name| plain(name) == plain(&entry.key)))
    }

    /// Keys of the mapping at `name`.
    fn below(&self, name: &str) -> Keys<'a> {
        match self.find(&[name]).map(|entry| &entry.value.content) {
            Some(Content::Mapping(entries)) => Keys(entries),
            _ => Keys(&[]),
        }
    }

    fn text(&self, name: &str) -> &'a str {
        match self.find(&[name]).map(|entry| &entry.value.content) {
            Some(Content::Scalar { text, .. }) => text,
            _ => "",
        }
    }

    /// Format of Vertex AI of a file with these keys.
    pub(super) fn job_format(&self) -> Option<JobFormat> {
        if self.find(&["trainingInput"]).is_some() {
            return None;
        }
        let has = |name: &str| self.find(&[name]).is_some();
        if has("studySpec") || has("trialJobSpec") {
            return Some(JobFormat::TuningJob);
        }
        if has("displayName") && (has("maxTrialCount") || has("parallelTrialCount")) {
            return Some(JobFormat::TuningJob);
        }
        match (has("jobSpec"), has("workerPoolSpecs")) {
            (true, _) => Some(JobFormat::CustomJob),
            (false, true) => Some(JobFormat::CustomJobSpec),
            (false, false) => None,
        }
    }

    /// Entry that identifies a format, the format, and the equivalent of its fields here.
    fn format(&self) -> Option<(&'a Entry, &'static str, &'static str)> {
        if let Some(format) = self.job_format() {
            let identifying = ["studySpec", "trialJobSpec", "jobSpec", "workerPoolSpecs", "displayName"];
            let entry = identifying.iter().find_map(|name| self.find(&[name]))?;
            let name = match format {
                JobFormat::TuningJob => "a HyperparameterTuningJob of Vertex AI, not a job of AI Platform",
                JobFormat::CustomJob => "a CustomJob of Vertex AI, not a job of AI Platform",
                JobFormat::CustomJobSpec => "a CustomJobSpec of Vertex AI, not a job of AI Platform",
            };
            return Some((
                entry,
                name,
                "`tunesmith run` takes it as it is, and so does the API of Vertex AI on a server",
            ));
        }
        if let Some(entry) = self.find(&["kind"]).filter(|_| {
            self.text("kind") == "Experiment"
                && (self.text("apiVersion").starts_with("kubeflow.org/")
                    || self.below("spec").find(&["trialTemplate"]).is_some())
        }) {
            return Some((entry, "an Experiment of Katib", "`tunesmith import katib` makes a configuration of it"));
        }
        if let Some(entry) = self.find(&["kind"]).filter(|_| self.text("kind") == "OptimizationJob") {
            let advice = "`tunesmith import kubeflow` makes a configuration of it";
            return Some((entry, "an OptimizationJob of Kubeflow", advice));
        }
        if let Some(entry) = self.find(&["studyConfig"]) {
            return Some((
                entry,
                "the configuration of a study, whose clients run the trials, not of a job",
                "create the study with `tunesmith studies create`",
            ));
        }
        if let Some(entry) = self.find(&["method"]).filter(|_| self.find(&["parameters"]).is_some()) {
            return Some((
                entry,
                "a sweep of Weights & Biases",
                "`tunesmith import wandb` makes a configuration of it",
            ));
        }
        let class_names = |entry: &&Entry| matches!(&entry.value.content, Content::List(items) if items.iter().any(|item| item.has_key("class_name")));
        if let Some(entry) = self.below("hyperparameters").find(&["space"]).filter(class_names) {
            return Some((entry, "the state of KerasTuner", "hyperparameters.space becomes hyperparameters.params"));
        }
        let distribution = |entry: &&Entry| match &entry.value.content {
            Content::Mapping(fields) => Keys(fields).text("name").ends_with("Distribution"),
            _ => false,
        };
        if let Some(entry) = self.0.iter().find(distribution) {
            return Some((
                entry,
                "a set of distributions of Optuna",
                "each distribution becomes one of hyperparameters.params",
            ));
        }
        if let Some(entry) = self.find(&["hydra"]).filter(|_| self.below("hydra").find(&["sweeper"]).is_some()) {
            return Some((entry, "a configuration of Hydra", "hydra.sweeper.params becomes hyperparameters.params"));
        }
        let experiment = |entry: &&Entry| match &entry.value.content {
            Content::Mapping(fields) => {
                let fields = Keys(fields);
                fields.find(&["run"]).is_some() && fields.find(&["config", "stop", "num_samples"]).is_some()
            }
            _ => false,
        };
        if let Some(entry) = self.0.iter().find(experiment) {
            let advice =
                "config becomes hyperparameters.params, num_samples maxTrials, and run the command of the trainer";
            return Some((entry, "an experiment of Ray Tune", advice));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn refused(text: &str, line: usize, format: &str) {
        let errors = crate::parse("c.yaml", text).unwrap_err();
        let [error] = errors.diagnostics() else { panic!("{errors}") };
        assert!(error.message.contains(format) && error.line == line, "{errors}");
        assert!(error.help.as_ref().is_some_and(|help| help.contains("tunesmith init")), "{errors}");
    }

    #[test]
    fn formats_of_other_tuners_get_one_error_each() {
        let vertex = "displayName: d\nmaxTrialCount: 3\nstudySpec:\n  metrics: [{metricId: loss, goal: MINIMIZE}]\ntrialJobSpec: {workerPoolSpecs: []}\n";
        refused(vertex, 3, "Vertex AI");
        refused("display_name: d\nmax_trial_count: 3\nstudy_spec: {}\n", 3, "Vertex AI");
        refused("max_trial_count: 3\nparallel_trial_count: 1\ntrial_job_spec: {}\n", 3, "Vertex AI");
        refused("{\"displayName\": \"d\", \"maxTrialCount\": 3}", 1, "Vertex AI");
        refused("apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nspec: {}\n", 2, "Katib");
        refused("kind: OptimizationJob\nspec: {}\n", 1, "Kubeflow");
        refused("program: t.py\nmethod: bayes\nparameters: {x: {min: 0, max: 1}}\n", 2, "Weights & Biases");
        refused(
            "{\"hyperparameters\": {\"space\": [{\"class_name\": \"Float\", \"config\": {}}], \"values\": {}}}",
            1,
            "KerasTuner",
        );
        refused("x: {name: FloatDistribution, attributes: {low: 0, high: 1}}\n", 1, "Optuna");
        refused("hydra:\n  sweeper: {params: {x: range(1, 2)}}\n", 1, "Hydra");
        refused("a:\n  run: PPO\n  stop: {done: true}\n  config: {lr: 1}\n", 1, "Ray Tune");
        refused("studyConfig: {metrics: []}\n", 1, "study");
    }

    #[test]
    fn other_unknown_fields_are_reported_one_by_one() {
        let errors = crate::parse("c.yaml", "displayName: d\nmethod: x\nkind: Experiment\n").unwrap_err();
        assert_eq!(errors.diagnostics().len(), 3, "{errors}");
    }
}
