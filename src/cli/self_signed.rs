//! Self-signed certificate of a server.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256};

use super::output::notice;

/// Validity in days. Ten years, since a new certificate must be distributed to every client.
const VALID_DAYS: i64 = 3650;

/// Paths of a certificate and its key.
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Returns the certificate and key in `folder`. If there are none, creates a certificate for this machine's name, its
/// loopback addresses, `listen`, and `hosts`.
///
/// # Errors
/// If a file cannot be written, or if only one of the two exists.
pub(super) fn pair(folder: &Path, listen: IpAddr, hosts: impl Iterator<Item = String>) -> anyhow::Result<Pair> {
    let pair = Pair { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
    match (pair.certificate.try_exists()?, pair.key.try_exists()?) {
        (true, true) => return Ok(pair),
        (false, false) => {}
        (true, false) | (false, true) => bail!(
            "--tls-self-signed {}: only one of certificate.pem and key.pem exists; remove it to make both anew",
            folder.display()
        ),
    }
    let names = names(listen, hosts);
    let mut params = CertificateParams::new(names.clone()).context("a name of the certificate is invalid")?;
    params.distinguished_name.push(DnType::CommonName, "tunesmith");
    params.is_ca = IsCa::ExplicitNoCa;
    // No key usages: one without the signing of certificates is no root for BoringSSL, which gRPC uses, and one with it is
    // refused by strict clients, since this is not the certificate of an authority.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = std::time::SystemTime::now();
    // Tolerates clients whose clock is behind.
    params.not_before = (now - std::time::Duration::from_secs(86_400)).into();
    params.not_after = params.not_before + std::time::Duration::from_secs(VALID_DAYS.unsigned_abs() * 86_400);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    // Key first: the certificate is useless without it.
    write(&pair.key, &key.serialize_pem(), 0o600)?;
    write(&pair.certificate, &certificate.pem(), 0o644)?;
    File::open(folder).and_then(|folder| folder.sync_all())?;
    notice(&format!(
        "made the certificate {} for {}; clients trust it with TUNESMITH_CA_FILE={}",
        pair.certificate.display(),
        names.join(", "),
        pair.certificate.display()
    ));
    Ok(pair)
}

fn names(listen: IpAddr, hosts: impl Iterator<Item = String>) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let mut names = vec!["localhost".to_owned()];
    names.extend(loopback.map(|address| address.to_string()));
    names.extend((!listen.is_unspecified()).then(|| listen.to_string()));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    names.extend(Some(host.as_str()).filter(|name| !name.is_empty()).filter(is_name).map(str::to_owned));
    names.extend(hosts.map(|name| name.trim_matches(['[', ']']).to_owned()));
    let mut known = std::collections::BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

/// Durably writes a new file.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let create = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    create().with_context(|| format!("{} cannot be written", path.display()))
}
