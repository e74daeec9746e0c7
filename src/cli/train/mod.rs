//! `tunesmith train`: from a CSV file to a tuned, saved model of a built-in algorithm.
//!
//! Converts the file to the published data rules, writes a training input, and runs it as `tunesmith run` does.

mod data;
mod input;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, ValueEnum};
use serde_json::Value;
use tunesmith_algorithms::rounded::Rounded;

use self::data::{Data, TargetType};
use self::input::{Metric, Tuning};
use super::folder_args::DEFAULT_DATA_DIR;
use super::logging::LogFormat;
use super::output::{notice, print};
use super::results::replace_file;
use super::run::{self, RunArgs};
use tunesmith_api::ai_platform::{BUILT_IN_ALGORITHMS, BuiltInAlgorithm};

/// Maximum size of a JSON file of a trainer; a guess, far above its evaluation.
const MAX_JSON_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// Built-in algorithm: boosted trees of XGBoost, or a linear model of scikit-learn.
    #[arg(value_enum)]
    algorithm: Algorithm,
    /// CSV file with a header row.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    data: PathBuf,
    /// Column to predict. All other columns are features.
    #[arg(long, value_name = "COLUMN")]
    target: String,
    /// Number of trials of the hyperparameter search; 0 trains once, with the algorithm's defaults.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=100_000))]
    tune: i32,
    /// Folder for the model, the data and the report; created. By default, named after the data and the algorithm.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Whether the target is a class or a number. By default, found in the data.
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    target_type: Option<TargetType>,
    /// Metric of the validation data that the search improves. By default, accuracy for classes and rmse for numbers.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Whether the metric is to be large or small. By default, as usual for the metric.
    #[arg(long, value_enum)]
    goal: Option<Goal>,
    /// Number of concurrent trials.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    parallel: u64,
    /// Seed of the splits of the data, the training and the search.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..1 << 31))]
    seed: u64,
    /// Data folder with jobs, trials and logs.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR, value_hint = clap::ValueHint::DirPath)]
    data_dir: PathBuf,
    /// Arguments for the algorithm, such as --max_depth=3; not tuned then.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Goal {
    Maximize,
    Minimize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Algorithm {
    BoostedTrees,
    LinearLearner,
}

impl Algorithm {
    fn built_in(self) -> &'static BuiltInAlgorithm {
        const ALL: &[BuiltInAlgorithm] = &BUILT_IN_ALGORITHMS;
        match self {
            Self::BoostedTrees => &ALL[0],
            Self::LinearLearner => &ALL[1],
        }
    }
}

/// Parser of the arguments of `run`.
#[derive(Debug, Parser)]
struct RunCommand {
    #[command(flatten)]
    args: RunArgs,
}

/// Files of a training below its output folder.
struct Output {
    folder: PathBuf,
}

impl Output {
    fn job(&self) -> PathBuf {
        self.folder.join("job.json")
    }

    /// Refuses a folder with a finished training; one that was interrupted is resumed.
    fn check(&self) -> anyhow::Result<()> {
        let job = self.job();
        if !job.exists() {
            return Ok(());
        }
        if read_json(&job)?["state"] == "SUCCEEDED" {
            bail!("--output {}: it has the model of an earlier training; name another folder", self.folder.display());
        }
        Ok(())
    }
}

pub(super) fn run(args: &TrainArgs, log_format: LogFormat) -> anyhow::Result<ExitCode> {
    let algorithm = args.algorithm.built_in();
    let output = Output { folder: args.output.clone().unwrap_or_else(|| default_output(&args.data, algorithm.name)) };
    output.check()?;
    fs::create_dir_all(&output.folder).with_context(|| format!("--output {}", output.folder.display()))?;
    let folder = fs::canonicalize(&output.folder)?;
    let data = Data::convert(&args.data, &args.target, args.target_type, &folder)?;
    notice(&data.description(&args.target));
    let metric = Metric::new(args.algorithm, &data, args.metric.as_deref(), args.goal)?;
    let tuning = (args.tune > 0).then_some(Tuning { trials: args.tune, parallel: args.parallel });
    let input = input::training_input(args.algorithm, &data, &metric, tuning, args.seed, &args.arguments, &folder);
    let config = output.folder.join(format!("{}.json", algorithm.name));
    let text = serde_json::to_string_pretty(&input)?;
    replace_file(&config, |file| Ok(std::io::Write::write_all(file, format!("{text}\n").as_bytes())?))?;

    let words: [OsString; 9] = [
        "run".into(),
        "--config".into(),
        config.into(),
        "--data-dir".into(),
        args.data_dir.clone().into(),
        "--output".into(),
        output.job().into(),
        "--seed".into(),
        args.seed.to_string().into(),
    ];
    let RunCommand { args: run_args } = RunCommand::try_parse_from(words)?;
    let code = run::run(run_args, log_format)?;
    let job = match output.job().exists() {
        true => read_json(&output.job())?,
        false => return Ok(code),
    };
    if job["state"] != "SUCCEEDED" {
        return Ok(code);
    }
    conclude(args, &job, &data)?;
    #[cfg(feature = "console")]
    if args.tune > 0 {
        write_report(args, &output, &job)?;
    }
    Ok(code)
}

/// Prints the metrics of the best model, and where it is.
fn conclude(args: &TrainArgs, job: &Value, data: &Data) -> anyhow::Result<()> {
    let result = &job["trainingOutput"];
    let best = if args.tune > 0 { &result["trials"][0] } else { result };
    let Some(model) = best["builtInAlgorithmOutput"]["modelPath"].as_str() else {
        bail!("no trial succeeded; their logs have the reason");
    };
    let model = Path::new(model);
    let artifacts = model.with_file_name("artifacts");
    let evaluation = read_json(&artifacts.join("evaluation.json"))?;
    let mut text = String::new();
    for (split, what) in [("validation", "validation data"), ("test", "test data, which no trial has used")] {
        if let Some(metrics) = evaluation["splits"][split].as_object() {
            let metrics = metrics.iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
            let shown: Vec<String> = metrics.map(|(name, value)| format!("{name} {}", Rounded(value))).collect();
            text.push_str(&format!("{what}: {}\n", shown.join(", ")));
        }
    }
    text.push_str(&format!("model: {}\n", model.display()));
    if data.classes > 0 && args.algorithm == Algorithm::BoostedTrees {
        text.push_str(&format!("classes by number: {}\n", artifacts.join("metadata.json").display()));
    }
    print(&text)?;
    Ok(())
}

/// Writes the report of the job beside its model.
#[cfg(feature = "console")]
fn write_report(args: &TrainArgs, output: &Output, job: &Value) -> anyhow::Result<()> {
    #[derive(Debug, Parser)]
    struct ReportCommand {
        #[command(flatten)]
        args: super::report::ReportArgs,
    }
    let words: [OsString; 6] = [
        "report".into(),
        job["jobId"].as_str().unwrap_or_default().into(),
        "--data-dir".into(),
        args.data_dir.clone().into(),
        "--out".into(),
        output.folder.join("report.html").into(),
    ];
    super::report::run(&ReportCommand::try_parse_from(words)?.args)?;
    Ok(())
}

/// Output folder named after the data file and the algorithm, in the current folder.
fn default_output(data: &Path, algorithm: &str) -> PathBuf {
    let stem = data.file_stem().and_then(|stem| stem.to_str()).unwrap_or("data");
    PathBuf::from(format!("{stem}-{algorithm}"))
}

/// Reads a JSON file that a program may have written.
fn read_json(path: &Path) -> anyhow::Result<Value> {
    let bytes = tunesmith_files::RootedPath::from(path.to_owned()).read(MAX_JSON_BYTES);
    let bytes = bytes.with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not JSON", path.display()))
}
