//! A user's command as a problem: real runs, in an order chosen by the algorithms.
//!
//! The command is called like a trainer: one `--name=value` per parameter; it reports the metric through the
//! `hypertune` file, through event files in the trial's job-dir, or as a line `metric=value` on standard output.
//! Evaluations run one after another; their measured durations advance the virtual clock.
//!
//! Every evaluation is stored when it ends. A resumed run requests the same points and reads the stored results until
//! it reaches new points.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement};
use tunesmith_benchmark::problem::{CurvePoint, Draw, Evaluation, EvaluationOutcome, Problem, Profile, Quality};

use super::children::{Group, unless_ending};
use super::folder::{FolderError, parse_lines, whole_lines};
use super::optimizers::point_to_json;
use tunesmith_domain::{FinalMeasurement, Measurement, MetricFolders, final_measurement};
use tunesmith_metrics::{Collector, CollectorConfig};

const EVALUATIONS: &str = "evaluations.jsonl";
const TRIALS: &str = "trials";

pub struct CommandProblem {
    profile: Profile,
    command: String,
    /// Folder of evaluations and trial files.
    folder: PathBuf,
    stored: Mutex<Stored>,
}

struct Stored {
    file: File,
    evaluations: HashMap<String, StoredEvaluation>,
    /// Number of the next trial's folder.
    next: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredEvaluation {
    seed: u64,
    parameters: Map<String, Value>,
    values: Option<Vec<f64>>,
    reason: Option<String>,
    duration_secs: f64,
    curve: Vec<(u64, f64, f64)>,
}

impl CommandProblem {
    /// Uses `command`, run by the shell, as the objective of `statement`, with results in `folder`.
    ///
    /// # Errors
    /// [`FolderError`] if the folder is unusable or holds unreadable evaluations.
    pub fn open(command: &str, statement: ProblemStatement, folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join(EVALUATIONS);
        let io = |source| FolderError::Io { path: path.clone(), source };
        std::fs::create_dir_all(folder.join(TRIALS)).map_err(io)?;
        let file = File::options().create(true).append(true).read(true).open(&path).map_err(io)?;
        let mut evaluations = HashMap::new();
        let text = std::fs::read(&path).map_err(io)?;
        let whole = whole_lines(&text);
        if whole.len() < text.len() {
            // Remove the rest of an interrupted write.
            file.set_len(whole.len() as u64).map_err(io)?;
        }
        for evaluation in parse_lines::<StoredEvaluation>(&path, whole)? {
            evaluations.insert(key(evaluation.seed, &evaluation.parameters), evaluation);
        }
        let identity = format!("{command}\n{}", serde_json::to_string(&statement).unwrap_or_default());
        let name = format!("command-{}", content_hash(identity.as_bytes()));
        let next = std::fs::read_dir(folder.join(TRIALS)).map_err(io)?.count() + 1;
        Ok(Self {
            profile: Profile::new(name, statement, Quality::Value { best_known: None }),
            command: command.to_owned(),
            folder: folder.to_owned(),
            stored: Mutex::new(Stored { file, evaluations, next }),
        })
    }

    fn run(&self, seed: u64, point: &ParameterValues, folder: &Path) -> Result<StoredEvaluation, std::io::Error> {
        std::fs::create_dir_all(folder)?;
        // Time only the program itself, and make reported paths independent of the current directory.
        let folder = folder.canonicalize()?;
        let (stdout, metric_file) = (folder.join("stdout.log"), folder.join("metrics.jsonl"));
        let metrics = self.statement().metrics();
        let began = Instant::now();
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{} \"$@\"", self.command))
            .arg("objective")
            .args(point.iter().map(|(name, value)| format!("--{name}={value}")))
            .env("CLOUD_ML_HP_METRIC_FILE", &metric_file)
            .env("CLOUD_ML_HP_METRIC_TAG", &metrics[0].name)
            .env("TUNESMITH_BENCH_SEED", seed.to_string())
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(folder.join("stderr.log"))?);
        let (mut child, group) = Group::start(&mut command)?;
        let status = child.wait()?;
        drop(group);
        let duration_secs = began.elapsed().as_secs_f64();
        let mut evaluation = StoredEvaluation {
            seed,
            parameters: point_to_json(point),
            values: None,
            reason: None,
            duration_secs,
            curve: Vec::new(),
        };
        if !status.success() {
            evaluation.reason = Some(format!("the command ended with {status}"));
            return Ok(evaluation);
        }
        let mut values = Vec::with_capacity(metrics.len());
        for (place, metric) in metrics.iter().enumerate() {
            let config = CollectorConfig {
                attempt: 1,
                tags: vec![metric.name.clone()],
                metric_file: metric_file.clone().into(),
                event_dir: Some(folder.clone().into()),
                stdout: Some(stdout.clone().into()),
            };
            let mut measurements = Collector::new(config, &[]).finish();
            let mut folders = MetricFolders::default();
            measurements.iter().for_each(|measurement| folders.note(measurement));
            folders.retain_curves(&mut measurements);
            if place == 0 {
                evaluation.curve = curve(&measurements, &metric.name, duration_secs);
            }
            // Read each metric separately, from whichever reports contain it.
            let alone = ProblemStatement::new(self.statement().search_space().clone(), vec![metric.clone()])
                .map_err(std::io::Error::other)?;
            let last = final_measurement(&alone, FinalMeasurement::Last, &measurements);
            match last.ok().and_then(|measurement| measurement.value(&metric.name)) {
                Some(value) => values.push(value),
                None => {
                    evaluation.reason = Some(format!("it reported no finite {:?}", metric.name));
                    return Ok(evaluation);
                }
            }
        }
        evaluation.values = Some(values);
        Ok(evaluation)
    }
}

impl Problem for CommandProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, draw: Draw) -> Evaluation {
        // Locked while the command runs: concurrent evaluations would distort each other's durations.
        let mut stored = self.stored.lock();
        let key = key(draw.seed, &point_to_json(point));
        if let Some(known) = stored.evaluations.get(&key) {
            return known.clone().into();
        }
        let folder = self.folder.join(TRIALS).join(stored.next.to_string());
        stored.next += 1;
        let written = self.run(draw.seed, point, &folder).and_then(|evaluation| {
            let mut line = serde_json::to_vec(&evaluation)?;
            line.push(b'\n');
            unless_ending(|| stored.file.write_all(&line).and_then(|()| stored.file.sync_data()))?;
            Ok(evaluation)
        });
        match written {
            Ok(evaluation) => {
                stored.evaluations.insert(key, evaluation.clone());
                evaluation.into()
            }
            Err(error) => Evaluation::infeasible(format!("the command could not be run: {error}")),
        }
    }
}

impl From<StoredEvaluation> for Evaluation {
    fn from(stored: StoredEvaluation) -> Self {
        let outcome = match stored.values {
            Some(values) => {
                EvaluationOutcome::Measured { observed: values.clone(), noiseless: values, constraints: Vec::new() }
            }
            None => EvaluationOutcome::Infeasible { reason: stored.reason.unwrap_or_default() },
        };
        let point = |(step, elapsed_secs, value)| CurvePoint { step, elapsed_secs, value };
        Self { outcome, duration_secs: stored.duration_secs, curve: stored.curve.into_iter().map(point).collect() }
    }
}

/// Step, time and value of each report of `metric`, by increasing step. Reports without a time are spread evenly over
/// the trial.
fn curve(measurements: &[Measurement], metric: &str, duration_secs: f64) -> Vec<(u64, f64, f64)> {
    let mut reports: Vec<&Measurement> =
        measurements.iter().filter(|report| report.value(metric).is_some_and(f64::is_finite)).collect();
    reports.sort_by(|a, b| a.curve_order(b));
    // Of several reports for one step, the last counts.
    reports.reverse();
    reports.dedup_by_key(|report| report.step);
    reports.reverse();
    let count = reports.len() as f64;
    let point = |(place, report): (usize, &&Measurement)| {
        let spread = duration_secs * (place + 1) as f64 / count;
        let elapsed_secs = report.elapsed_secs.unwrap_or(spread).clamp(0.0, duration_secs);
        Some((u64::try_from(report.step).ok()?, elapsed_secs, report.value(metric)?))
    };
    reports.iter().enumerate().filter_map(point).collect()
}

/// Content hash of eight hexadecimal digits.
pub fn content_hash(content: &[u8]) -> String {
    hex::encode(&Sha256::digest(content)[..4])
}

fn key(seed: u64, parameters: &Map<String, Value>) -> String {
    format!("{seed} {}", Value::from(parameters.clone()))
}
