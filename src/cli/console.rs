//! Read-only consoles on the loopback interface: `tunesmith console`, and `tunesmith run --console`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::executor_args::executor_options_of_environment;
use super::folder_args::{DEFAULT_DATA_DIR, container_options_of_environment};
use super::output::print;
use crate::composition::{self, Application, Isolation};
use crate::pages::{self, Pages};
use crate::server_settings::ServerSettings;
use tunesmith_admission::ServiceAccess;
use tunesmith_data_dir::DataDir;
use tunesmith_http::AllowedHosts;
use tunesmith_http::server::{self, ConnectionLimits, Connections};

/// Maximum number of connections. A guess: one browser opens a few for each tab.
const CONNECTIONS: usize = 256;

/// Time limit of a request, and idle timeout of a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    /// Data folder with jobs, studies and trials. `tunesmith run` or another server may have it open, unless its store
    /// is sled.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
    /// Loopback address to listen on. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
}

/// Parses a loopback address.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected IP:PORT, such as 127.0.0.1:8080".to_owned())?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err("expected a loopback address, such as 127.0.0.1:8080: this console asks for no token".to_owned())
}

/// Serves the console of a data folder until SIGINT or SIGTERM.
pub(super) fn run(args: &ConsoleArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let data_dir = Arc::new(DataDir::open_read_only(&args.data_dir, "tunesmith console")?);
        let settings = ServerSettings::default();
        let (container, executor) = (container_options_of_environment()?, executor_options_of_environment()?);
        let isolation = Isolation::default();
        let composed = composition::compose(&data_dir, container, isolation, executor, settings, composition::MEMORY);
        let application = composed.await?;
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let console = LiveConsole::open(args.listen, &data_dir, application).await?;
        print(&format!("{}/console\n", console.url))?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        console.end().await;
        anyhow::Ok(())
    });
    // Abandons threads still reading files.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

/// Console without tokens, for the users of this machine.
pub(super) struct LiveConsole {
    /// Address with its scheme.
    pub(super) url: String,
    ended: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl LiveConsole {
    /// Serves `application` on the loopback address `listen`.
    ///
    /// # Errors
    /// If `data_dir` has tokens, or the address cannot be used.
    pub(super) async fn open(
        listen: SocketAddr,
        data_dir: &DataDir,
        application: Application,
    ) -> anyhow::Result<LiveConsole> {
        if composition::authenticator(data_dir)?.requires_tokens() {
            bail!(
                "the data folder {path} has access tokens, and this console asks for none; serve it with tunesmith \
                 serve --data-dir {path}",
                path = data_dir.path().display()
            );
        }
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        ensure!(address.ip().is_loopback(), "{address} is not a loopback address");
        let hosts = AllowedHosts::new(address.ip(), Vec::new());
        let service = application.http_service(ServiceAccess::ReadOnly, Some(hosts), REQUEST_TIMEOUT)?;
        let (ended, mut end) = watch::channel(false);
        let pages = Pages { server: None, single_sign_on: None, is_secure: false, ended: ended.subscribe() };
        let router = pages::router(service, pages);
        let limits = ConnectionLimits { total: CONNECTIONS, per_address: CONNECTIONS };
        let connections = Connections::plain(listener, limits);
        let serving = tokio::spawn(async move {
            let until = async move {
                // The sender lives as long as the console.
                let _ = end.wait_for(|is_ended| *is_ended).await;
            };
            server::serve(connections, router, IDLE_TIMEOUT, until).await;
        });
        Ok(Self { url: format!("http://{address}"), ended, serving })
    }

    /// Ends open streams and waits for requests in progress, at most a second.
    pub(super) async fn end(self) {
        self.ended.send_replace(true);
        let _ = tokio::time::timeout(Duration::from_secs(1), self.serving).await;
    }
}

#[cfg(test)]
mod tests {
    use super::loopback;

    #[test]
    fn only_loopback_addresses_are_accepted() {
        for good in ["127.0.0.1:0", "127.9.0.1:8080", "[::1]:8080"] {
            assert_eq!(loopback(good).unwrap().to_string(), good);
        }
        for bad in ["0.0.0.0:8080", "10.0.0.1:80", "8080", "localhost"] {
            assert!(loopback(bad).is_err(), "{bad}");
        }
    }
}
