//! Access tokens.

use crate::Workspace;

/// Creates a token with the command line and returns it.
pub fn token(workspace: &Workspace, more: &[&str]) -> String {
    let output = workspace.command().args(["tokens", "create", "--data-dir", "data"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The headers of a JSON request with `token`.
pub fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\n")
}
