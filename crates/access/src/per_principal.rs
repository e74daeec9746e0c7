use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Semaphores of principals with permits in use.
#[derive(Debug)]
pub struct PerPrincipal {
    permits: usize,
    of: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl PerPrincipal {
    pub fn new(permits: usize) -> Self {
        Self { permits, of: Mutex::default() }
    }

    pub fn permits(&self) -> usize {
        self.permits
    }

    pub fn of(&self, principal: &str) -> Arc<Semaphore> {
        let mut of = self.of.lock();
        if let Some(permits) = of.get(principal).and_then(Weak::upgrade) {
            return permits;
        }
        // Without permits in use, a principal has all of them.
        of.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(self.permits));
        of.insert(principal.to_owned(), Arc::downgrade(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::PerPrincipal;

    #[test]
    fn principals_have_permits_of_their_own() {
        let permits = PerPrincipal::new(1);
        let first = permits.of("a").try_acquire_owned().unwrap();
        assert!(permits.of("a").try_acquire_owned().is_err());
        let _other = permits.of("b").try_acquire_owned().unwrap();
        assert_eq!(permits.of.lock().len(), 2);
        drop(first);
        let _again = permits.of("a").try_acquire_owned().unwrap();
        let _third = permits.of("c").try_acquire_owned().unwrap();
        assert_eq!(permits.of.lock().len(), 3);
    }
}
