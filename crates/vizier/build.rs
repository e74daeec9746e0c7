//! Compiles the messages of `proto`, without `protoc`, and their descriptors.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const PROTO: [&str; 4] = [
    "google_cloud_aiplatform.proto",
    "google_cloud_aiplatform_job.proto",
    "google_cloud_location.proto",
    "vizier.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(PROTO, ["proto"])?;
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(folder.join("descriptors.bin"), files.encode_to_vec())?;
    prost_build::Config::new().btree_map(["."]).enable_type_names().include_file("packages.rs").compile_fds(files)?;
    Ok(())
}
