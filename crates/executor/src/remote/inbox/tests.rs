use super::*;
use crate::ProgramEnd;
use crate::logs::LogStream;
use crate::remote::messages::LogPiece;
use tunesmith_domain::TrialId;

fn id() -> ExecutorJobId {
    ExecutorJobId { job: "j".parse().unwrap(), trial: Some(TrialId(3)), attempt: 1 }
}

fn piece(offset: u64, bytes: &str) -> AgentReport {
    let position = LogPosition { task: "master-0".to_owned(), stream: LogStream::Stdout, offset };
    AgentReport { logs: vec![LogPiece { position, removed: 0, bytes: bytes.into() }], ..AgentReport::default() }
}

#[test]
fn repeated_part_of_a_log_has_no_effect_and_a_gap_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, job) = (Inbox::new(folder.path().join("agents")), folder.path().join("job"));
    let attempt = job.join("trials/3/attempt-1");
    fs::create_dir_all(&attempt).unwrap();
    fs::create_dir_all(inbox.attempt(&id())).unwrap();
    let next = |report: &AgentReport| inbox.receive(&AgentId::from(&id()), &job, report).unwrap().logs[0].offset;
    assert_eq!(next(&piece(0, "abc")), 3);
    assert_eq!(next(&piece(0, "abc")), 3);
    assert_eq!(next(&piece(1, "bcde")), 5);
    assert_eq!(next(&piece(7, "x")), 5, "the gap is named");
    assert_eq!(next(&piece(2, "c")), 5);
    assert_eq!(next(&piece(5, "")), 5);
    assert_eq!(fs::read_to_string(attempt.join("stdout.log")).unwrap(), "abcde");
}

#[test]
fn log_above_its_quota_keeps_its_head_and_tail_and_what_was_removed_on_the_node_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Inbox::new(folder.path().join("agents")).with_log_quota(Some(128 << 10));
    let job = folder.path().join("job");
    fs::create_dir_all(job.join("trials/3/attempt-1")).unwrap();
    fs::create_dir_all(inbox.attempt(&id())).unwrap();
    let agent = AgentId::from(&id());
    let send = |offset: u64, removed: u64, bytes: &[u8]| {
        let position = LogPosition { task: "master-0".to_owned(), stream: LogStream::Stdout, offset };
        let logs = vec![LogPiece { position, removed, bytes: bytes.to_vec() }];
        inbox.receive(&agent, &job, &AgentReport { logs, ..AgentReport::default() }).unwrap().logs[0].offset
    };
    let line = |number: usize| format!("line {number:011}\n");
    let text: String = (0..16_384).map(line).collect();
    for (index, piece) in text.as_bytes().chunks(32 << 10).enumerate() {
        let offset = index * (32 << 10);
        assert_eq!(send(offset as u64, 0, piece), (offset + piece.len()) as u64);
    }
    let name: crate::logs::LogName = "trial-3.attempt-1.master-0.stdout".parse().unwrap();
    let log = || crate::logs::logs(&job, Some(3)).unwrap().remove(0);
    assert_eq!(log().size_bytes, text.len() as u64);
    assert!(log().space_bytes <= 96 << 10, "{}", log().space_bytes);
    let read = |offset| crate::logs::read(&job, &name, crate::logs::LogStart::At(offset), 16 << 10).unwrap().unwrap();
    assert!(text.starts_with(&read(0).text) && !read(0).text.is_empty());
    assert!(text.ends_with(&read(text.len() as u64 - 4096).text));
    // What the node has removed is not sent, and a report may be repeated.
    let end = text.len() as u64;
    assert_eq!(send(end + 500, 400, b"late"), end, "more is missing than was removed");
    for _ in 0..2 {
        assert_eq!(send(end + (1 << 20), 1 << 20, b"late"), end + (1 << 20) + 4);
    }
    let gap = read(end);
    let removed = gap.next_offset - end;
    assert_eq!(gap.text, format!("\n[{removed} bytes of this log were removed, since it exceeded a quota]\n"));
    assert!(removed > (1 << 20) - 8192 && removed <= 1 << 20, "{removed}");
    assert!(read(gap.next_offset).text.ends_with("late"));
    let file = fs::read(job.join("trials/3/attempt-1/stdout.log")).unwrap();
    assert!(file.ends_with(b"late") && file.len() as u64 == end + (1 << 20) + 4);
}

#[test]
fn first_end_stays_and_immediate_stop_is_not_softened() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = Inbox::new(folder.path().to_owned());
    assert!(!inbox.request_stop(&id(), StopMode::Graceful).unwrap(), "it is not open");
    fs::create_dir_all(inbox.attempt(&id())).unwrap();
    fs::write(inbox.attempt(&id()).join("spec.json"), "{}").unwrap();
    assert!(inbox.request_stop(&id(), StopMode::Immediate).unwrap());
    assert!(inbox.request_stop(&id(), StopMode::Graceful).unwrap());
    assert_eq!(
        inbox.receive(&AgentId::from(&id()), folder.path(), &AgentReport::default()).unwrap().command,
        AgentCommand::Kill
    );
    let lost = AgentEnd::Lost { reason: "gone".to_owned() };
    assert_eq!(inbox.close(&AgentId::from(&id()), lost.clone()).unwrap(), lost);
    let late = AgentEnd::Preempted { reason: "late".to_owned() };
    assert_eq!(inbox.close(&AgentId::from(&id()), late).unwrap(), lost.clone());
    assert!(inbox.clean_up(&id()).unwrap());
    assert!(!inbox.is_open(&id()).unwrap());
    assert_eq!(inbox.end(&id()).unwrap(), Some(lost));
    inbox.forget(&id().job).unwrap();
    assert_eq!(inbox.end(&id()).unwrap(), None);
}
/// An attempt with a master, two workers and a parameter server, all of whose agents have reported.
fn several(folder: &Path) -> (Inbox, Vec<AgentId>) {
    let program = crate::Program::Command { argv: vec!["true".to_owned()] };
    let replica = |role, index| crate::Replica::new(role, index, program.clone());
    let stored = serde_json::json!({
        "id": {"job": "j", "trial": 3, "attempt": 1}, "replicas": [], "training_input": {}, "master_is_chief": false,
        "environment": {}, "working_directory": "/", "program_folders": [], "directory": "/nowhere", "time_limit": null,
        "reports": crate::reports::ReportSources::default(), "server": crate::ServerAccess::default(),
        "grace": {"secs": 1, "nanos": 0},
    });
    let mut spec: ExecutorJobSpec = serde_json::from_value(stored).unwrap();
    spec.replicas = vec![
        replica(crate::Role::Master, 0),
        replica(crate::Role::Worker, 0),
        replica(crate::Role::Worker, 1),
        replica(crate::Role::ParameterServer, 0),
    ];
    let inbox = Inbox::new(folder.to_owned());
    let opened = inbox.open(&spec).unwrap();
    let own: Vec<&str> =
        opened.iter().map(|(spec, _)| crate::tf_config::role_name(spec.own_replicas()[0].role, false)).collect();
    assert_eq!(own, ["master", "worker", "worker", "ps"]);
    let text = fs::read_to_string(&opened[2].1).unwrap();
    let written: AgentSpec = serde_json::from_str(&text).unwrap();
    assert_eq!((written.format, &written.spec), (1, &opened[2].0));
    let agents = inbox.agents(&id()).unwrap();
    assert_eq!(
        agents.iter().map(|agent| agent.task.as_deref().unwrap()).collect::<Vec<_>>(),
        ["master-0", "worker-0", "worker-1", "ps-0"]
    );
    (inbox, agents)
}

fn answer(inbox: &Inbox, agent: &AgentId, port: Option<u16>) -> Received {
    let address = port.map(|port| (std::net::Ipv4Addr::LOCALHOST, port).into());
    inbox.receive(agent, Path::new("/nowhere"), &AgentReport { address, ..AgentReport::default() }).unwrap()
}

fn exited(code: i32) -> AgentEnd {
    AgentEnd::Ended(crate::ExitStatus { end: ProgramEnd::Exited(code), stopped: None })
}

#[test]
fn addresses_are_given_once_all_replicas_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, agents) = several(folder.path());
    for (agent, port) in agents.iter().zip(2000..2003) {
        assert_eq!(answer(&inbox, agent, Some(port)).addresses, [""; 0]);
    }
    let all = ["127.0.0.1:2000", "127.0.0.1:2001", "127.0.0.1:2002", "127.0.0.1:2003"];
    assert_eq!(answer(&inbox, &agents[3], Some(2003)).addresses, all);
    assert_eq!(answer(&inbox, &agents[0], Some(9999)).addresses, all, "the first address stays");
    assert_eq!(answer(&inbox, &agents[0], None).addresses, [""; 0]);
}

#[test]
fn end_of_the_master_stops_the_others_and_is_the_end_when_none_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, agents) = several(folder.path());
    inbox.close(&agents[1], exited(7)).unwrap();
    assert_eq!(answer(&inbox, &agents[2], None).command, AgentCommand::Continue, "the end of a worker decides nothing");
    inbox.close(&agents[0], exited(0)).unwrap();
    assert_eq!(answer(&inbox, &agents[2], None).command, AgentCommand::Stop);
    inbox.close(&agents[2], AgentEnd::Preempted { reason: "SIGTERM".to_owned() }).unwrap();
    assert_eq!(inbox.end(&id()).unwrap(), None, "the parameter server runs");
    assert!(!inbox.clean_up(&id()).unwrap());
    inbox.close(&agents[3], exited(143)).unwrap();
    assert_eq!(inbox.end(&id()).unwrap(), Some(exited(0)));
    assert!(inbox.clean_up(&id()).unwrap());
    assert_eq!(fs::read_dir(inbox.attempt(&id())).unwrap().count(), 1, "the end is left");
    assert_eq!(inbox.end_of(&agents[1]).unwrap(), Some(exited(0)), "a late report is superseded");
}

#[test]
fn lost_replica_ends_the_attempt_as_a_whole() {
    let ends = [
        (
            AgentEnd::Preempted { reason: "spot".to_owned() },
            AgentEnd::Preempted { reason: "worker-1: spot".to_owned() },
        ),
        (AgentEnd::Lost { reason: "gone".to_owned() }, AgentEnd::Lost { reason: "worker-1: gone".to_owned() }),
        (
            AgentEnd::Ended(crate::ExitStatus { end: ProgramEnd::NotStarted("no".to_owned()), stopped: None }),
            AgentEnd::Ended(crate::ExitStatus {
                end: ProgramEnd::NotStarted("worker-1: no".to_owned()),
                stopped: None,
            }),
        ),
    ];
    for (end, outcome) in ends {
        let folder = tempfile::tempdir().unwrap();
        let (inbox, agents) = several(folder.path());
        inbox.close(&agents[2], end).unwrap();
        assert_eq!(inbox.outcome(&id()).unwrap(), Some(outcome.clone()));
        for agent in [&agents[0], &agents[1], &agents[3]] {
            assert_eq!(answer(&inbox, agent, None).command, AgentCommand::Stop);
            inbox.close(agent, exited(0)).unwrap();
        }
        assert_eq!(inbox.end(&id()).unwrap(), Some(outcome));
    }
}

#[test]
fn attempt_gives_its_places_back_before_its_programs_may_have_started() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, agents) = several(folder.path());
    for (agent, port) in agents.iter().zip(2000..2003) {
        answer(&inbox, agent, Some(port));
    }
    assert!(inbox.give_back(&id(), "3 of 4").unwrap());
    assert!(!inbox.give_back(&id(), "again").unwrap());
    // The last one comes too late: none learns the addresses, and all are asked to end.
    let received = answer(&inbox, &agents[3], Some(2003));
    assert_eq!((received.addresses, received.command), (Vec::new(), AgentCommand::Stop));
    for agent in &agents {
        assert_eq!(inbox.end(&id()).unwrap(), None);
        inbox.close(agent, AgentEnd::Preempted { reason: "SIGTERM before the start".to_owned() }).unwrap();
    }
    assert_eq!(inbox.end(&id()).unwrap(), Some(AgentEnd::NotPlaced { reason: "3 of 4".to_owned() }));

    let folder = tempfile::tempdir().unwrap();
    let (inbox, agents) = several(folder.path());
    for (agent, port) in agents.iter().zip(2000..) {
        answer(&inbox, agent, Some(port));
    }
    assert!(!inbox.give_back(&id(), "late").unwrap(), "its programs may run");
    assert_eq!(inbox.outcome(&id()).unwrap(), None);
}

#[test]
fn report_of_one_attempt_does_not_wait_for_that_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, job) = (Inbox::new(folder.path().join("agents")), folder.path().join("job"));
    let other = ExecutorJobId { job: "other".parse().unwrap(), ..id() };
    fs::create_dir_all(job.join("trials/3/attempt-1")).unwrap();
    for id in [&id(), &other] {
        fs::create_dir_all(inbox.attempt(id)).unwrap();
    }
    let held = inbox.attempts.get(&other);
    let _held = held.lock();
    assert_eq!(inbox.receive(&AgentId::from(&id()), &job, &piece(0, "abc")).unwrap().logs[0].offset, 3);
}

#[test]
fn quota_of_an_attempt_is_shared_by_all_logs_of_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, _) = several(&folder.path().join("several"));
    let mut spec = inbox.spec(&id()).unwrap().unwrap();
    assert_eq!(inbox.tasks_of(&AgentId { run: id(), task: Some("ps-0".to_owned()) }).unwrap(), ["ps-0"]);
    // One agent runs all replicas.
    let inbox = Inbox::new(folder.path().join("one")).with_log_quota(Some(1 << 20));
    spec.id.attempt = 2;
    let job = folder.path().join("job");
    fs::create_dir_all(job.join("trials/3/attempt-2")).unwrap();
    fs::create_dir_all(inbox.attempt(&spec.id)).unwrap();
    spec.packages = Some(crate::AgentPackages::default());
    write(&inbox.attempt(&spec.id), "spec.json", &AgentSpec::new(spec.clone(), None), false).unwrap();
    let agent = AgentId::from(&spec.id);
    let tasks = inbox.tasks_of(&agent).unwrap();
    assert_eq!(tasks, ["master-0", "worker-0", "worker-1", "ps-0", "packages"]);
    let of = |task: &str| inbox.tasks_of(&AgentId { run: spec.id.clone(), task: Some(task.to_owned()) }).unwrap();
    assert_eq!((of("master-0"), of("ps-0")), (vec!["master-0".to_owned(), "packages".into()], vec!["ps-0".to_owned()]));
    for task in &tasks {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let position = LogPosition { task: task.clone(), stream, offset: 0 };
            let logs = vec![LogPiece { position, removed: 0, bytes: vec![b'a'; 1 << 20] }];
            inbox.receive(&agent, &job, &AgentReport { logs, ..AgentReport::default() }).unwrap();
        }
    }
    let space: u64 = crate::logs::logs(&job, Some(3)).unwrap().iter().map(|log| log.space_bytes).sum();
    assert!(space <= 1 << 20, "{space}");
}

#[test]
fn log_has_a_maximum_length_and_problems_a_maximum_number() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, job) = (Inbox::new(folder.path().join("agents")), folder.path().join("job"));
    let attempt = job.join("trials/3/attempt-1");
    fs::create_dir_all(&attempt).unwrap();
    fs::create_dir_all(inbox.attempt(&id())).unwrap();
    let agent = AgentId::from(&id());
    let send = |offset: u64| {
        let mut report = piece(offset, "abc");
        report.logs[0].removed = offset;
        inbox.receive(&agent, &job, &report).unwrap().logs[0].offset
    };
    for offset in [MAX_LOG_BYTES - 2, 1 << 43, 1 << 62] {
        assert_eq!(send(offset), offset + 3, "the agent goes on");
        assert!(!attempt.join("stdout.log").exists());
    }
    assert_eq!(send(0), 3);
    let problems = |from: usize| {
        let problems = (from..from + 1000).map(|index| format!("problem {index}")).collect();
        inbox.receive(&agent, &job, &AgentReport { problems, ..AgentReport::default() }).unwrap();
        inbox.summary(&id()).unwrap().problems
    };
    let first = problems(0);
    assert_eq!(first.len(), 64);
    assert_eq!(first[0], "trial-3.attempt-1.master-0.stdout is longer than 16 GiB; the rest of it is not kept");
    assert_eq!(problems(1000), first);
}
