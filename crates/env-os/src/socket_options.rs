//! How our sockets behave, whoever made the connection.
//!
//! - OP1: a peer whose machine is gone is noticed, though nothing is sent to it: it would keep its
//!   descriptor for ever.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::time::Duration;

/// After so long without a byte the kernel asks the peer's whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// It asks again after so long,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// and gives up after so many times (OP1).
const KEEPALIVE_COUNT: u32 = 3;
/// How long bytes may be on their way, or wait for a peer that takes none, where nobody says
/// otherwise.
pub(crate) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// Prepares a socket of a connection, which is lost when the other machine takes no byte for so
/// long.
///
/// # Errors
/// The connection is of no use any more.
pub(crate) fn prepare(socket: impl AsFd, untaken_max: Duration) -> Result<(), Errno> {
    let socket = socket.as_fd();
    // Small answers do not wait for more to say.
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    let untaken = u32::try_from(untaken_max.as_millis()).expect("a few seconds");
    sockopt::set_tcp_user_timeout(socket, untaken)
}

#[cfg(test)]
mod tests {
    use super::{UNTAKEN_TIME_MAX, prepare};
    use rustix::net::sockopt;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_peer_that_is_gone_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        prepare(&socket, UNTAKEN_TIME_MAX).expect("an open connection");
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_user_timeout(&socket), Ok(60_000));
        assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
    }
}
