//! Package upload, deduplicated by content.

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
    let bytes = std::fs::read(package).with_context(|| format!("package {package} cannot be read"))?;
    let file_name = Path::new(package).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let sha256 = hex::encode(Sha256::digest(&bytes));
    upload(client, &sha256, file_name, bytes).await
}

async fn upload(client: &Client, sha256: &str, file_name: &str, bytes: Vec<u8>) -> anyhow::Result<String> {
    let size = bytes.len();
    if size as u64 > Packages::MAX_BYTES {
        bail!(
            "package {file_name} has {size} bytes, at most {} are allowed: put it into a bucket and give its URI",
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
