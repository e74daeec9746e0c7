//! Tools for agents over the Model Context Protocol, used by its own Python client, and who may call what.

use std::process::Stdio;

use serde_json::{Value, json};
use tunesmith_access::Role;
use tunesmith_admission::use_cases::RequiredAccess;
use tunesmith_mcp::{ToolDescription, tools};
use tunesmith_testing::access::token;
use tunesmith_testing::paced::found;
use tunesmith_testing::python::{MCP_CLIENT, interpreter};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, program};

const HEADERS: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

/// Runs the script `name` in `workspace`.
#[track_caller]
fn run(workspace: &Workspace, name: &str, arguments: &[&str], token: Option<&str>) {
    let mut command = program(interpreter(&MCP_CLIENT));
    let script = format!("{}/tests/data/mcp/{name}", env!("CARGO_MANIFEST_DIR"));
    command.arg(script).args(arguments).current_dir(workspace.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(token.map(|token| ("TUNESMITH_ACCESS_TOKEN", token)));
    let output = finished(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(output.code, Some(0), "{name} {arguments:?}\n{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.stdout.lines().last(), Some("ok"));
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_tunesmith");

#[test]
fn session_over_http_in_both_eras() {
    for mode in ["auto", "legacy"] {
        let workspace = Workspace::new("");
        let server = Server::start(&workspace, &[]);
        run(&workspace, "session.py", &["http", &format!("http://{}/mcp", server.address), mode], None);
    }
}

#[test]
fn session_over_stdio_on_a_data_folder_in_both_eras() {
    for mode in ["auto", "legacy"] {
        let workspace = Workspace::new("");
        run(&workspace, "session.py", &["stdio", mode, PROGRAM, "mcp", "--data-dir", "data"], None);
        let records = workspace.read("data/audit/admin_activity.jsonl");
        assert!(records.contains("\"method\":\"mcp.submit_job\""), "{records}");
    }
}

#[test]
fn session_over_stdio_with_a_server_is_audited_as_the_tools() {
    let workspace = Workspace::new("");
    let developer = token(&workspace, &["--principal", "user:dev@x", "--role", "ml.admin@local"]);
    let server = Server::start(&workspace, &["--data-access-log"]);
    let address = format!("http://{}", server.address);
    run(&workspace, "session.py", &["stdio", "auto", PROGRAM, "mcp", "--server", &address], Some(&developer));
    let recorded = audit(&workspace);
    for tool in tools().iter().filter(|tool| !tool.use_cases.is_empty()) {
        let found = recorded.iter().find(|record| record["method"] == tool.method);
        let record = found.unwrap_or_else(|| panic!("{} has no audit record", tool.method));
        assert_eq!(record["principal"], "user:dev@x");
    }
    // A tool is named only with a call that it makes.
    let headers = format!("{HEADERS}authorization: Bearer {developer}\r\ntunesmith-tool: mcp.list_jobs\r\n");
    assert_eq!(server.send("POST", "/v1/projects/local/jobs/slow:cancel", &headers, "{}").0, 400);
    assert_eq!(audit(&workspace).iter().filter(|record| record["method"] == "ml.projects.jobs.cancel").count(), 1);
}

/// All audit records.
fn audit(workspace: &Workspace) -> Vec<Value> {
    let logs = ["admin_activity", "data_access"].map(|name| workspace.read(&format!("data/audit/{name}.jsonl")));
    logs.iter().flat_map(|log| log.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn waits_are_cancelled_and_read_only_servers_change_nothing() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let job = json!({
        "jobId": "slow",
        "trainingInput": {"masterConfig": {"containerCommand": ["python3", "-c", "import time; time.sleep(1000)"]}},
    });
    assert_eq!(server.post("/v1/projects/local/jobs", &job).0, 200);
    server.until("/v1/projects/local/jobs/slow", "RUNNING");
    // A port without a listener.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = [&format!("http://{}", server.address), PROGRAM, &format!("http://{nowhere}")];
    run(&workspace, "waiting.py", &arguments, None);
    assert_eq!(server.post("/v1/projects/local/jobs/slow:cancel", &json!({})).0, 200);
    server.until_ended("/v1/projects/local/jobs/slow");
}

#[test]
fn wait_is_a_task_for_clients_that_have_tasks() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@local"]);
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin@local"]);
    let elsewhere = token(&workspace, &["--principal", "user:else@x", "--role", "ml.admin@q"]);
    let server = Server::start(&workspace, &[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let send = |token: &str, method: &str, name: &str, mut parameters: Value| {
        parameters["_meta"] = meta.clone();
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
        let headers = format!(
            "{HEADERS}authorization: Bearer {token}\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\nmcp-name: {name}\r\n"
        );
        server.send("POST", "/mcp", &headers, &message.to_string()).1
    };
    let job = json!({"name": "submit_job", "arguments": {"job": "slow", "config": "tunesmith: {}",
        "command": ["python3", "-c", "import time; time.sleep(1000)"]}});
    let submitted = send(&admin, "tools/call", "submit_job", job);
    assert_eq!(submitted["result"]["structuredContent"]["job"], "slow", "{submitted}");
    let wait = json!({"name": "wait_for_job", "arguments": {"job": "slow", "timeout_secs": 600}});
    let created = send(&viewer, "tools/call", "wait_for_job", wait)["result"].clone();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    let id = created["taskId"].as_str().unwrap();
    let get = |token: &str| send(token, "tasks/get", id, json!({"taskId": id}))["result"].clone();
    assert_eq!((&get(&viewer)["status"], &get(&viewer)["taskId"]), (&json!("working"), &json!(id)));
    // The ID gives no permission.
    let refused = get(&elsewhere);
    assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "PERMISSION_DENIED", "{refused}");
    let cancelled = send(&viewer, "tasks/cancel", id, json!({"taskId": id}));
    assert_eq!((&cancelled["error"], &get(&viewer)["status"]), (&Value::Null, &json!("working")), "the job goes on");
    let ended = send(&admin, "tools/call", "cancel_job", json!({"name": "cancel_job", "arguments": {"job": "slow"}}));
    assert_eq!(ended["result"]["isError"], false, "{ended}");
    let task = found(|| Some(get(&viewer)).filter(|task| task["status"] == "completed"));
    let result = &task["result"]["structuredContent"];
    assert_eq!((&result["reached"], &result["state"]), (&json!(true), &json!("CANCELLED")), "{task}");
    for bad in ["", "7b7d", "x", &"00".repeat(10_000)] {
        let answer = send(&viewer, "tasks/get", bad, json!({"taskId": bad}));
        assert!(answer["error"]["code"].is_number(), "{bad:.20}: {answer}");
    }
}

/// Calls `tool` with its example in project `p`. Returns the status and the result.
fn call(server: &Server, tool: &ToolDescription, token: Option<&str>) -> (u16, Value) {
    let mut arguments = tool.example.clone();
    let takes = |name: &str| tool.definition["inputSchema"]["properties"].get(name).is_some();
    if takes("project") {
        arguments["project"] = json!("p");
    }
    if takes("a") {
        arguments["a"]["project"] = json!("p");
        arguments["b"]["project"] = json!("p");
    }
    if takes("timeout_secs") {
        arguments["timeout_secs"] = json!(0);
    }
    let parameters = json!({"name": tool.name, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters});
    let credentials = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let headers = format!("{HEADERS}mcp-protocol-version: 2025-11-25\r\n{credentials}");
    let (status, answer) = server.send("POST", "/mcp", &headers, &message.to_string());
    (status, if status == 200 { answer["result"].clone() } else { answer })
}

#[test]
fn every_tool_is_admitted_by_role() {
    let workspace = Workspace::new("");
    let roles = [Role::Admin, Role::Developer, Role::Viewer];
    let tokens = roles.map(|role| {
        let name = role.as_str().trim_start_matches("roles/");
        token(&workspace, &["--principal", &format!("user:{role}@x"), "--role", &format!("{name}@p")])
    });
    let elsewhere = token(&workspace, &["--principal", "user:else@x", "--role", "ml.admin@q"]);
    let server = Server::start(&workspace, &["--data-access-log", "--request-rate", "0"]);
    let mut credentials = vec![(None, None), (Some("tsm_none_such"), None), (Some(elsewhere.as_str()), None)];
    credentials.extend(tokens.iter().zip(roles).map(|(token, role)| (Some(token.as_str()), Some(role))));
    let mut calls = 0;
    for tool in tools().into_iter().filter(|tool| !tool.is_of_this_machine) {
        for (index, (token, role)) in credentials.iter().enumerate() {
            calls += 1;
            let (status, answer) = call(&server, &tool, *token);
            let case = format!("{} as {role:?} with {token:?}: {status} {answer}", tool.name);
            if index < 2 {
                assert_eq!((status, &answer["error"]["status"]), (401, &json!("UNAUTHENTICATED")), "{case}");
                continue;
            }
            assert_eq!(status, 200, "{case}");
            let lacks = |access: RequiredAccess| match access {
                RequiredAccess::Of(permission) => !role.is_some_and(|role| role.allows(permission)),
                RequiredAccess::Open | RequiredAccess::Token | RequiredAccess::TrialToken => false,
            };
            // A tool needs the permission of its first request, and those of its changes.
            let (first, rest) =
                tool.use_cases.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
            let is_refused = first.is_some_and(|use_case| lacks(use_case.access()))
                || rest.iter().any(|it| it.changes() && lacks(it.access()));
            let code = &answer["structuredContent"]["error"]["code"];
            assert_eq!(*code == "PERMISSION_DENIED", is_refused, "{case}");
        }
    }
    assert_eq!(calls, 6 * 23);
    let recorded = audit(&workspace);
    for tool in tools().into_iter().filter(|tool| !tool.is_of_this_machine) {
        let of = |status: u64| recorded.iter().any(|it| it["method"] == tool.method && it["status"] == status);
        assert!(of(200) || of(400) || of(404), "{} has no audit record", tool.method);
        assert!(of(403) || tool.use_cases.is_empty(), "{} has no record of a refusal", tool.method);
    }
    assert!(recorded.iter().any(|record| record["method"] == "mcp" && record["status"] == 401));
    let (head, _) = server.parts("POST", "/mcp", HEADERS, "{}");
    assert!(head.to_lowercase().contains("www-authenticate: bearer"), "{head}");
}

#[test]
fn jobs_are_resources_by_permission_and_audited_as_requests() {
    let workspace = Workspace::new("");
    let viewer = token(&workspace, &["--principal", "user:view@x", "--role", "ml.viewer@local"]);
    let elsewhere = token(&workspace, &["--principal", "user:else@x", "--role", "ml.admin@q"]);
    let admin = token(&workspace, &["--principal", "user:admin@x", "--role", "ml.admin@local"]);
    let server = Server::start(&workspace, &["--data-access-log"]);
    let send = |token: &str, method: &str, parameters: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
        let headers = format!("{HEADERS}mcp-protocol-version: 2025-11-25\r\nauthorization: Bearer {token}\r\n");
        server.send("POST", "/mcp", &headers, &message.to_string()).1
    };
    let credentials = format!("content-type: application/json\r\nauthorization: Bearer {admin}\r\n");
    for number in 1..=60 {
        let job = json!({"jobId": format!("job_{number:02}"), "labels": {"n": "x"},
            "trainingInput": {"masterConfig": {"containerCommand": ["true"]}}});
        assert_eq!(server.send("POST", "/v1/projects/local/jobs", &credentials, &job.to_string()).0, 200);
    }
    let uris = |page: &Value| -> Vec<String> {
        let resources = page["result"]["resources"].as_array().unwrap().iter();
        resources.map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect()
    };
    let of_jobs = |uris: &[String]| uris.iter().filter(|uri| uri.starts_with("tunesmith://jobs/local/job_")).count();
    let first = send(&viewer, "resources/list", json!({}));
    let second = send(&viewer, "resources/list", json!({"cursor": first["result"]["nextCursor"]}));
    let (documents, rest) = (uris(&first), uris(&second));
    assert_eq!((of_jobs(&documents), of_jobs(&rest), rest.len()), (50, 10, 10), "{first}");
    assert!(documents.contains(&"tunesmith://docs/filters".to_owned()) && second["result"]["nextCursor"].is_null());
    assert!(first["result"]["resources"][20]["description"].is_string(), "{first}");
    let refused = send(&viewer, "resources/list", json!({"cursor": "elsewhere"}));
    assert_eq!(refused["error"]["data"]["error"]["code"], "INVALID_ARGUMENT", "{refused}");

    let uri = "tunesmith://jobs/local/job_07";
    let read = |token: &str, uri: &str| send(token, "resources/read", json!({ "uri": uri }));
    let found = read(&viewer, uri);
    let text = found["result"]["contents"][0]["text"].as_str().unwrap();
    let job: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&job["job"], &job["labels"]), (&json!("job_07"), &json!({"n": "x"})), "{text}");
    let absent = read(&viewer, "tunesmith://jobs/local/absent");
    assert_eq!(absent["error"]["data"]["error"]["code"], "NOT_FOUND", "{absent}");
    // Without the permission, the list has the documentation, and a job is refused.
    assert_eq!(of_jobs(&uris(&send(&elsewhere, "resources/list", json!({})))), 0);
    let refused = read(&elsewhere, uri);
    assert_eq!(refused["error"]["data"]["error"]["code"], "PERMISSION_DENIED", "{refused}");
    let recorded = audit(&workspace);
    let count = |method: &str, principal: &str, status: u64| {
        let is = |it: &&Value| it["method"] == method && it["principal"] == principal && it["status"] == status;
        recorded.iter().filter(is).count()
    };
    assert_eq!(count("ml.projects.jobs.get", "user:view@x", 200), 1);
    assert_eq!(count("ml.projects.jobs.get", "user:view@x", 404), 1);
    assert_eq!(count("ml.projects.jobs.get", "user:else@x", 403), 1);
    assert_eq!(
        (count("ml.projects.jobs.list", "user:view@x", 200), count("ml.projects.jobs.list", "user:else@x", 403)),
        (2, 1)
    );
}

#[test]
fn hostile_messages_get_clear_answers() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let send = |headers: &str, body: &str| server.exchange("POST", "/mcp", &format!("{HEADERS}{headers}"), body);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let (status, text) = send("", &list);
    assert!(status == 200 && text.contains("propose_config"), "{status} {text}");
    // Pages of other origins, and names after DNS rebinding.
    assert_eq!(send("origin: http://evil.example\r\n", &list).0, 403);
    assert_eq!(send("sec-fetch-site: cross-site\r\n", &list).0, 403);
    let accept = "accept: application/json, text/event-stream\r\n";
    // As a form of another site sends it.
    assert_eq!(server.exchange("POST", "/mcp", &format!("{accept}content-type: text/plain\r\n"), &list).0, 415);
    assert_eq!(server.exchange("POST", "/mcp", "content-type: application/json\r\n", &list).0, 406);
    let body = format!("{{\"x\":\"{}\"}}", "x".repeat(9 << 20));
    assert_eq!(send("", &body).0, 413);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["", "{", "[]", "{\"jsonrpc\":\"1.0\"}", &deep] {
        let (status, text) = send("", body);
        assert!((400..500).contains(&status), "{body:.20}: {status} {text}");
    }
    let (status, text) = send("mcp-protocol-version: 1999-01-01\r\n", &list);
    assert!(status == 400 && text.contains("1999-01-01"), "{status} {text}");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let modern = |method: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
        send(&format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n"), &message.to_string())
    };
    let (status, text) = modern("server/discover");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let supported = answer["result"]["supportedVersions"].as_array().unwrap();
    assert!(
        status == 200 && supported.contains(&json!("2026-07-28")) && supported.contains(&json!("2025-11-25")),
        "{text}"
    );
    let (status, text) = modern("ping");
    assert!(status == 404 && text.contains("-32601"), "{status} {text}");
    let mismatch = send(
        "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n",
        &json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        .to_string(),
    );
    assert!(mismatch.0 == 400 && mismatch.1.contains("-32020"), "{mismatch:?}");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    let (head, text) = server.parts("POST", "/mcp", HEADERS, &initialize.to_string());
    assert!(text.contains("\"2025-06-18\"") && !head.to_lowercase().contains("mcp-session-id"), "{head}\n{text}");
    assert_eq!(server.text("GET", "/mcp").0, 405);
    assert_eq!(server.text("DELETE", "/mcp").0, 405);
    assert_eq!(server.text("GET", "/healthz").0, 200);
}
