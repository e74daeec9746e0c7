//! Fetching of package archives from this machine, a web server or a bucket.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt};
use reqwest::{StatusCode, Url};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tunesmith_client::public_address::{self, NotPublic, PublicResolver};
use tunesmith_files::{FileUser, OpenError};
use tunesmith_objects::{ObjectAddress, bucket};

use super::source::Location;
use super::{LocalArchive, PackageError, PackageRules, PackageSource, archive, unblock};

/// Timeout of connecting to a server, and of receiving the next bytes.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Package archive that passed [`archive::check`].
pub(super) struct Fetched {
    /// File name required by the installer.
    pub(super) file_name: String,
    /// SHA-256 of the bytes.
    pub(super) digest: [u8; 32],
    /// File of the user, or an unnamed temporary file.
    file: File,
}

impl Fetched {
    /// Writes the archive to `folder` under its name and returns the path.
    pub(super) fn write_into(mut self, folder: &Path) -> Result<PathBuf, PackageError> {
        let path = folder.join(&self.file_name);
        let mut copy = || {
            self.file.rewind()?;
            io::copy(&mut self.file, &mut File::create(&path)?)
        };
        copy().map_err(PackageError::io("write", &path))?;
        Ok(path)
    }
}

pub(super) async fn read_local(archive: &LocalArchive) -> Result<Fetched, PackageError> {
    let LocalArchive { source, place } = archive.clone();
    let uri = source.to_string();
    let opened = unblock(move || {
        place.open().map_err(|error| match error {
            error if error.is_not_found() => not_found(&uri),
            error @ OpenError::NotRegular => PackageError::NotAPackage { uri, detail: error.to_string() },
            error => fetch_error(&uri, error),
        })
    });
    checked(&source, opened.await?).await
}

/// Fetches `source`. Opens files on this machine as `user`. Stores downloads in the file system of `root`. `variables`
/// contain the credentials and endpoints of buckets.
pub(super) async fn fetch(
    source: &PackageSource,
    user: Option<FileUser>,
    root: &Path,
    variables: &BTreeMap<OsString, OsString>,
    rules: &PackageRules,
) -> Result<Fetched, PackageError> {
    let uri = source.to_string();
    let file = match source.location() {
        Location::File(path) => {
            let (uri, path) = (uri.clone(), path.clone());
            unblock(move || match user {
                Some(user) => user.run(|| open(&uri, &path)).map_err(|error| fetch_error(&uri, error))?,
                None => open(&uri, &path),
            })
            .await?
        }
        Location::Web(url) => {
            let fetch = async { download(&uri, root, web(&uri, url, variables, rules).await?, rules).await };
            in_time(&uri, rules, fetch).await?
        }
        Location::Bucket(address) => {
            let store = bucket(address, variables).map_err(|error| bucket_error(&uri, &error))?;
            let fetch = async { download(&uri, root, object(&uri, &*store, address).await?, rules).await };
            in_time(&uri, rules, fetch).await?
        }
    };
    checked(source, file).await
}

async fn checked(source: &PackageSource, file: File) -> Result<Fetched, PackageError> {
    let (uri, file_name) = (source.to_string(), source.file_name().to_owned());
    unblock(move || {
        let (start, digest, file) = read(file).map_err(|error| fetch_error(&uri, error))?;
        archive::check(&uri, &file_name, &start)?;
        Ok(Fetched { file_name, digest, file })
    })
    .await
}

fn fetch_error(uri: &str, source: impl Into<Cause>) -> PackageError {
    PackageError::Fetch { uri: uri.to_owned(), source: source.into() }
}

/// Applies the time limit to `fetch`.
async fn in_time<T>(
    uri: &str,
    rules: &PackageRules,
    fetch: impl Future<Output = Result<T, PackageError>>,
) -> Result<T, PackageError> {
    let limit = rules.max_download_time;
    tokio::time::timeout(limit, fetch).await.unwrap_or_else(|_| {
        let detail = format!("its download takes longer than {} s", limit.as_secs());
        Err(PackageError::Refused { uri: uri.to_owned(), detail })
    })
}

/// Like [`fetch_error`], for a bucket error. Keeps only its text, which includes its causes.
fn bucket_error(uri: &str, error: &object_store::Error) -> PackageError {
    // The text ends with the body of the response, which may be empty.
    fetch_error(uri, error.to_string().trim_end_matches([':', ' ']).to_owned())
}

fn not_found(uri: &str) -> PackageError {
    PackageError::NotFound { uri: uri.to_owned(), detail: "there is no such file".to_owned() }
}

fn open(uri: &str, path: &Path) -> Result<File, PackageError> {
    // Without this flag, opening a pipe waits for a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("open flags fit a C int");
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => not_found(uri),
        _ => fetch_error(uri, error),
    })?;
    let metadata = file.metadata().map_err(|error| fetch_error(uri, error))?;
    if metadata.is_file() {
        return Ok(file);
    }
    let detail = if metadata.is_dir() {
        "it is a folder; pass the folder of a package as --package-path, or build an archive of it"
    } else {
        "it is not a regular file"
    };
    Err(PackageError::NotAPackage { uri: uri.to_owned(), detail: detail.to_owned() })
}

/// Returns the first bytes, the digest and the file.
fn read(mut file: File) -> io::Result<(Vec<u8>, [u8; 32], File)> {
    let mut start = Vec::with_capacity(archive::SIGNATURE_BYTES);
    (&file).take(archive::SIGNATURE_BYTES as u64).read_to_end(&mut start)?;
    file.rewind()?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((start, digest.finalize().into(), file)),
            Ok(length) => digest.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

async fn download(
    uri: &str,
    root: &Path,
    body: impl Stream<Item = Result<Bytes, Cause>>,
    rules: &PackageRules,
) -> Result<File, PackageError> {
    tracing::info!(package.uri = uri, "downloading");
    // The system removes an unnamed file when this process ends.
    let mut file = tempfile::tempfile_in(root).map_err(PackageError::io("create a file in", root))?;
    let mut body = std::pin::pin!(body);
    let mut received = 0;
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| fetch_error(uri, error))?;
        received += bytes.len() as u64;
        if received > rules.max_archive_bytes {
            let detail = format!("it has more than {} bytes", rules.max_archive_bytes);
            return Err(PackageError::Refused { uri: uri.to_owned(), detail });
        }
        file.write_all(&bytes).map_err(PackageError::io("write a file in", root))?;
    }
    file.rewind().map_err(PackageError::io("read a file in", root))?;
    Ok(file)
}

/// Starts a download. `object_store` is unsuitable: it drops the query with the signature of signed URLs.
async fn web(
    uri: &str,
    url: &Url,
    variables: &BTreeMap<OsString, OsString>,
    rules: &PackageRules,
) -> Result<impl Stream<Item = Result<Bytes, Cause>> + use<>, PackageError> {
    let refused = || PackageError::Refused {
        uri: uri.to_owned(),
        detail: format!("{NotPublic}; the operator may allow it with --allow-private-package-addresses"),
    };
    if !rules.allow_private_addresses && public_address::check(url).is_err() {
        return Err(refused());
    }
    // An error means that a provider is already installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    // Messages already contain `uri`, and the URL may contain a secret.
    let failed = |error: reqwest::Error| {
        let mut causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        if causes.any(|cause| cause.is::<NotPublic>()) { refused() } else { fetch_error(uri, error.without_url()) }
    };
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("tunesmith/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(SERVER_TIMEOUT)
        .read_timeout(SERVER_TIMEOUT)
        .redirect(public_address::redirects(rules.allow_private_addresses));
    if !rules.allow_private_addresses {
        client = client.dns_resolver(PublicResolver::new(variables));
    }
    let response = client.build().map_err(failed)?.get(url.clone()).send().await.map_err(failed)?;
    let response = match response.status() {
        status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => {
            return Err(PackageError::NotFound {
                uri: uri.to_owned(),
                detail: format!("the server answered {status}"),
            });
        }
        _ => response.error_for_status().map_err(failed)?,
    };
    Ok(stream::try_unfold(response, |mut response| async move {
        let chunk = response.chunk().await.map_err(|error| Cause::from(error.without_url()))?;
        Ok(chunk.map(|bytes| (bytes, response)))
    }))
}

async fn object(
    uri: &str,
    store: &dyn ObjectStore,
    address: &ObjectAddress,
) -> Result<impl Stream<Item = Result<Bytes, Cause>> + use<>, PackageError> {
    match store.get(address.path()).await {
        Ok(object) => Ok(object.into_stream().map(|bytes| bytes.map_err(|error| Cause::from(error.to_string())))),
        Err(object_store::Error::NotFound { .. }) => {
            Err(PackageError::NotFound { uri: uri.to_owned(), detail: "the bucket has no such object".to_owned() })
        }
        Err(error) => Err(bucket_error(uri, &error)),
    }
}
