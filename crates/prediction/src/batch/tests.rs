//! Batch predictions with workers of the system's Python and models of its standard library.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tunesmith_domain::{BatchPrediction, Job, JobFields, JobId, JobPlan};
use tunesmith_jobs::{BatchError, BatchPredictions, BatchRun};
use tunesmith_store::{MemoryStore, Store};

use super::*;
use crate::tests::{Fixture, TIMES};

/// Doubles numbers; fails for texts, ends its process for null, and hangs for 99.
const DOUBLES: &str = "
import os, time
class Model:
    @classmethod
    def from_path(cls, folder):
        return cls()
    def predict(self, instances):
        print('call', len(instances))
        if None in instances:
            os._exit(3)
        while 99 in instances:
            time.sleep(1)
        return [instance * 2 + 0 for instance in instances]
";

struct BatchFixture {
    fixture: Fixture,
    store: Arc<dyn Store>,
}

impl BatchFixture {
    async fn new() -> Self {
        let fixture = Fixture::new(TIMES);
        fixture.create("v1", fixture.routine("doubles", DOUBLES)).await;
        Self { fixture, store: Arc::new(MemoryStore::new()) }
    }

    fn root(&self) -> &Path {
        self.fixture.folder.path()
    }

    fn request(&self, paths: &[&str]) -> BatchRequest {
        let path = |path: &str| self.root().join(path).display().to_string();
        BatchRequest {
            model: BatchModel::Named { model: "m".to_owned(), version: None },
            input_format: InputFormat::Json,
            output_format: OutputFormat::Json,
            input_paths: paths.iter().map(|name| path(name)).collect(),
            output_path: path("out"),
            batch_size: Some(4),
            max_workers: Some(2),
        }
    }

    async fn submit(&self, id: &str, request: BatchRequest) -> BatchRun {
        let (plan, _) = self.fixture.models.plan_batch("p", request).await.unwrap();
        let prediction = BatchPrediction { input: Value::Null, plan, notices: Vec::new(), counts: Default::default() };
        let id = JobId::new("p", id).unwrap();
        let plan = JobPlan::of_prediction("/".into(), None);
        let fields = JobFields::new(id, plan, jiff::Timestamp::UNIX_EPOCH);
        let job = Job::restore(JobFields { prediction: Some(prediction), ..fields });
        self.store.create_job(job.clone(), None).await.unwrap();
        let (output, worker_output) = (self.root().join("stdout.log"), self.root().join("stderr.log"));
        BatchRun { job, store: Arc::clone(&self.store), output, worker_output }
    }

    async fn run(&self, run: &BatchRun) -> Result<PredictionCounts, BatchError> {
        let models = &self.fixture.models;
        models.prepare(run).await?;
        BatchPredictions::run(models, run).await?;
        models.end(&run.job).await;
        let job = self.store.job(&run.job.id).await.unwrap();
        Ok(job.prediction.as_ref().unwrap().counts)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join("out").join(name)).unwrap()
    }

    fn outputs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root().join("out")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn every_line_is_a_prediction_or_an_error() {
    let fixture = BatchFixture::new().await;
    let input = fixture.root().join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a"), "1\r\n\"x\"\n[1\n3\nnull\n\n{}\n4\n5\n6\n7").unwrap();
    fs::write(input.join("b"), "10\n11\n").unwrap();
    let run = fixture.submit("j", fixture.request(&["in"])).await;
    let counts = fixture.run(&run).await.unwrap();
    assert_eq!((counts.predictions, counts.errors), (8, 4));
    assert!(counts.worker_time_ms > 0);
    assert_eq!(fixture.read("prediction.results-00000-of-00002"), "2\n6\n8\n10\n12\n14\n");
    assert_eq!(fixture.read("prediction.results-00001-of-00002"), "20\n22\n");
    let errors = fixture.read("prediction.errors-00000-of-00002");
    let errors: Vec<Value> = errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = input.join("a").display().to_string();
    assert_eq!(
        (&errors[0]["line"], &errors[0]["offset"], &errors[0]["file"]),
        (&json!("\"x\""), &json!(3), &json!(file))
    );
    let texts: Vec<&str> = errors.iter().map(|error| error["error"].as_str().unwrap()).collect();
    assert!(texts[0].starts_with("Prediction failed: "), "{texts:?}");
    assert!(texts[1].starts_with("the line is not JSON: "), "{texts:?}");
    assert!(texts[2].starts_with("the worker ended (exit status: 3)"), "{texts:?}");
    assert!(texts[3].starts_with("Prediction failed: unsupported operand"), "{texts:?}");
    let statistics = fixture.read(STATISTICS);
    assert_eq!(statistics.lines().count(), 4, "{statistics}");
    assert!(statistics.lines().all(|line| line.starts_with("('") && line.ends_with(", 1)")), "{statistics}");
    let expected = [
        "prediction.errors-00000-of-00002",
        STATISTICS,
        "prediction.results-00000-of-00002",
        "prediction.results-00001-of-00002",
    ];
    assert_eq!(fixture.outputs(), expected);
    let log = fs::read_to_string(fixture.root().join("stdout.log")).unwrap();
    assert!(log.ends_with("Job completed successfully.\n"), "{log}");
    assert!(fs::read_to_string(fixture.root().join("stderr.log")).unwrap().contains("call 4\n"));
    // The results of another job are kept.
    let second = fixture.submit("k", fixture.request(&["in"])).await;
    let error = fixture.run(&second).await.unwrap_err().to_string();
    assert!(error.contains("/out has the results of another batch prediction"), "{error}");
}

#[tokio::test]
async fn interrupted_job_continues_after_its_finished_shards() {
    let fixture = BatchFixture::new().await;
    for name in ["a", "b", "c"] {
        fs::write(fixture.root().join(name), "1\n2\n").unwrap();
    }
    let request = fixture.request(&["a", "b", "c"]);
    let run = fixture.submit("j", request).await;
    fixture.run(&run).await.unwrap();
    let plan = plan_of(&run.job).unwrap();
    let documents = &fixture.fixture.models.0.services.documents;
    // A finished shard with another result is not predicted again. One without a stored result is, over its files.
    let stored = ShardResult { predictions: 7, ..ShardResult::default() };
    documents.remove(KIND, &plan.uid).await.unwrap();
    let file = |name: &str| shards::InputFile { path: fixture.root().join(name).display().to_string(), size: 4 };
    let inputs = Inputs::new(vec![file("a"), file("b"), file("c")]);
    documents.put(KIND, &plan.uid, 0, encoded(&inputs).unwrap()).await.unwrap();
    documents.put(KIND, &plan.uid, 2, encoded(&stored).unwrap()).await.unwrap();
    let out = fixture.root().join("out");
    fs::write(out.join("prediction.results-00001-of-00003"), "kept\n").unwrap();
    fs::write(out.join("prediction.results-00002-of-00003"), "half").unwrap();
    fs::write(out.join("prediction.errors-00002-of-00003"), "old").unwrap();
    fs::write(out.join(format!(".prediction.{}.other.x", plan.uid)), "half").unwrap();
    let counts = fixture.run(&run).await.unwrap();
    assert_eq!((counts.predictions, counts.errors), (11, 0));
    assert_eq!(fixture.read("prediction.results-00001-of-00003"), "kept\n");
    assert_eq!(fixture.read("prediction.results-00002-of-00003"), "2\n4\n");
    assert_eq!(fixture.outputs().len(), 4, "{:?}", fixture.outputs());
    fixture.fixture.models.forget(&run.job).await.unwrap();
    assert_eq!(documents.part(KIND, &plan.uid, 0).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_job_keeps_finished_shards_and_leaves_no_temporary_files() {
    let fixture = BatchFixture::new().await;
    fs::write(fixture.root().join("a"), "1\n2\n").unwrap();
    fs::write(fixture.root().join("b"), "\"x\"\n3\n4\n5\n99\n").unwrap();
    let request = BatchRequest { max_workers: Some(1), ..fixture.request(&["a", "b"]) };
    let run = Arc::new(fixture.submit("j", request).await);
    let models = &fixture.fixture.models;
    models.prepare(&run).await.unwrap();
    let work = tokio::spawn({
        let (models, run) = (models.clone(), Arc::clone(&run));
        async move { BatchPredictions::run(&models, &run).await }
    });
    let is_temporary = |name: &String| name.starts_with(".prediction.");
    // Results and errors of the second shard are being written.
    while fixture.outputs().iter().filter(|name| is_temporary(name)).count() < 2 {
        tokio::task::yield_now().await;
    }
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
    models.end(&run.job).await;
    while fixture.outputs().iter().any(is_temporary) {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.outputs(), ["prediction.results-00000-of-00002"]);
    assert_eq!(fixture.read("prediction.results-00000-of-00002"), "2\n4\n");
    let job = fixture.store.job(&run.job.id).await.unwrap();
    let counts = job.prediction.as_ref().unwrap().counts;
    assert_eq!((counts.predictions, counts.errors), (2, 0));
}

#[tokio::test]
async fn changed_input_missing_files_and_a_deleted_version_fail_the_job() {
    let fixture = BatchFixture::new().await;
    fs::write(fixture.root().join("a"), "1\n").unwrap();
    let run = fixture.submit("j", fixture.request(&["none"])).await;
    let error = fixture.run(&run).await.unwrap_err().to_string();
    assert!(error.ends_with("/none does not exist"), "{error}");
    let run = fixture.submit("k", fixture.request(&["*.json"])).await;
    let error = fixture.run(&run).await.unwrap_err().to_string();
    assert!(error.ends_with("*.json matches no file"), "{error}");
    let run = fixture.submit("l", fixture.request(&["a"])).await;
    fixture.fixture.models.prepare(&run).await.unwrap();
    fs::write(fixture.root().join("a"), "1\n2\n").unwrap();
    let error = BatchPredictions::run(&fixture.fixture.models, &run).await.unwrap_err().to_string();
    assert!(error.ends_with("it has 4 bytes, and had 2 at the start of the job"), "{error}");
    let run = fixture.submit("m", fixture.request(&["a"])).await;
    fixture.fixture.models.delete_version("p", "m", "v1").await.unwrap();
    let error = fixture.run(&run).await.unwrap_err().to_string();
    assert!(error.contains("v1"), "{error}");
    let refused = fixture.fixture.models.plan_batch("p", fixture.request(&["a"])).await.unwrap_err();
    assert_eq!(refused.code, tunesmith_domain::Code::FailedPrecondition, "{}", refused.message);
    let without_paths = BatchRequest { input_paths: Vec::new(), ..fixture.request(&[]) };
    let refused = fixture.fixture.models.plan_batch("p", without_paths).await.unwrap_err();
    assert_eq!(refused.code, tunesmith_domain::Code::InvalidArgument);
    let huge = BatchRequest { batch_size: Some(0), ..fixture.request(&["a"]) };
    let refused = fixture.fixture.models.plan_batch("p", huge).await.unwrap_err();
    assert!(refused.message.contains("0 is not allowed; allowed: 1 to 10000"), "{}", refused.message);
}
