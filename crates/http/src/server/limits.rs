//! Connection limits: each connection costs a file descriptor, and anyone can open one.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tunesmith_access::PerPrincipal;

#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    pub total: usize,
    pub per_address: usize,
}

/// Free slots, in total and per address.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    total: Arc<Semaphore>,
    of_addresses: PerPrincipal,
}

/// Slot of an open connection, freed on drop.
#[derive(Debug)]
pub(super) struct Slot {
    _of_address: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        let total = limits.total.min(Semaphore::MAX_PERMITS);
        let of_addresses = PerPrincipal::new(limits.per_address.min(Semaphore::MAX_PERMITS));
        Self { total: Arc::new(Semaphore::new(total)), of_addresses }
    }

    /// Acquires a slot for a connection from `address`; `None` above a limit.
    pub(super) fn take(&self, address: IpAddr) -> Option<Slot> {
        let of_address = self.of_addresses.of(&address.to_string()).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.total).try_acquire_owned().ok()?;
        Some(Slot { _of_address: of_address, _of_all: of_all })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{ConnectionLimits, ConnectionSlots};

    #[test]
    fn connections_are_limited_for_each_address_and_in_total() {
        let slots = ConnectionSlots::new(ConnectionLimits { total: 3, per_address: 2 });
        let address = |last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
        let first = slots.take(address(1)).unwrap();
        let _second = slots.take(address(1)).unwrap();
        assert!(slots.take(address(1)).is_none(), "two of one address");
        let third = slots.take(address(2)).unwrap();
        assert!(slots.take(address(3)).is_none(), "three in total");
        drop(third);
        assert!(slots.take(address(1)).is_none());
        let _fourth = slots.take(address(3)).unwrap();
        drop(first);
        assert!(slots.take(address(1)).is_some());
    }
}
