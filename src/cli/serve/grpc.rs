//! gRPC listener, which serves the storage of Optuna studies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::FutureExt;
use tokio::net::TcpListener;

use super::ServeArgs;
use crate::cli::output::notice;
use tunesmith_admission::{Access, AccessControl, Owner, ServiceAccess};
use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_optuna::{OptunaServer, Storage};
use tunesmith_studies::clock::Clock;

/// Principal of all changes in the audit log, since clients have no credentials.
const PRINCIPAL: &str = "listener:grpc";

/// Checks the arguments before anything is opened.
///
/// # Errors
/// If the address is not loopback, or the store is shared with other servers.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    let Some(address) = args.grpc_listen else { return Ok(()) };
    if !address.ip().is_loopback() && !args.grpc_allow_remote {
        bail!(
            "--grpc-listen {address}: the protocol has no credentials, and every client that reaches this address could \
             change all Optuna studies; listen on the loopback interface (127.0.0.1 or [::1]), or add \
             --grpc-allow-remote in a network whose every host is trusted"
        );
    }
    if args.store.source()?.kind() == StoreKind::Postgres {
        bail!(
            "--grpc-listen {address}: Optuna studies are stored in the data folder of one server, not in a PostgreSQL \
             database; start another server for them, with --store sqlite and a data folder of its own"
        );
    }
    Ok(())
}

/// A bound listener and the storage that it serves.
pub(super) struct GrpcListener {
    listener: TcpListener,
    address: SocketAddr,
    storage: Storage,
    /// Lease of running trials.
    lease: Option<Duration>,
    /// Access rules, which record in the audit logs of the server.
    access: ServiceAccess,
}

impl GrpcListener {
    /// Binds the address of `args` and opens the storage in `data_dir`; `None` without an address.
    ///
    /// # Errors
    /// If the address is in use, or the storage cannot be opened.
    pub(super) async fn open(args: &ServeArgs, data_dir: &DataDir, access: &Access) -> anyhow::Result<Option<Self>> {
        let Some(address) = args.grpc_listen else { return Ok(None) };
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let path = data_dir.optuna();
        let opened = tokio::task::spawn_blocking(move || Storage::open(&path)).await?;
        let storage = opened.with_context(|| format!("cannot open {}", data_dir.optuna().display()))?;
        let lease = args.optuna_trial_lease.map(|seconds| Duration::from_secs(seconds.into()));
        if access.authenticator.requires_tokens() {
            tracing::warn!(%address, "clients of the gRPC listener need no token");
        }
        let access = ServiceAccess::Owner(Owner {
            principal: PRINCIPAL.to_owned(),
            admin_activity: Arc::clone(&access.admin_activity),
            data_access: access.data_access.clone(),
            refuses_unrecorded: access.refuses_unrecorded,
        });
        Ok(Some(Self { listener, address, storage, lease, access }))
    }

    /// Prints the address.
    pub(super) fn announce(&self) {
        notice(&format!("listening for gRPC on {}", self.address));
    }

    /// Serves until `end` is complete, then waits for the calls in progress.
    pub(super) async fn serve(self, clock: Arc<dyn Clock>, time_limit: Duration, end: impl Future<Output = ()>) {
        let no_policies = Box::new(|_| futures::future::ready(None).boxed());
        let now = Arc::clone(&clock);
        let control = Arc::new(AccessControl::new(self.access, no_policies, move || now.now(), time_limit));
        let server = OptunaServer::new(self.storage, control, Arc::new(move || clock.now()), self.lease);
        server.serve(self.listener, end).await;
    }
}
