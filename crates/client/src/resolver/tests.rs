use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tempfile::TempDir;
use tokio::net::UdpSocket;

use super::*;

/// A root file system and a name server on the loopback interface.
struct Root {
    folder: TempDir,
    port: u16,
    /// Queries received by the name server.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Root {
    /// Creates a root whose name server has A records for `names`.
    async fn new(hosts: &str, resolv_conf: &str, names: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hosts"), hosts).unwrap();
        std::fs::write(folder.path().join("resolv.conf"), resolv_conf).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let names = names.iter().map(|(name, address)| ((*name).to_owned(), address.parse().unwrap())).collect();
        tokio::spawn(answer(socket, names, Arc::clone(&asked)));
        Self { folder, port, asked }
    }

    fn resolver(&self) -> FileResolver {
        let path = |name| self.folder.path().join(name);
        FileResolver { hosts: path("hosts"), resolv_conf: path("resolv.conf"), port: self.port }
    }

    async fn addresses(&self, name: &str) -> Result<Vec<String>, String> {
        let found = self.resolver().addresses(name).await.map_err(|error| error.to_string())?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    /// A queries received, in order.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers A queries for `names`; other names do not exist.
async fn answer(socket: UdpSocket, names: BTreeMap<String, Ipv4Addr>, asked: Arc<Mutex<Vec<String>>>) {
    let mut bytes = [0; 4096];
    loop {
        let (size, client): (usize, SocketAddr) = socket.recv_from(&mut bytes).await.unwrap();
        let mut message = Message::from_vec(&bytes[..size]).unwrap();
        let query = message.queries[0].clone();
        message.metadata.message_type = MessageType::Response;
        message.metadata.recursion_available = true;
        let name = query.name().to_string();
        match names.get(&name) {
            Some(address) if query.query_type() == RecordType::A => {
                let data = RData::A((*address).into());
                message.add_answer(Record::from_rdata(query.name().clone(), 5, data));
            }
            Some(_) => {}
            None => message.metadata.response_code = ResponseCode::NXDomain,
        }
        if query.query_type() == RecordType::A {
            asked.lock().unwrap().push(name);
        }
        socket.send_to(&message.to_vec().unwrap(), client).await.unwrap();
    }
}

/// As written by the kubelet.
const POD: &str =
    "search tuning.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n";

#[tokio::test]
async fn service_of_a_cluster_is_found_through_the_search_domains() {
    let root = Root::new("", POD, &[("tunesmith.tuning.svc.cluster.local.", "10.96.0.7")]).await;
    assert_eq!(root.addresses("tunesmith").await.unwrap(), ["10.96.0.7"]);
    assert_eq!(root.asked(), ["tunesmith.tuning.svc.cluster.local."]);
    assert_eq!(root.addresses("tunesmith.tuning.svc").await.unwrap(), ["10.96.0.7"]);
    let tried = [
        "tunesmith.tuning.svc.tuning.svc.cluster.local.",
        "tunesmith.tuning.svc.svc.cluster.local.",
        "tunesmith.tuning.svc.cluster.local.",
    ];
    assert_eq!(root.asked()[1..], tried);
}

#[tokio::test]
async fn name_with_enough_dots_is_asked_for_as_it_is_first() {
    let conf = POD.replace("ndots:5", "ndots:2");
    let root = Root::new("", &conf, &[("server.example.com.", "192.0.2.1")]).await;
    assert_eq!(root.addresses("server.example.com").await.unwrap(), ["192.0.2.1"]);
    assert_eq!(root.asked(), ["server.example.com."]);
    // A final dot disables the search domains.
    assert!(root.addresses("server.").await.is_err());
    assert_eq!(root.asked()[1..], ["server."]);
}

#[tokio::test]
async fn hosts_come_before_name_servers() {
    let hosts = "# own names\n127.0.0.1\tlocalhost\n::1 localhost\n192.0.2.9  server  Server.Example.com # a comment\n";
    let root = Root::new(hosts, POD, &[("server.tuning.svc.cluster.local.", "10.0.0.1")]).await;
    assert_eq!(root.addresses("server").await.unwrap(), ["192.0.2.9"]);
    assert_eq!(root.addresses("server.example.COM").await.unwrap(), ["192.0.2.9"]);
    assert_eq!(root.addresses("localhost").await.unwrap(), ["127.0.0.1", "::1"]);
    assert_eq!(root.addresses("192.0.2.8").await.unwrap(), ["192.0.2.8"]);
    assert_eq!(root.addresses("2001:db8::1").await.unwrap(), ["2001:db8::1"]);
    assert!(root.asked().is_empty());
}

#[tokio::test]
async fn root_without_files_knows_the_loopback_interface_only() {
    let root = Root::new("", POD, &[]).await;
    for name in ["hosts", "resolv.conf"] {
        std::fs::remove_file(root.folder.path().join(name)).unwrap();
    }
    assert_eq!(root.addresses("localhost").await.unwrap(), ["127.0.0.1", "::1"]);
    let error = root.addresses("server").await.unwrap_err();
    let path = root.folder.path().join("resolv.conf");
    let expected = format!("{} cannot be used to resolve the name server: No such file", path.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn unknown_name_is_named_in_the_error() {
    let root = Root::new("", POD, &[]).await;
    let error = root.addresses("server").await.unwrap_err();
    assert!(error.starts_with("the name server cannot be resolved: "), "{error}");
    let asked = ["server.tuning.svc.cluster.local.", "server.svc.cluster.local.", "server.cluster.local.", "server."];
    assert_eq!(root.asked(), asked);
}
