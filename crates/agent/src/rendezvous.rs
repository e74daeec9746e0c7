//! Address of a replica in an attempt with replicas elsewhere.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpSocket, UdpSocket};

use tunesmith_client::addresses;

/// Port reserved on this machine until the program starts.
#[derive(Debug)]
pub(super) struct Reserved {
    /// Bound but not listening, so that connections of other replicas are refused.
    _socket: TcpSocket,
    pub(super) address: SocketAddr,
}

impl Reserved {
    /// Reserves `port`, or a free one, on the interface with the address `host`.
    ///
    /// # Errors
    /// If the port is in use.
    pub(super) fn new(host: IpAddr, port: Option<u16>) -> io::Result<Self> {
        let socket = if host.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        let any = if host.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        socket.bind((if host.is_loopback() { host } else { any }, port.unwrap_or(0)).into())?;
        let address = SocketAddr::new(host, socket.local_addr()?.port());
        Ok(Self { _socket: socket, address })
    }
}

/// Address of this machine used to reach the server `url`. Sends nothing.
///
/// # Errors
/// If there is no route.
pub(super) async fn host_towards(url: &reqwest::Url) -> io::Result<IpAddr> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(0);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("the name {host} has no address"));
    for target in addresses(host, port).await? {
        let any = if target.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let socket = UdpSocket::bind((any, 0)).await?;
        match socket.connect(target).await {
            Ok(()) => return Ok(socket.local_addr()?.ip()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn address_is_that_of_the_interface_and_its_port_is_kept() {
        let url = "http://127.0.0.1:9".parse().unwrap();
        let host = host_towards(&url).await.unwrap();
        assert_eq!(host, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let reserved = Reserved::new(host, None).unwrap();
        let port = reserved.address.port();
        assert!(port > 0);
        assert!(std::net::TcpStream::connect(reserved.address).is_err(), "nothing listens");
        assert!(Reserved::new(host, Some(port)).is_err(), "it is taken");
        drop(reserved);
        std::net::TcpListener::bind((host, port)).unwrap();
    }
}
