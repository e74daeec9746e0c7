//! Leases of jobs and of running trials that waited for a lock of another server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tunesmith_domain::JobId;
use tunesmith_store::{
    Claim, DatabaseAddress, JobClaims, OpenMode, PostgresClaims, PostgresStore, RunningTrial, RunningTrials,
};
use tunesmith_testing::paced::until;
use tunesmith_testing::postgres::Cluster;

/// A session in a transaction that holds a lock, as that of a server which was paused.
struct Holder {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Holder {
    /// Runs `lock`, a statement with one row as its result, in a transaction.
    fn start(cluster: &Cluster, lock: &str) -> Self {
        let mut command = cluster.client("psql");
        command.args(["-X", "-A", "-t", "-q", "tuning"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut holder = Self { process, input, output: BufReader::new(output) };
        holder.row(&format!("BEGIN; {lock};"));
        holder
    }

    fn row(&mut self, sql: &str) -> String {
        writeln!(self.input, "{sql}").unwrap();
        let mut row = String::new();
        self.output.read_line(&mut row).unwrap();
        row.trim().to_owned()
    }

    /// Waits until another session waits for a lock, releases it and returns the time just before.
    fn release_when_waited_for(mut self, cluster: &Cluster) -> String {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        until(|| cluster.query("tuning", waiting) == "1");
        let time = self.row("SELECT clock_timestamp(); COMMIT;");
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
        time
    }
}

async fn claims_of(cluster: &Cluster, owner: &str) -> Arc<PostgresClaims> {
    let address = DatabaseAddress::from_str(&cluster.database_address("tuning")).unwrap();
    let store = Arc::new(PostgresStore::open(&address, OpenMode::Create).await.unwrap());
    Arc::new(PostgresClaims::new(store, owner.to_owned(), owner.to_owned(), Duration::from_hours(1)))
}

/// Whether the lease of the only row of `table` began after `time`.
fn begins_after(cluster: &Cluster, table: &str, time: &str) -> bool {
    cluster.query("tuning", &format!("SELECT until > timestamptz '{time}' + interval '1 hour' FROM {table}")) == "t"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_of_a_job_begins_when_a_paused_owner_lets_it_go() {
    let cluster = Cluster::start();
    cluster.create_database("tuning");
    let (paused, other) = (claims_of(&cluster, "paused").await, claims_of(&cluster, "other").await);
    let job: JobId = "p/j".parse().unwrap();
    let former = paused.claim(&job).await.unwrap().unwrap();
    JobClaims::release(&*paused, &former).await.unwrap();
    let lock = "SELECT job FROM claims FOR SHARE";

    let holder = Holder::start(&cluster, lock);
    let claiming = tokio::spawn({
        let (other, job) = (Arc::clone(&other), job.clone());
        async move { other.claim(&job).await.unwrap() }
    });
    let freed = tokio::task::block_in_place(|| holder.release_when_waited_for(&cluster));
    let claim: Claim = claiming.await.unwrap().unwrap();
    assert!(claim.is_taken_over);
    assert!(begins_after(&cluster, "claims", &freed));

    let holder = Holder::start(&cluster, lock);
    let renewing = tokio::spawn(async move { JobClaims::renew(&*other, &[claim]).await.unwrap().len() });
    let freed = tokio::task::block_in_place(|| holder.release_when_waited_for(&cluster));
    assert_eq!(renewing.await.unwrap(), 1);
    assert!(begins_after(&cluster, "claims", &freed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_of_a_running_trial_begins_when_it_is_admitted() {
    let cluster = Cluster::start();
    cluster.create_database("tuning");
    let server = claims_of(&cluster, "server").await;
    let trial = RunningTrial { job: "p/j".parse().unwrap(), principal: None };

    let holder = Holder::start(&cluster, "SELECT 'locked' FROM pg_advisory_xact_lock(x'546e5274'::bigint)");
    let admitting = tokio::spawn({
        let (server, trial) = (Arc::clone(&server), trial.clone());
        async move { server.admit(1, &trial, Arc::new(|_| true)).await.unwrap().is_admitted }
    });
    let freed = tokio::task::block_in_place(|| holder.release_when_waited_for(&cluster));
    assert!(admitting.await.unwrap());
    assert!(begins_after(&cluster, "running_trials", &freed));

    let holder = Holder::start(&cluster, "SELECT server FROM running_trials FOR UPDATE");
    let renewing = tokio::spawn(async move { RunningTrials::renew(&*server, &[(1, trial)]).await });
    let freed = tokio::task::block_in_place(|| holder.release_when_waited_for(&cluster));
    assert_eq!(renewing.await.unwrap().unwrap(), []);
    assert!(begins_after(&cluster, "running_trials", &freed));
}
