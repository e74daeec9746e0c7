//! Several stores of one database as one: each call goes to the next of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tunesmith_contract::store::{Forward, Forwarding};
use tunesmith_store::{PostgresStore, Store};

pub(super) type Several = Forwarding<RoundRobin>;

pub(super) struct RoundRobin {
    stores: Vec<PostgresStore>,
    next: AtomicUsize,
}

pub(super) fn several(stores: Vec<PostgresStore>) -> Several {
    Forwarding(RoundRobin { stores, next: AtomicUsize::new(0) })
}

impl Forward for RoundRobin {
    fn store(&self) -> &dyn Store {
        &self.stores[self.next.fetch_add(1, Ordering::Relaxed) % self.stores.len()]
    }
}
