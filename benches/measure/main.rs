//! `cargo bench --bench measure -- latency|service|growth`: time and memory of suggestions and of a server, for developers.
//!
//! The tables go to standard output as Markdown. `tests/cli/measure.rs` runs the same commands on small sizes.

#![expect(clippy::print_stdout, reason = "a tool prints its results")]

mod commands;

fn main() -> anyhow::Result<()> {
    // Cargo adds this flag to the arguments of every benchmark.
    let arguments = std::env::args_os().filter(|argument| argument != "--bench");
    print!("{}", commands::run(arguments)?);
    Ok(())
}
