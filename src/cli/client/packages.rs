//! Package upload, deduplicated by content.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sha2::{Digest, Sha256};

use crate::cli::output::notice;
use tunesmith_client::Client;
use tunesmith_jobs::packages::Packages;
#[cfg(feature = "mcp")]
use tunesmith_mcp::UploadError;
use tunesmith_packages::SourceFolder;

/// Shorter uploads show no progress.
const SHORT: Duration = Duration::from_secs(1);
/// Redraw interval.
const TICK: Duration = Duration::from_millis(250);

/// Packs and uploads the package in folder `path`, and returns its URI for `packageUris`.
pub(super) async fn upload_folder(client: &Client, path: &Path) -> anyhow::Result<String> {
    let packed = SourceFolder::new(path)?.pack()?;
    let sha256 = packed.sha256();
    upload(client, &sha256, &packed.file_name, packed.bytes).await
}

/// Uploads `package` if it is a local file, and returns its URI for `packageUris`.
pub(super) async fn upload_file(client: &Client, package: &str) -> anyhow::Result<String> {
    if package.contains("://") {
        return Ok(package.to_owned());
    }
    let (file_name, bytes) = read(Path::new(package))?;
    upload(client, &hex::encode(Sha256::digest(&bytes)), &file_name, bytes).await
}

/// Uploads the package at `path`, a folder or a file, for an agent, and returns its URI for `packageUris`.
#[cfg(feature = "mcp")]
pub(super) async fn upload_for_agent(client: Client, path: std::path::PathBuf) -> Result<String, UploadError> {
    let packed = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
        if path.is_dir() {
            let packed = SourceFolder::new(&path)?.pack()?;
            return Ok((packed.sha256(), packed.file_name, packed.bytes));
        }
        let (file_name, bytes) = read(&path)?;
        Ok((hex::encode(Sha256::digest(&bytes)), file_name, bytes))
    });
    let unreadable = |error: anyhow::Error| UploadError::File(format!("{error:#}"));
    let (sha256, file_name, bytes) = packed.await.map_err(|error| unreadable(error.into()))?.map_err(unreadable)?;
    let uploaded = upload(&client, &sha256, &file_name, bytes).await;
    uploaded.map_err(|error| error.downcast().map_or_else(unreadable, UploadError::Api))
}

/// Name and content of the file `path`, up to one byte more than a package may have.
fn read(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let shown = path.display();
    let unreadable = || format!("package {shown} cannot be read");
    // Opening a pipe would wait for a writer.
    if !std::fs::metadata(path).with_context(unreadable)?.is_file() {
        bail!("package {shown} is not a file");
    }
    let mut bytes = Vec::new();
    File::open(path)
        .with_context(unreadable)?
        .take(Packages::MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(unreadable)?;
    let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok((file_name.to_owned(), bytes))
}

async fn upload(client: &Client, sha256: &str, file_name: &str, bytes: Vec<u8>) -> anyhow::Result<String> {
    let size = bytes.len();
    if size as u64 > Packages::MAX_BYTES {
        bail!(
            "package {file_name} has more than the allowed {} bytes: put it into a bucket and give its URI",
            Packages::MAX_BYTES
        );
    }
    let package = match client.package(sha256, file_name).await {
        Ok(package) => package,
        Err(error) if error.is_not_found() => {
            let bar = upload_bar(file_name, size);
            let taken = bar.clone();
            let taken = Arc::new(move |bytes| taken.set_position(bytes));
            let mut upload = pin!(client.upload_package(sha256, file_name, Bytes::from(bytes), taken));
            let package = tokio::select! {
                package = &mut upload => package,
                () = tokio::time::sleep(SHORT) => {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(TICK);
                    upload.await
                }
            };
            bar.finish_and_clear();
            let package = package?;
            notice(&format!("package {file_name}: {size} bytes uploaded"));
            package
        }
        Err(error) => return Err(error.into()),
    };
    Ok(package.uri)
}

/// Upload progress bar, initially hidden; always hidden without a terminal.
fn upload_bar(file_name: &str, size: usize) -> ProgressBar {
    let template = "{bar:20} {binary_bytes}/{binary_total_bytes}  {elapsed}  uploading {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let bar = ProgressBar::with_draw_target(Some(size as u64), ProgressDrawTarget::hidden()).with_style(style);
    bar.set_message(file_name.to_owned());
    bar
}
