//! A network between a server and its clients that fails.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// Connections are closed, and no new ones accepted.
    Refuses,
    /// Connections stay open, and nothing passes.
    Hangs,
}

/// Passes connections on to a server.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    server: OnceLock<SocketAddr>,
    network: Mutex<Network>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
    refused: AtomicUsize,
}

impl Proxy {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self(Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            server: OnceLock::new(),
            network: Mutex::new(Network::Works),
            changed: Condvar::new(),
            open: Mutex::default(),
            refused: AtomicUsize::new(0),
        }));
        let own = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                own.accept(client);
            }
        });
        proxy
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The server, whose address may be known only after that of the proxy.
    pub(crate) fn connect_to(&self, server: SocketAddr) {
        self.0.server.set(server).unwrap();
    }

    /// The number of connections that it did not accept.
    pub(crate) fn refused(&self) -> usize {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn accept(&self, client: TcpStream) {
        if *self.0.network.lock().unwrap() == Network::Refuses {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(Ok(server)) = self.0.server.get().map(TcpStream::connect) else { return };
        let copies = |stream: &TcpStream| stream.try_clone().unwrap();
        self.0.open.lock().unwrap().extend([copies(&client), copies(&server)]);
        for (from, to) in [(copies(&client), copies(&server)), (server, client)] {
            let own = self.clone();
            std::thread::spawn(move || own.pass(from, to));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = from.read(&mut bytes).unwrap_or(0);
            let mut network = self.0.network.lock().unwrap();
            while *network == Network::Hangs {
                network = self.0.changed.wait(network).unwrap();
            }
            drop(network);
            if read == 0 || to.write_all(&bytes[..read]).is_err() {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }

    pub(crate) fn set(&self, network: Network) {
        *self.0.network.lock().unwrap() = network;
        self.0.changed.notify_all();
        let mut open = self.0.open.lock().unwrap();
        if network == Network::Refuses {
            for stream in open.drain(..) {
                // The other side may have closed it.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}
