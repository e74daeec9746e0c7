//! The client commands of the command line.

use std::io::Read;
use std::net::TcpStream;
use std::process::Command;

use crate::{Finished, Workspace, finished};

/// Runs `tunesmith` with `args` and the arguments in `target`, which select the service.
pub fn client(workspace: &Workspace, args: &[&str], target: &[&str]) -> Finished {
    finished(client_command(workspace, args, target).output().unwrap())
}

/// The command of [`client`], not started yet.
pub fn client_command(workspace: &Workspace, args: &[&str], target: &[&str]) -> Command {
    let mut command = workspace.command();
    for variable in ["TUNESMITH_SERVER", "TUNESMITH_ACCESS_TOKEN", "TUNESMITH_PROJECT"] {
        command.env_remove(variable);
    }
    // The words after `--` belong to the trainer.
    let end = args.iter().position(|argument| *argument == "--").unwrap_or(args.len());
    command.args(&args[..end]).args(target).args(&args[end..]);
    command
}

/// Reads the head of an HTTP message.
pub fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}
