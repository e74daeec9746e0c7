//! Compiles the messages of `proto`, without `protoc`, and their descriptors.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message;

const PROTO: [&str; 4] = [
    "google_cloud_aiplatform.proto",
    "google_cloud_aiplatform_job.proto",
    "google_cloud_location.proto",
    "vizier.proto",
];

/// Comment of fields that only `v1beta1` has.
const BETA_FIELD: &str = "// v1beta1";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let published = out.join("published");
    fs::create_dir_all(&published)?;
    // The descriptors have both versions, from one definition.
    let mut files: Vec<String> = PROTO.iter().map(ToString::to_string).collect();
    for entry in fs::read_dir("proto")? {
        let name = entry?.file_name().into_string().map_err(|name| format!("{} is no text", name.display()))?;
        let text = fs::read_to_string(PathBuf::from("proto").join(&name))?;
        if name.starts_with("google_cloud_aiplatform") {
            let beta = |text: &str| text.replace("google_cloud_aiplatform", "v1beta1_google_cloud_aiplatform");
            fs::write(published.join(beta(&name)), beta(&text).replace("aiplatform.v1", "aiplatform.v1beta1"))?;
            files.push(beta(&name));
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.ends_with(BETA_FIELD)).collect();
        fs::write(published.join(&name), lines.join("\n"))?;
    }
    let descriptors = protox::compile(files, [&published])?;
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let messages = protox::compile(PROTO, ["proto"])?;
    prost_build::Config::new()
        .btree_map(["."])
        .enable_type_names()
        .include_file("packages.rs")
        .compile_fds(messages)?;
    Ok(())
}
