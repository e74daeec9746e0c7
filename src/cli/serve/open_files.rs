//! Open file limit, shared between connections, programs and the store.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ServeArgs;
use tunesmith_http::server::ConnectionLimits;

/// Default maximum number of connections. A guess, far above a cluster's agents.
const DEFAULT_CONNECTIONS: u32 = 8192;

/// Connection limits that leave half of the file descriptors to jobs and the store. Raises the soft limit as needed
/// and permitted.
pub(super) fn connection_limits(args: &ServeArgs) -> ConnectionLimits {
    let wanted = args.connections.unwrap_or(DEFAULT_CONNECTIONS);
    let files = open_files(u64::from(wanted) * 2);
    let half = files.map_or(u64::MAX, |files| (files / 2).max(1));
    if args.connections.is_some() && half < u64::from(wanted) {
        tracing::warn!(
            "the limit of {} open files allows {half} connections, not {wanted}: raise its hard limit to {} with ulimit -n",
            files.unwrap_or_default(),
            u64::from(wanted) * 2,
        );
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let total = count(half.min(u64::from(wanted)));
    let per_address = args.connections_per_address.map_or(total.div_ceil(2), |number| count(number.into()));
    ConnectionLimits { total, per_address }
}

/// Raises the soft limit to `wanted`, capped by the hard limit, and returns it; `None` if unlimited.
fn open_files(wanted: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if raised <= current {
        return Some(current);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit }) {
        Ok(()) => Some(raised),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the limit of open files cannot be raised");
            Some(current)
        }
    }
}
