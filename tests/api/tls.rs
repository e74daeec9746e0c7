//! The client's trust in certificates, and the certificate that a server makes for itself.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Finished, Workspace, finished};

/// Returns `tunesmith jobs list` through HTTPS, with the trusted certificates in the file `trusted`.
fn list(workspace: &Workspace, server: &str, trusted: Option<&str>) -> Finished {
    let mut command = workspace.command();
    command.args(["jobs", "list", "--format", "json", "--server", server]);
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
    if let Some(trusted) = trusted {
        command.env("TUNESMITH_CA_FILE", trusted);
    }
    finished(command.output().unwrap())
}

fn with_certificate(workspace: &Workspace, certificate: &str, key: &str) -> Server {
    Server::start(workspace, &["--tls-certificate", certificate, "--tls-key", key])
}

#[test]
fn certificate_of_openssl_is_accepted_when_it_is_named_and_explained_otherwise() {
    let workspace = Workspace::new("");
    let mut make = tunesmith_testing::program("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    make.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    make.args(["-keyout", "key.pem", "-out", "certificate.pem"]).current_dir(workspace.path()).stderr(Stdio::null());
    assert!(make.status().unwrap().success());
    let server = with_certificate(&workspace, "certificate.pem", "key.pem");
    let url = format!("https://{}", server.address);

    let listed = list(&workspace, &url, Some("certificate.pem")).expect(0);
    assert_eq!((listed.stdout.trim(), &*listed.stderr), ("[]", ""));

    let mut replacing = workspace.command();
    replacing.args(["jobs", "list", "--server", &url]).env("SSL_CERT_FILE", "certificate.pem");
    finished(replacing.output().unwrap()).expect(0);

    let refused = list(&workspace, &url, None).expect(1);
    let expected = format!(
        "error: the server {url} cannot be reached: its certificate is not trusted; set TUNESMITH_CA_FILE to a file with \
         that certificate, or with the certificate of its authority\n"
    );
    assert_eq!(refused.stderr, expected);

    let other_name = list(&workspace, &format!("https://localhost:{}", server.address.port()), Some("certificate.pem"));
    let other_name = other_name.expect(1).stderr;
    assert!(other_name.contains("its certificate is valid for other names") && other_name.contains("127.0.0.1"));

    let absent = list(&workspace, &url, Some("absent.pem")).expect(2).stderr;
    assert!(absent.starts_with("error: TUNESMITH_CA_FILE: absent.pem cannot be read"), "{absent}");
    let no_certificate = list(&workspace, &url, Some("key.pem")).expect(2).stderr;
    assert!(
        no_certificate.contains("TUNESMITH_CA_FILE: key.pem contains no certificate in PEM format"),
        "{no_certificate}"
    );
}

#[test]
fn expired_certificate_is_refused_also_when_it_is_named() {
    let workspace = Workspace::new("");
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(7200)).into();
    params.not_after = (now - Duration::from_secs(3600)).into();
    let key = KeyPair::generate().unwrap();
    std::fs::write(workspace.path().join("old.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(workspace.path().join("old-key.pem"), key.serialize_pem()).unwrap();
    let server = with_certificate(&workspace, "old.pem", "old-key.pem");
    let refused = list(&workspace, &format!("https://{}", server.address), Some("old.pem")).expect(1).stderr;
    assert!(refused.contains("its certificate has expired"), "{refused}");
}

#[test]
fn server_makes_a_certificate_once_that_clients_accept() {
    let workspace = Workspace::new("");
    let serve = ["--tls-self-signed", "tls", "--public-url", "https://tune.example.com:8443"];
    let made = {
        let server = Server::start(&workspace, &serve);
        for host in ["127.0.0.1", "localhost"] {
            let url = format!("https://{host}:{}", server.address.port());
            list(&workspace, &url, Some("tls/certificate.pem")).expect(0);
        }
        std::fs::read_to_string(workspace.path().join("tls/certificate.pem")).unwrap()
    };
    let mode = std::fs::metadata(workspace.path().join("tls/key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut text = tunesmith_testing::program("openssl");
    text.args(["x509", "-noout", "-text", "-in", "tls/certificate.pem"]);
    let text = finished(text.current_dir(workspace.path()).output().unwrap()).expect(0).stdout;
    assert!(text.contains("CA:FALSE") && text.contains("DNS:tune.example.com"), "{text}");

    // The next server uses the same one.
    let server = Server::start(&workspace, &serve);
    list(&workspace, &format!("https://{}", server.address), Some("tls/certificate.pem")).expect(0);
    assert_eq!(std::fs::read_to_string(workspace.path().join("tls/certificate.pem")).unwrap(), made);

    std::fs::remove_file(workspace.path().join("tls/key.pem")).unwrap();
    let half = ["serve", "--data-dir", "other", "--listen", "127.0.0.1:0", "--tls-self-signed", "tls"];
    let half = finished(workspace.command().args(half).output().unwrap()).expect(2).stderr;
    assert!(half.contains("only one of certificate.pem and key.pem exists"), "{half}");
}
