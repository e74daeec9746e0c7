//! The number of connections, for each address and in all: a connection costs an open file, and anyone can open one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The limits on connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Maximum number of connections.
    pub total: usize,
    /// Maximum number of connections of one address.
    pub per_address: usize,
}

/// The number of open connections of each address.
#[derive(Debug)]
pub(super) struct OpenConnections {
    limits: ConnectionLimits,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of an open connection, which is free once this value is dropped.
#[derive(Debug)]
pub(super) struct Place {
    open: Arc<OpenConnections>,
    address: IpAddr,
}

impl OpenConnections {
    pub(super) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    /// A place for a connection of `address`; `None` if there are too many.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = counts.values().sum();
        let of_address = counts.get(&address).copied().unwrap_or(0);
        if total >= self.limits.total || of_address >= self.limits.per_address {
            return None;
        }
        counts.insert(address, of_address + 1);
        Some(Place { open: Arc::clone(self), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{ConnectionLimits, OpenConnections};

    #[test]
    fn connections_are_limited_for_each_address_and_in_all() {
        let limits = ConnectionLimits { total: 3, per_address: 2 };
        let open = OpenConnections::new(limits);
        let address = |last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
        let first = open.admit(address(1)).unwrap();
        let _second = open.admit(address(1)).unwrap();
        assert!(open.admit(address(1)).is_none(), "two of one address");
        let third = open.admit(address(2)).unwrap();
        assert!(open.admit(address(3)).is_none(), "three in all");
        drop(third);
        assert!(open.admit(address(1)).is_none());
        let _fourth = open.admit(address(3)).unwrap();
        drop(first);
        assert!(open.admit(address(1)).is_some());
        assert_eq!(open.counts.lock().unwrap().len(), 2);
    }
}
