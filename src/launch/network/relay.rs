//! The container's resolver: asked inside its namespace, it asks the host's resolvers from
//! outside.
//!
//! So it reaches a resolver on the host's loopback, whatever its address, and no name query
//! crosses pasta, which would mix the datagrams of two containers. It reads of a message
//! nothing but its number.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The most questions and connections that are served at once; others are not answered.
const AT_ONCE: usize = 64;
/// How long one resolver may take to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How long a connection may last.
const CONNECTION: Duration = Duration::from_secs(30);
/// How long to leave a socket alone that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest message.
const LONGEST: usize = 65_535;

/// The two sockets in the namespace.
pub(super) struct Sockets {
    datagrams: Arc<UdpSocket>,
    listener: TcpListener,
}

impl Sockets {
    /// Within a runtime.
    pub(super) fn new((datagrams, listener): (OwnedFd, OwnedFd)) -> io::Result<Self> {
        Ok(Self {
            datagrams: Arc::new(UdpSocket::from_std(datagrams.into())?),
            listener: TcpListener::from_std(listener.into())?,
        })
    }
}

/// Serves until it is dropped.
pub(super) async fn serve(sockets: Sockets, servers: Vec<SocketAddr>) {
    let servers: Arc<[SocketAddr]> = servers.into();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    let mut buffer = vec![0; LONGEST];
    loop {
        while tasks.try_join_next().is_some() {}
        tokio::select! {
            received = sockets.datagrams.recv_from(&mut buffer) => {
                let Ok((length, from)) = received else { continue };
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let query = buffer[..length].to_vec();
                let (servers, socket) = (Arc::clone(&servers), Arc::clone(&sockets.datagrams));
                tasks.spawn(async move {
                    if let Some(answer) = ask(&servers, &query).await {
                        let _ = socket.send_to(&answer, from).await;
                    }
                    drop(permit);
                });
            }
            accepted = sockets.listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Too many files are open, say: it would be told so again at once.
                    let _ = timeout(PAUSE, std::future::pending::<()>()).await;
                    continue;
                };
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let servers = Arc::clone(&servers);
                tasks.spawn(async move {
                    let _ = timeout(CONNECTION, join(&servers, stream)).await;
                    drop(permit);
                });
            }
        }
    }
}

/// The first answer that a resolver gives.
async fn ask(servers: &[SocketAddr], query: &[u8]) -> Option<Vec<u8>> {
    for server in servers {
        if let Ok(Ok(answer)) = timeout(ANSWER, ask_one(*server, query)).await {
            return Some(answer);
        }
    }
    None
}

async fn ask_one(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut answer = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut answer).await?;
        // Its number is its first two bytes (RFC 1035, 4.1.1).
        if length >= 2 && answer[..2] == query[..query.len().min(2)] {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

/// Joins a connection to the first resolver that takes one.
async fn join(servers: &[SocketAddr], mut stream: TcpStream) -> io::Result<()> {
    for server in servers {
        if let Ok(Ok(mut upstream)) = timeout(ANSWER, TcpStream::connect(server)).await {
            tokio::io::copy_bidirectional(&mut stream, &mut upstream).await?;
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn local() -> (UdpSocket, TcpListener) {
        // One port for both, as resolvers have it.
        loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                return (udp, tcp);
            }
        }
    }

    #[tokio::test]
    async fn a_question_is_answered_by_the_first_resolver_that_does() {
        let (udp, tcp) = local().await;
        // Nothing listens at the first.
        let dead = local().await.0.local_addr().unwrap();
        let servers = vec![dead, udp.local_addr().unwrap()];
        let (datagrams, listener) = local().await;
        let at = datagrams.local_addr().unwrap();
        let sockets = Sockets {
            datagrams: Arc::new(datagrams),
            listener,
        };
        let relay = tokio::spawn(serve(sockets, servers));
        let answering = tokio::spawn(async move {
            let mut buffer = [0; 512];
            let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
            // Another number's answer is not passed on.
            udp.send_to(b"xxno", from).await.unwrap();
            let answer = [&buffer[..length], b" answered"].concat();
            udp.send_to(&answer, from).await.unwrap();
            let (mut stream, _) = tcp.accept().await.unwrap();
            let length = stream.read(&mut buffer).await.unwrap();
            stream.write_all(&buffer[..length]).await.unwrap();
        });

        let asker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        asker.send_to(b"q1?", at).await.unwrap();
        let mut answer = [0; 64];
        let (length, from) = asker.recv_from(&mut answer).await.unwrap();
        assert_eq!((&answer[..length], from), (b"q1? answered".as_slice(), at));
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(b"over tcp").await.unwrap();
        let mut echoed = String::new();
        stream.read_to_string(&mut echoed).await.unwrap();
        assert_eq!(echoed, "over tcp");
        answering.await.unwrap();
        relay.abort();
    }
}
