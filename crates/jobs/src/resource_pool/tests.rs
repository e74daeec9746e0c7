use tunesmith_domain::Accelerators;

use super::*;

fn pool(cpus: u64, devices: &[(&str, Option<&str>)], limits: RunningLimits) -> Arc<ResourcePool> {
    let device = |(id, kind): &(&str, Option<&str>)| Device { id: (*id).to_owned(), kind: kind.map(str::to_owned) };
    let capacity = Capacity {
        milli_cpus: Some(cpus * 1000),
        memory_bytes: None,
        devices: Some(devices.iter().map(device).collect()),
    };
    let limits = PoolLimits { running: limits, ..PoolLimits::default() };
    ResourcePool::new(PoolSettings { capacity, limits, ..PoolSettings::default() })
}

fn gpus(kind: Option<&str>, count: u32) -> Resources {
    Resources { accelerators: Some(Accelerators { kind: kind.map(str::to_owned), count }), ..Resources::default() }
}

fn cpus(count: u32) -> Resources {
    Resources { milli_cpus: Some(count * 1000), ..Resources::default() }
}

fn claim(job: &str, principal: Option<&str>, replicas: &[Resources]) -> Claim {
    Claim {
        job: match job.split_once(':') {
            Some((project, id)) => JobId::new(project, id).unwrap(),
            None => job.parse().unwrap(),
        },
        trial: None,
        principal: principal.map(str::to_owned),
        executor: None,
        replicas: replicas.to_vec(),
        trials: 1,
        since: Timestamp::UNIX_EPOCH,
    }
}

/// Takes a grant that must be available already.
fn take(pending: &mut PendingGrant) -> Grant {
    pending.receiver.try_recv().unwrap()
}

fn reason(pending: &PendingGrant) -> String {
    pending.reason().map(|waiting| waiting.reason).unwrap_or_default()
}

#[test]
fn devices_are_never_shared_and_waiting_requests_say_what_they_need() {
    let pool = pool(8, &[("0", None), ("1", None)], RunningLimits::default());
    let mut requests: Vec<PendingGrant> =
        (0..4).map(|_| pool.request(claim("tune", None, &[gpus(Some("v100"), 1)]))).collect();
    let first = take(&mut requests[0]);
    let second = take(&mut requests[1]);
    assert_eq!((first.devices(0), second.devices(0)), (Some(vec!["0".to_owned()]), Some(vec!["1".to_owned()])));
    assert_eq!(reason(&requests[2]), "needs 1 GPU of type v100; 0 of 2 GPUs are free");
    assert_eq!(pool.waiting(&"tune".parse().unwrap()).len(), 2);
    drop(second);
    assert_eq!(take(&mut requests[2]).devices(0), Some(vec!["1".to_owned()]));
    // The previous grant was dropped immediately, so the last request gets it.
    let last = take(&mut requests[3]);
    assert_eq!(last.devices(0), Some(vec!["1".to_owned()]));
    // A program without accelerators sees none.
    let mut none = pool.request(claim("other", None, &[cpus(1)]));
    assert_eq!(take(&mut none).devices(0), Some(Vec::new()));
}

#[test]
fn kinds_are_respected_and_devices_without_kind_serve_all() {
    let devices = [("a", Some("v100")), ("b", Some("t4")), ("c", None)];
    let pool = pool(8, &devices, RunningLimits::default());
    let mut all = pool.request(claim("all", None, &[gpus(None, 1), gpus(Some("t4"), 2)]));
    let grant = take(&mut all);
    assert_eq!(grant.devices(0), Some(vec!["a".to_owned()]));
    assert_eq!(grant.devices(1), Some(vec!["b".to_owned(), "c".to_owned()]));
    drop(grant);
    let impossible = pool.impossible(None, &[gpus(Some("t4"), 3)]).unwrap();
    let expected = "needs 3 GPUs of type t4, and this server has 1 of type v100 and 1 of type t4 and 1 of any type: ";
    assert!(impossible.starts_with(expected), "{impossible}");
    let impossible = pool.impossible(None, &[cpus(5), cpus(4)]).unwrap();
    assert!(impossible.starts_with("needs 9 cpus, and this server has 8 cpus: ask for less"), "{impossible}");
    assert_eq!(pool.impossible(None, &[gpus(None, 3), cpus(8)]), None);
}

#[test]
fn large_request_is_not_overtaken_by_later_ones_of_the_same_resources() {
    let pool = pool(4, &[("0", None)], RunningLimits::default());
    let small = take(&mut pool.request(claim("first", None, &[cpus(1)])));
    let mut large = pool.request(claim("large", None, &[cpus(4)]));
    let mut later = pool.request(claim("later", None, &[cpus(1)]));
    let mut gpu = pool.request(claim("gpu", None, &[gpus(None, 1)]));
    assert_eq!(reason(&large), "needs 4 cpus; 3 of 4 cpus are free");
    assert_eq!(reason(&later), "earlier requests for the same resources come first");
    let _gpu = take(&mut gpu);
    drop(small);
    let large = take(&mut large);
    assert_eq!(reason(&later), "needs 1 cpu; 0 of 4 cpus are free");
    drop(large);
    let _later = take(&mut later);
}

#[test]
fn withdrawn_request_does_not_hold_up_others() {
    let pool = pool(4, &[], RunningLimits::default());
    let _small = take(&mut pool.request(claim("first", None, &[cpus(1)])));
    let large = pool.request(claim("large", None, &[cpus(4)]));
    let mut later = pool.request(claim("later", None, &[cpus(1)]));
    assert!(later.reason().is_some());
    drop(large);
    let _later = take(&mut later);
}

#[test]
fn limits_hold_per_study_principal_project_and_server() {
    let limits = RunningLimits { cluster: Some(4), project: Some(3), principal: Some(2), study: Some(1) };
    let pool = pool(100, &[], limits);
    let mut granted = Vec::new();
    let mut wants = |job: &str, principal| {
        let mut pending = pool.request(claim(job, principal, &[cpus(1)]));
        let reason = reason(&pending);
        if reason.is_empty() {
            granted.push(take(&mut pending));
        }
        reason.strip_prefix("the limit on running trials ").unwrap_or(&reason).to_owned()
    };
    assert_eq!(wants("p:one", Some("ann")), "");
    assert_eq!(wants("p:one", Some("ann")), "of the study of job p/one is reached: 1 of 1 run");
    assert_eq!(wants("p:two", Some("ann")), "");
    assert_eq!(wants("p:three", Some("ann")), "of principal ann is reached: 2 of 2 run");
    assert_eq!(wants("p:three", None), "");
    assert_eq!(wants("p:four", Some("bob")), "of project p is reached: 3 of 3 run");
    assert_eq!(wants("q:four", Some("bob")), "");
    assert_eq!(wants("r:five", Some("eve")), "of this server is reached: 4 of 4 run");
}

#[test]
fn request_that_waits_for_a_limit_lets_others_pass() {
    let limits = RunningLimits { study: Some(1), ..RunningLimits::default() };
    let pool = pool(2, &[], limits);
    let _running = take(&mut pool.request(claim("one", None, &[cpus(1)])));
    let waits = pool.request(claim("one", None, &[cpus(1)]));
    assert_eq!(waits.reason().unwrap().kind, WaitKind::Limit);
    let _other = take(&mut pool.request(claim("two", None, &[cpus(1)])));
}

#[test]
fn resources_of_a_program_whose_run_failed_stay_reserved_for_it() {
    let pool = pool(8, &[("0", None)], RunningLimits::default());
    let id = ExecutorJobId { job: "tune".parse().unwrap(), trial: Some(TrialId(1)), attempt: 1 };
    let mut grant = take(&mut pool.request(claim("tune", None, &[gpus(None, 1)])));
    let mut waits = pool.request(claim("other", None, &[gpus(None, 1)]));
    grant.begin_use(&id);
    drop(grant);
    assert!(waits.reason().is_some());
    assert_eq!(pool.reserved(&id.job), std::slice::from_ref(&id));
    let mut adopted = pool.adopt(&id, claim("tune", None, &[gpus(None, 1)]), None);
    assert_eq!((adopted.devices(0), pool.reserved(&id.job)), (Some(vec!["0".to_owned()]), Vec::new()));
    adopted.begin_use(&id);
    adopted.end_use();
    drop(adopted);
    let _other = take(&mut waits);
}

#[test]
fn resources_of_running_programs_are_reserved_and_adopted_after_a_restart() {
    let pool = pool(8, &[("0", None), ("1", None)], RunningLimits::default());
    let id = |trial| ExecutorJobId { job: "tune".parse().unwrap(), trial: Some(TrialId(trial)), attempt: 1 };
    let devices = |id: &str| Some(vec![vec![id.to_owned()]]);
    for (trial, device) in [(1, "1"), (2, "0")] {
        pool.reserve(id(trial), claim("tune", None, &[gpus(None, 1)]), devices(device));
    }
    let mut new = pool.request(claim("new", None, &[gpus(None, 1)]));
    assert!(new.reason().is_some());
    let adopted = pool.adopt(&id(1), claim("tune", None, &[gpus(None, 1)]), None);
    assert_eq!(adopted.devices(0), Some(vec!["1".to_owned()]));
    pool.release_reserved(&id(1));
    assert!(new.reason().is_some());
    pool.release_reserved(&id(2));
    assert_eq!(take(&mut new).devices(0), Some(vec!["0".to_owned()]));
}

#[test]
fn load_names_what_is_in_use() {
    let pool = pool(8, &[("0", None), ("1", None)], RunningLimits::default());
    let mut first = pool.request(claim("tune", None, &[gpus(None, 1), cpus(3)]));
    let grant = take(&mut first);
    let mut waits = pool.request(claim("other", None, &[cpus(6)]));
    waits.set_trials(2);
    let load = pool.load();
    assert_eq!((load.running, load.waiting, load.milli_cpus, load.memory_bytes), (1, 2, 3000, 0));
    let users: Vec<Option<String>> =
        load.devices.iter().map(|load| load.job.as_ref().map(ToString::to_string)).collect();
    assert_eq!(users, [grant.devices(0).map(|_| claim("tune", None, &[]).job.to_string()), None]);
    drop(grant);
    let load = pool.load();
    assert_eq!((load.running, load.waiting, load.milli_cpus), (1, 0, 6000));
}

#[test]
fn resources_of_an_executor_that_counts_them_itself_are_not_those_of_this_machine() {
    let device = Device { id: "0".to_owned(), kind: None };
    let pool = ResourcePool::new(PoolSettings {
        capacity: Capacity { milli_cpus: Some(4000), devices: Some(vec![device]), ..Capacity::default() },
        scheduled: BTreeSet::from([Some("slurm".to_owned())]),
        limits: PoolLimits {
            running: RunningLimits { cluster: Some(3), ..RunningLimits::default() },
            ..PoolLimits::default()
        },
        ..PoolSettings::default()
    });
    let on = |executor: Option<&str>, replicas: &[Resources]| {
        pool.request(Claim { executor: executor.map(str::to_owned), ..claim("job", None, replicas) })
    };
    assert_eq!(pool.impossible(Some("slurm"), &[cpus(64), gpus(None, 8)]), None);
    assert!(pool.impossible(None, &[cpus(64)]).is_some() && pool.impossible(Some("local"), &[cpus(64)]).is_some());
    let here = take(&mut on(None, &[cpus(4), gpus(None, 1)]));
    assert_eq!(here.devices(1), Some(vec!["0".to_owned()]));
    let mut there = on(Some("slurm"), &[cpus(64), gpus(None, 8)]);
    let there = take(&mut there);
    assert_eq!(there.devices(0), None, "its scheduler hands out the devices");
    let waiting = on(Some("local"), &[cpus(1)]);
    assert!(reason(&waiting).contains("cpu"), "{}", reason(&waiting));
    let _third = take(&mut on(Some("slurm"), &[]));
    // Limits apply to all executors.
    let limited = on(Some("slurm"), &[]);
    assert!(reason(&limited).contains("limit"), "{}", reason(&limited));
}

#[test]
fn limit_of_an_executor_holds_for_its_trials_alone() {
    let limits =
        BTreeMap::from([("gpu".to_owned(), NonZeroU32::MIN), ("here".to_owned(), NonZeroU32::new(2).unwrap())]);
    let pool = ResourcePool::new(PoolSettings {
        executor_limits: limits,
        default_executor: "here".to_owned(),
        ..PoolSettings::default()
    });
    assert!(!pool.is_unlimited());
    let on = |executor: Option<&str>| Claim { executor: executor.map(str::to_owned), ..claim("j", None, &[cpus(1)]) };
    let mut first = pool.request(on(Some("gpu")));
    let first = take(&mut first);
    let mut second = pool.request(on(Some("gpu")));
    let waiting = second.reason().unwrap();
    assert_eq!(waiting.kind, WaitKind::ExecutorLimit);
    assert_eq!(waiting.reason, "the limit on running trials of the executor gpu is reached: 1 of 1 run");
    // The server's executor, by name or default, and unlimited ones.
    let held: Vec<Grant> = [None, Some("here"), Some("other"), Some("other")]
        .into_iter()
        .map(|executor| take(&mut pool.request(on(executor))))
        .collect();
    assert!(reason(&pool.request(on(None))).contains("the executor here is reached: 2 of 2 run"));
    let load = pool.load().executors;
    assert_eq!(load[0], ExecutorLoad { name: "gpu".to_owned(), running: 1, limit: 1 });
    assert_eq!((load[1].running, load[1].limit), (2, 2));
    drop(first);
    drop(take(&mut second));
    drop(held);
}

#[tokio::test]
async fn raised_limit_grants_what_waits() {
    let limits = RunningLimits { cluster: Some(1), ..RunningLimits::default() };
    let pool = pool(100, &[], limits);
    let _first = pool.request(claim("a", None, &[cpus(1)])).granted().await;
    let mut second = pool.request(claim("b", None, &[cpus(1)]));
    assert!(second.reason().is_some());
    pool.set_limits(PoolLimits { queue_deadline: Some(Duration::from_secs(9)), ..PoolLimits::default() });
    second.granted().await;
    assert_eq!(pool.queue_deadline(), Some(Duration::from_secs(9)));
    assert_eq!(pool.load().limits, RunningLimits::default());
}
