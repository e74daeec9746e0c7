//! Compiles the messages and the service of `proto/optuna.proto`, without `protoc`.

use std::error::Error;

const PROTO: &str = "proto/optuna.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let files = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure().build_client(false).build_transport(false).btree_map(".").compile_fds(files)?;
    Ok(())
}
