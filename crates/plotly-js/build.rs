//! Compresses the embedded plotly.js at build time, so that servers neither compress it on start-up nor hold it twice.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let scripts = plotly::Plot::offline_js_sources();
    let library = first_script(&scripts).filter(|library| library.contains("plotly.js v"));
    let library = library.ok_or("the crate plotly no longer gives plotly.js as the first script")?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(library.as_bytes())?;
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("plotly.min.js.gz"), encoder.finish()?)?;
    println!("cargo::rustc-env=PLOTLY_HASH={}", hex::encode(&Sha256::digest(library)[..8]));
    Ok(())
}

/// Content of the first script in `scripts`, an HTML fragment. The second is MathJax, which the console does not use.
fn first_script(scripts: &str) -> Option<&str> {
    let (_, content) = scripts.split_once('>')?;
    Some(content.split_once("</script>")?.0)
}
