//! All responses to concurrent clients are linearisable: they can be explained by one order of the requests, in which
//! each takes effect at one moment between request and response (Herlihy and Wing 1990; search by Wing and Gong 1993).

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::postgres::Cluster;
use tunesmith_testing::server::Server;

const STUDIES: &str = "/v1/projects/p/locations/l/studies";

/// Number of studies, unless set by `TUNESMITH_ORDER_STUDIES`.
const STUDIES_TRIED: u64 = 24;

const CLIENTS: u8 = 4;
const REQUESTS: usize = 8;

/// Number of points in the search space.
const POINTS: usize = 9;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    Suggest,
    Create { point: u8, key: u8 },
    Report { trial: u64, key: u8 },
    Complete { trial: u64, value: u8 },
    Stop { trial: u64 },
    Delete { trial: u64 },
    Get { trial: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The number and point of the suggested trial; `None` if there are no more.
    Given(Option<(u64, String)>),
    /// The state, the number of reports, and the result of a trial.
    Trial {
        id: u64,
        state: String,
        reports: usize,
        result: Option<u8>,
    },
    Done,
    Refused(u16),
}

#[derive(Debug, Clone)]
struct Event {
    client: u8,
    sent: Instant,
    answered: Instant,
    request: Request,
    answer: Answer,
}

/// A sequential model of the study.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Model {
    trials: BTreeMap<u64, ModelTrial>,
    complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelTrial {
    state: &'static str,
    owner: Option<u8>,
    point: String,
    reports: Vec<u8>,
    created_by: Option<u8>,
    result: Option<u8>,
}

impl Model {
    /// Whether the model would return `answer` now; if so, applies the request to the model.
    fn explains(&mut self, client: u8, request: &Request, answer: &Answer) -> bool {
        match (request, answer) {
            (Request::Suggest, Answer::Given(given)) => self.gives(client, given.as_ref()),
            (Request::Create { point, key }, Answer::Trial { id, .. }) => {
                if let Some((known, trial)) = self.trials.iter().find(|(_, trial)| trial.created_by == Some(*key)) {
                    return *known == *id && trial.point == point_text(*point) && trial.matches(answer);
                }
                let new = ModelTrial::new("REQUESTED", None, point_text(*point));
                let trial = ModelTrial { created_by: Some(*key), ..new };
                let matches = *id == self.next_id() && !self.complete && trial.matches(answer);
                self.trials.insert(*id, trial);
                matches
            }
            (Request::Create { point, key }, Answer::Refused(404)) => {
                let created = self.created_by(*key);
                created.is_some_and(|trial| trial.state == "DELETED" && trial.point == point_text(*point))
            }
            (Request::Create { point, key }, Answer::Refused(400)) => match self.created_by(*key) {
                // The key was used for another point.
                Some(trial) => trial.point != point_text(*point),
                None => self.complete,
            },
            (_, answer) => self.explains_of_trial(request, answer),
        }
    }

    fn explains_of_trial(&mut self, request: &Request, answer: &Answer) -> bool {
        let (Request::Report { trial: id, .. }
        | Request::Complete { trial: id, .. }
        | Request::Stop { trial: id }
        | Request::Delete { trial: id }
        | Request::Get { trial: id }) = request
        else {
            return false;
        };
        let Some(trial) = self.trials.get_mut(id).filter(|trial| trial.state != "DELETED") else {
            return *answer == Answer::Refused(404);
        };
        let is_final = trial.state == "COMPLETED";
        match request {
            Request::Report { key, .. } => {
                if trial.reports.contains(key) {
                    return trial.matches(answer);
                }
                if is_final {
                    return *answer == Answer::Refused(400);
                }
                trial.reports.push(*key);
                if trial.state == "REQUESTED" {
                    trial.state = "ACTIVE";
                }
                trial.matches(answer)
            }
            Request::Complete { value, .. } => {
                if is_final && trial.result != Some(*value) {
                    return *answer == Answer::Refused(400);
                }
                trial.state = "COMPLETED";
                trial.result = Some(*value);
                trial.matches(answer)
            }
            Request::Stop { .. } => match trial.state {
                "REQUESTED" => *answer == Answer::Refused(400),
                "ACTIVE" => {
                    trial.state = "STOPPING";
                    trial.matches(answer)
                }
                _ => trial.matches(answer),
            },
            Request::Delete { .. } => {
                trial.state = "DELETED";
                *answer == Answer::Done
            }
            _ => trial.matches(answer),
        }
    }

    fn gives(&mut self, client: u8, given: Option<&(u64, String)>) -> bool {
        let is_open = |trial: &ModelTrial| matches!(trial.state, "ACTIVE" | "STOPPING");
        let own = self.trials.iter().find(|(_, trial)| is_open(trial) && trial.owner == Some(client));
        if let Some((id, trial)) = own {
            return given == Some(&(*id, trial.point.clone()));
        }
        let next_id = self.next_id();
        let queued = self.trials.iter_mut().find(|(_, trial)| trial.state == "REQUESTED");
        if let Some((id, trial)) = queued {
            trial.state = "ACTIVE";
            trial.owner = Some(client);
            return given == Some(&(*id, trial.point.clone()));
        }
        // A deleted point may be suggested again.
        let there = self.trials.values().filter(|trial| trial.state != "DELETED");
        let tried: HashSet<String> = there.map(|trial| trial.point.clone()).collect();
        match given {
            Some((id, point)) => {
                let is_new = !self.complete && *id == next_id && !tried.contains(point);
                self.trials.insert(*id, ModelTrial::new("ACTIVE", Some(client), point.clone()));
                is_new
            }
            None => {
                let is_over = self.complete || tried.len() == POINTS;
                self.complete = true;
                is_over
            }
        }
    }

    fn created_by(&self, key: u8) -> Option<&ModelTrial> {
        self.trials.values().find(|trial| trial.created_by == Some(key))
    }

    fn next_id(&self) -> u64 {
        self.trials.len() as u64 + 1
    }
}

impl ModelTrial {
    fn new(state: &'static str, owner: Option<u8>, point: String) -> Self {
        Self { state, owner, point, reports: Vec::new(), created_by: None, result: None }
    }

    fn matches(&self, answer: &Answer) -> bool {
        let Answer::Trial { state, reports, result, .. } = answer else { return false };
        (self.state, self.reports.len(), self.result) == (state.as_str(), *reports, *result)
    }
}

fn point_text(point: u8) -> String {
    json!([{"parameter": "a", "intValue": point.to_string()}]).to_string()
}

/// Whether an order of `events` explains all responses.
fn is_explained(events: &[Event]) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![(0_u64, Model::default())];
    let all = (1_u64 << events.len()) - 1;
    while let Some((done, model)) = open.pop() {
        if done == all {
            return true;
        }
        let left = || events.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        let Some(first_answer) = left().map(|(_, event)| event.answered).min() else { continue };
        for (index, event) in left().filter(|(_, event)| event.sent <= first_answer) {
            let mut next = model.clone();
            if next.explains(event.client, &event.request, &event.answer) {
                let state = (done | (1 << index), next);
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

#[test]
fn responses_to_concurrent_clients_are_linearisable() {
    let workspace = Workspace::new("");
    check(&[Server::start(&workspace, &[])]);
}

#[test]
fn responses_of_a_server_on_a_database_are_linearisable() {
    let cluster = Cluster::start();
    check(&cluster.serve(&cluster.create_database("tuning"), 1));
}

#[test]
fn responses_of_three_servers_on_one_database_are_linearisable() {
    let cluster = Cluster::start();
    check(&cluster.serve(&cluster.create_database("tuning"), 3));
}

/// Checks that clients which choose a server for each request get linearisable responses.
fn check(servers: &[Server]) {
    let server = &servers[0];
    let studies = std::env::var("TUNESMITH_ORDER_STUDIES").map_or(STUDIES_TRIED, |studies| studies.parse().unwrap());
    for seed in 0..studies {
        let study = json!({"studyConfig": {
            "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
            "parameters": [{"parameter": "a", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "9"}}],
            "algorithm": if seed % 2 == 0 { "RANDOM_SEARCH" } else { "GAUSSIAN_PROCESS_BANDIT" },
        }});
        assert_eq!(server.post(&format!("{STUDIES}?studyId=s{seed}"), &study).0, 200);
        let events = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let events = &events;
                scope.spawn(move || {
                    let mut random = SplitMix(seed << 8 | u64::from(client));
                    for _ in 0..REQUESTS {
                        let request = draw(&mut random);
                        let server = &servers[random.next() as usize % servers.len()];
                        let sent = Instant::now();
                        let answer = ask(server, &format!("{STUDIES}/s{seed}"), client, &request);
                        let answered = Instant::now();
                        events.lock().unwrap().push(Event { client, sent, answered, request, answer });
                    }
                });
            }
        });
        let events = events.into_inner().unwrap();
        assert!(is_explained(&events), "study s{seed}: no order explains\n{}", described(&events));
    }
}

/// A line for each request, in the order in which they were sent.
fn described(events: &[Event]) -> String {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.sent);
    let begin = events[0].sent;
    let line = |event: &&Event| {
        let (sent, answered) = (event.sent - begin, event.answered - begin);
        format!("client {} {sent:?} to {answered:?}: {:?} {:?}", event.client, event.request, event.answer)
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Sebastiano Vigna's SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn draw(random: &mut SplitMix) -> Request {
    let mut below = |limit: u64| random.next() % limit;
    let (kind, trial) = (below(16), below(5) + 1);
    match kind {
        0..=5 => Request::Suggest,
        6 => Request::Create { point: below(9) as u8 + 1, key: below(3) as u8 },
        7..=9 => Request::Report { trial, key: below(4) as u8 },
        10..=12 => Request::Complete { trial, value: below(2) as u8 },
        13 => Request::Stop { trial },
        14 => Request::Delete { trial },
        _ => Request::Get { trial },
    }
}

fn ask(server: &Server, study: &str, client: u8, request: &Request) -> Answer {
    let keyed = |what: &str, key: u8| format!("content-type: application/json\r\nidempotency-key: {what}-{key}\r\n");
    let metrics = |value: u8| json!([{"metric": "loss", "value": value}]);
    let (status, body) = match request {
        Request::Suggest => {
            let body = json!({"suggestionCount": 1, "clientId": format!("client-{client}")});
            let (status, operation) = server.post(&format!("{study}/trials:suggest"), &body);
            assert_eq!(status, 200, "{operation}");
            let response = &server.wait(operation)["response"];
            let given = response["trials"].get(0).map(|trial| (id_of(trial), trial["parameters"].to_string()));
            return Answer::Given(given);
        }
        Request::Create { point, key } => {
            let body = format!("{{\"parameters\": {}}}", point_text(*point));
            server.send("POST", &format!("{study}/trials"), &keyed("create", *key), &body)
        }
        Request::Report { trial, key } => {
            let body = json!({"measurement": {"metrics": metrics(*key)}});
            server.send(
                "POST",
                &format!("{study}/trials/{trial}:addMeasurement"),
                &keyed("report", *key),
                &body.to_string(),
            )
        }
        Request::Complete { trial, value } => {
            let body = json!({"finalMeasurement": {"metrics": metrics(*value)}});
            server.post(&format!("{study}/trials/{trial}:complete"), &body)
        }
        Request::Stop { trial } => server.post(&format!("{study}/trials/{trial}:stop"), &json!({})),
        Request::Delete { trial } => server.send("DELETE", &format!("{study}/trials/{trial}"), "", ""),
        Request::Get { trial } => server.get(&format!("{study}/trials/{trial}")),
    };
    match status {
        200 if body["name"].is_string() => Answer::Trial {
            id: id_of(&body),
            state: body["state"].as_str().unwrap().to_owned(),
            reports: body["measurements"].as_array().map_or(0, Vec::len),
            result: body["finalMeasurement"]["metrics"][0]["value"].as_f64().map(|value| value as u8),
        },
        200 => Answer::Done,
        status => Answer::Refused(status),
    }
}

fn id_of(trial: &Value) -> u64 {
    let name = trial["name"].as_str().unwrap();
    name.rsplit('/').next().unwrap().split('~').next().unwrap().parse().unwrap()
}

#[test]
fn responses_that_are_not_linearisable_are_detected() {
    let now = Instant::now();
    let given = |client, id| Event {
        client,
        sent: now,
        answered: now,
        request: Request::Suggest,
        answer: Answer::Given(Some((id, point_text(id as u8)))),
    };
    assert!(is_explained(&[given(0, 2), given(1, 1)]));
    assert!(!is_explained(&[given(0, 1), given(1, 1)]), "a trial is assigned to two clients");
    assert!(!is_explained(&[given(0, 1), given(1, 3)]), "a number is omitted");
}
