//! The contract kit on the cluster of `KUBECONFIG`, which must be meant for tests.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `KUBECONFIG` | the cluster; without it, the test states that it was not run | |
//! | `TUNESMITH_TEST_KUBERNETES_NAMESPACE` | an existing namespace | that of the configuration |
//! | `TUNESMITH_TEST_KUBERNETES_AGENT_IMAGE` | an image with this build, by `packaging/images` | `tunesmith:test` |
//! | `TUNESMITH_TEST_KUBERNETES_IMAGE` | an image with `sh`, and a C library that runs this build | `debian:bookworm-slim` |
//! | `TUNESMITH_TEST_KUBERNETES_HOST` | an address of this machine that pods reach | the one that reaches the API server |

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use tunesmith_contract::executor::Harness;
use tunesmith_executor::Executor;
use tunesmith_executor::remote::{Inbox, RemoteExecutor};
use tunesmith_kubernetes::{KubernetesEngine, KubernetesSettings, PodSettings};

use crate::agent_contract;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

struct OnCluster {
    folder: TempDir,
    inbox: Arc<Inbox>,
    config: kube::Config,
    server: OnceLock<String>,
}

impl OnCluster {
    fn new(config: &kube::Config) -> Self {
        let folder = TempDir::new().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().join("inbox")));
        Self { folder, inbox, config: config.clone(), server: OnceLock::new() }
    }

    /// The address of this machine in the network of the cluster.
    fn host(&self) -> IpAddr {
        if let Some(host) = variable("TUNESMITH_TEST_KUBERNETES_HOST") {
            return host.parse().expect("TUNESMITH_TEST_KUBERNETES_HOST is an IP address");
        }
        let url = &self.config.cluster_url;
        let address = (url.host().unwrap().trim_matches(['[', ']']), url.port_u16().unwrap_or(443));
        let address = address.to_socket_addrs().expect("the API server has an address").next().unwrap();
        let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
        socket.connect(address).unwrap();
        socket.local_addr().unwrap().ip()
    }

    fn engine(&self) -> KubernetesEngine {
        let start = || agent_contract::serve_on(self.host(), &self.inbox, self.directory());
        let settings = KubernetesSettings {
            queues: Default::default(),
            store: None,
            cluster: Default::default(),
            namespace: variable("TUNESMITH_TEST_KUBERNETES_NAMESPACE"),
            pods: PodSettings {
                agent_image: variable("TUNESMITH_TEST_KUBERNETES_AGENT_IMAGE")
                    .unwrap_or_else(|| "tunesmith:test".to_owned()),
                agent_path: "/usr/local/bin/tunesmith-agent".to_owned(),
                default_image: Some(
                    variable("TUNESMITH_TEST_KUBERNETES_IMAGE").unwrap_or_else(|| "debian:bookworm-slim".to_owned()),
                ),
                server: Some(self.server.get_or_init(start).clone()),
                working_directory: Some("/tmp".to_owned()),
                ..PodSettings::default()
            },
            registry: self.folder.path().join("kubernetes"),
        };
        KubernetesEngine::new(settings, self.config.clone()).unwrap()
    }
}

impl Harness for OnCluster {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(RemoteExecutor::new(self.engine(), Arc::clone(&self.inbox)))
    }

    fn directory(&self) -> &Path {
        self.folder.path()
    }

    fn working_directory(&self) -> &Path {
        Path::new("/tmp")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_of_kubeconfig_passes_the_contract_kit() {
    if variable("KUBECONFIG").is_none() {
        eprintln!("not run: KUBECONFIG names no cluster for tests");
        return;
    }
    // It fails if one is installed.
    drop(rustls::crypto::ring::default_provider().install_default());
    let config = kube::Config::infer().await.expect("KUBECONFIG can be read");
    OnCluster::new(&config).engine().check().await.expect("the cluster can be used");
    tunesmith_contract::executor_contract!(in order OnCluster::new(&config));
}
