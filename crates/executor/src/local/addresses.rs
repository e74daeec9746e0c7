//! Addresses of replicas on one machine.

use std::io;
use std::net::TcpListener;

/// Returns distinct addresses of this machine that are free at the time of the call. They are released before the first
/// program starts, since a listener of this process would accept connections meant for a program.
pub(super) fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(TcpListener::bind(("127.0.0.1", 0))?);
    }
    held.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}

/// Addresses on this machine with consecutive ports from `first` on, which must be free.
pub(super) fn consecutive_addresses(first: u16, count: usize) -> Result<Vec<String>, String> {
    let mut addresses = Vec::with_capacity(count);
    for index in 0..count {
        let port = u16::try_from(index).ok().and_then(|index| first.checked_add(index));
        let port = port.ok_or_else(|| format!("{count} replicas need ports above 65535, starting at {first}"))?;
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
        addresses.push(listener.local_addr().map_err(|error| format!("port {port}: {error}"))?.to_string());
    }
    Ok(addresses)
}
