//! `tunesmith local predict`: predicts with the files of a model in a Python of the user, without a server.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};

use super::instances::{InstanceFiles, print_predictions};
use tunesmith_prediction::{Framework, RunnerSettings};

#[derive(Debug, Args)]
pub(super) struct LocalPredictArgs {
    /// Folder with the files of the model: model.joblib, model.pkl or model.bst, or those of a custom prediction routine.
    #[arg(long, value_name = "DIR")]
    model_dir: PathBuf,
    /// Framework of the model [default: that of the files].
    #[arg(long, value_name = "FRAMEWORK")]
    framework: Option<FrameworkArg>,
    /// Class of a custom prediction routine, MODULE.CLASS. Its module is found in the current folder or on PYTHONPATH.
    #[arg(long, value_name = "CLASS")]
    prediction_class: Option<String>,
    #[command(flatten)]
    instances: InstanceFiles,
    /// Name of a signature; passed to custom prediction routines, without effect on other models.
    #[arg(long, value_name = "NAME")]
    signature_name: Option<String>,
    /// Interpreter that has the packages of the model [default: python3 on the PATH].
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Print the whole response, as a server sends it.
    #[arg(long)]
    response: bool,
}

/// Frameworks by their names in gcloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FrameworkArg {
    ScikitLearn,
    Xgboost,
    Tensorflow,
}

impl FrameworkArg {
    pub(super) fn framework(self) -> Framework {
        match self {
            Self::ScikitLearn => Framework::ScikitLearn,
            Self::Xgboost => Framework::Xgboost,
            Self::Tensorflow => Framework::Tensorflow,
        }
    }
}

pub(super) fn predict(args: &LocalPredictArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.model_dir.is_dir(), "--model-dir: {} is not a folder", args.model_dir.display());
    let request = args.instances.request(args.signature_name.as_deref())?;
    let settings = RunnerSettings {
        model_dir: std::path::absolute(&args.model_dir)?,
        framework: args.framework.map(FrameworkArg::framework).unwrap_or_default(),
        prediction_class: args.prediction_class.clone().unwrap_or_default(),
        once: true,
        ..RunnerSettings::default()
    };
    let python = args.python.clone().unwrap_or_else(|| "python3".into());
    let mut command = Command::new(&python);
    command.args(settings.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{} cannot be started", python.display()))?;
    // The interpreter reads the whole request before it writes.
    let sent = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&request));
    let output = child.wait_with_output().context("the prediction cannot be read")?;
    if !output.status.success() || output.stdout.is_empty() {
        bail!("{} ended with {} before it answered", python.display(), output.status);
    }
    sent.context("the instances cannot be sent to the interpreter")?;
    print_predictions(&output.stdout, args.response)?;
    Ok(ExitCode::SUCCESS)
}
