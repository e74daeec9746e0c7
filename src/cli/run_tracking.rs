//! Export of the job of `tunesmith run` to MLflow and TensorBoard, and its events for webhooks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::output::notice;
use super::results::shell_word;
use crate::composition::Application;
use tunesmith_config::HptuningConfig;
use tunesmith_domain::Job;
use tunesmith_jobs::{JobTracking, TrackingStatus};
use tunesmith_tracking::mlflow::TrackingUri;
use tunesmith_tracking::{Destinations, LiveTracking};
use tunesmith_webhooks::Webhooks;

/// Maximum time for which the end of a run waits for receivers of events.
const LAST_EVENTS: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct TrackingArgs {
    /// Export the job to this MLflow server while it runs; overrides tunesmith.mlflow.trackingUri. Credentials are
    /// MLFLOW_TRACKING_USERNAME with MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.
    #[arg(long, value_name = "URI")]
    mlflow: Option<String>,
    /// MLflow experiment; by default that of the configuration, or the project.
    #[arg(long, value_name = "NAME")]
    mlflow_experiment: Option<String>,
    /// Write event files for TensorBoard's HParams page while the job runs, in a folder with its name.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    tensorboard: Option<PathBuf>,
}

impl TrackingArgs {
    /// Checks the arguments, records them in `config`, and returns the destinations.
    pub(super) fn apply(&self, config: &mut HptuningConfig) -> anyhow::Result<Destinations> {
        let mlflow = self.mlflow.as_deref().map(TrackingUri::new).transpose().context("--mlflow")?;
        let experiment = self.mlflow_experiment.clone();
        if let Some(name) = &experiment
            && !(1..=500).contains(&name.chars().count())
        {
            anyhow::bail!("--mlflow-experiment: the name has {} characters; expected 1 to 500", name.chars().count());
        }
        if mlflow.is_some() || experiment.is_some() {
            let recorded = config.training_input.tunesmith.mlflow.get_or_insert_default();
            recorded.tracking_uri = mlflow.as_ref().map(ToString::to_string).or(recorded.tracking_uri.take());
            recorded.experiment = experiment.clone().or(recorded.experiment.take());
        }
        if self.tensorboard.is_some() && config.training_input.hyperparameters.is_none() {
            notice("no effect without hyperparameters: --tensorboard");
        }
        Ok(Destinations { mlflow, experiment, tensorboard: self.tensorboard.clone() })
    }
}

/// Export of one job.
pub(super) struct RunExport {
    tracking: Arc<LiveTracking>,
    destinations: Destinations,
    webhooks: Option<Arc<Webhooks>>,
}

impl RunExport {
    /// Prepares the export, which begins with the run of `job`.
    pub(super) fn new(application: &Application, job: &Job, destinations: Destinations) -> Self {
        let tracking = Arc::clone(&application.tracking);
        if destinations != Destinations::default() {
            tracking.set_destinations(&job.id, destinations.clone());
        }
        if let Some(webhooks) = application.webhooks.clone() {
            tokio::spawn(async move { webhooks.run().await });
        }
        Self { tracking, destinations, webhooks: application.webhooks.clone() }
    }

    /// Completes the export of a job that ended in an earlier process.
    pub(super) async fn of_finished(&self, job: &Job) {
        self.tracking.start(job);
        for error in self.tracking.finish(&job.id, true).await {
            notice(&format!("warning: the export is not complete: {error}"));
        }
        self.send_events().await;
    }

    /// Delivers the last events to webhooks.
    async fn send_events(&self) {
        let Some(webhooks) = &self.webhooks else { return };
        let pending = webhooks.drain(LAST_EVENTS).await;
        if pending > 0 {
            notice(&format!(
                "warning: {pending} events are not delivered; the next run or serve with this data folder and server \
                 configuration delivers them"
            ));
        }
    }

    /// Waits until everything was sent, unless the tracker does not respond; then prints how to send the rest.
    pub(super) async fn finish(&self, job: &Job, data_dir: &Path) {
        let errors = self.tracking.finish(&job.id, job.state.is_final()).await;
        if errors.is_empty()
            && let Ok(Some(TrackingStatus { uri, experiment, run: Some(run), .. })) = self.tracking.status(job).await
        {
            notice(&format!("exported to run {run} of experiment {experiment:?} of {uri}"));
        }
        for error in errors {
            let mut command = format!(
                "tunesmith export mlflow --data-dir {} --job {}",
                shell_word(&data_dir.display().to_string()),
                job.id
            );
            if let Some(uri) = &self.destinations.mlflow {
                command.push_str(&format!(" --tracking-uri {uri}"));
            }
            if let Some(experiment) = &self.destinations.experiment {
                command.push_str(&format!(" --experiment {}", shell_word(experiment)));
            }
            notice(&format!("warning: the export is not complete: {error}\nto send the rest: {command}"));
        }
        self.send_events().await;
    }
}
