use std::time::Duration;

use super::*;
use crate::{ExitStatus, Program, ProgramEnd, Role};
use tunesmith_domain::TrialId;

/// An executor whose programs have all ended with an exit code of its own, and which notes what it was given.
struct Fixed {
    code: i32,
    submitted: Mutex<Vec<ExecutorJobSpec>>,
}

impl Fixed {
    fn new(code: i32) -> Arc<Self> {
        Arc::new(Self { code, submitted: Mutex::default() })
    }

    fn ids(&self) -> Vec<String> {
        self.submitted.lock().iter().map(|spec| spec.id.to_string()).collect()
    }
}

#[async_trait]
impl Executor for Fixed {
    fn capabilities(&self, _: &Placement) -> Capabilities {
        Capabilities { shares_files: self.code == 1, ..Capabilities::LOCAL }
    }

    async fn submit(&self, spec: &ExecutorJobSpec) -> Result<(), ExecutorError> {
        self.submitted.lock().push(spec.clone());
        Ok(())
    }

    async fn state(&self, id: &ExecutorJobId) -> Result<ExecutorJobState, ExecutorError> {
        let is_known = self.submitted.lock().iter().any(|spec| spec.id == *id);
        let ended = ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(self.code), stopped: None });
        Ok(if is_known { ended } else { ExecutorJobState::Unknown })
    }

    async fn changed(&self, id: &ExecutorJobId, _: &ExecutorJobState) -> Result<ExecutorJobState, ExecutorError> {
        self.state(id).await
    }

    async fn stop(&self, _: &ExecutorJobId, _: StopMode) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn forget(&self, job: &JobId) -> io::Result<()> {
        self.submitted.lock().retain(|spec| spec.id.job != *job);
        Ok(())
    }
}

fn spec(trial: u64, executor: Option<&str>) -> ExecutorJobSpec {
    let program = Program::Command { argv: vec!["true".to_owned()] };
    ExecutorJobSpec {
        id: ExecutorJobId { job: "j".parse().unwrap(), trial: Some(TrialId(trial)), attempt: 1 },
        replicas: vec![Replica::new(Role::Master, 0, program)],
        training_input: serde_json::Value::Null,
        master_is_chief: false,
        has_worker_pools: false,
        environment: BTreeMap::new(),
        working_directory: "/".into(),
        program_folders: Vec::new(),
        directory: "/nowhere".into(),
        reports: Default::default(),
        server: Default::default(),
        time_limit: None,
        grace: Duration::ZERO,
        start_port: None,
        packages: None,
        part: None,
        placement: Placement { executor: executor.map(str::to_owned), ..Placement::default() },
    }
}

fn ended(code: i32) -> ExecutorJobState {
    ExecutorJobState::Ended(ExitStatus { end: ProgramEnd::Exited(code), stopped: None })
}

#[tokio::test]
async fn job_runs_where_its_placement_names_and_is_found_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (own, east) = (Fixed::new(1), Fixed::new(2));
    let routed = |others: &[(&str, &Arc<Fixed>)]| {
        let others = others.iter().map(|(name, one)| ((*name).to_owned(), Arc::<Fixed>::clone(one) as _)).collect();
        RoutedExecutor::new("local".to_owned(), Arc::<Fixed>::clone(&own) as _, others, folder.path().join("routes"))
    };
    let executor = routed(&[("slurm", &east)]);
    let specs = [spec(1, None), spec(2, Some("local")), spec(3, Some("slurm"))];
    for spec in &specs {
        assert_eq!(executor.state(&spec.id).await.unwrap(), ExecutorJobState::Unknown);
        executor.submit(spec).await.unwrap();
    }
    assert_eq!(own.ids(), ["j-trial-1-attempt-1", "j-trial-2-attempt-1"]);
    assert_eq!(east.ids(), ["j-trial-3-attempt-1"]);
    assert_eq!(east.submitted.lock()[0].placement, Placement::default(), "the engine has no executors");
    assert!(executor.capabilities(&specs[0].placement).shares_files);
    assert!(!executor.capabilities(&specs[2].placement).shares_files);
    let error = executor.submit(&spec(4, Some("ray"))).await.unwrap_err();
    let ExecutorError::Unreachable { source, .. } = error else { panic!("its trial waits: {error:?}") };
    let reason = source.to_string();
    let expected = "names the executor \"ray\", and the executors of this server are local, slurm: add it to the server configuration";
    assert!(reason.ends_with(expected), "{reason}");
    assert_eq!(executor.state(&spec(4, None).id).await.unwrap(), ExecutorJobState::Unknown, "nothing was recorded");

    // The configuration names another executor by now.
    let restarted = routed(&[("slurm", &east)]);
    restarted.submit(&spec(3, None)).await.unwrap();
    assert_eq!(east.ids().len(), 2, "it stays where it was submitted first");
    assert_eq!(restarted.state(&specs[2].id).await.unwrap(), ended(2));
    assert_eq!(restarted.wait(&specs[0].id).await.unwrap(), ended(1));
    let without = routed(&[]);
    let ExecutorError::Unreachable { source, .. } = without.state(&specs[2].id).await.unwrap_err() else {
        panic!("its state is not known")
    };
    assert!(
        source.to_string().starts_with("it runs on the executor \"slurm\", and the executors of this server are local")
    );

    restarted.forget(&specs[2].id.job).await.unwrap();
    assert_eq!(restarted.state(&specs[2].id).await.unwrap(), ExecutorJobState::Unknown);
    assert_eq!(routed(&[]).state(&specs[2].id).await.unwrap(), ExecutorJobState::Unknown, "its record is removed");
}
