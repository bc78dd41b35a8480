//! What a container's network needs while the container runs: a resolver, and somebody who ends
//! the container when pasta ends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use nix::sys::signal::Signal;
use tokio::sync::oneshot;

use super::relay::{self, Sockets};
use crate::launch::sys;

/// A thread of its own, so that nothing depends on a runtime of the caller's. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Guard {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// `tied` is pasta and the runsc that ends with it, where that is ours to see to.
    pub(super) fn start(
        tied: Option<(OwnedFd, OwnedFd)>,
        resolver: Option<((OwnedFd, OwnedFd), Vec<SocketAddr>)>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let tied = {
            let _entered = runtime.enter();
            tied.map(|(pasta, runsc)| sys::awaitable(pasta).map(|pasta| (pasta, runsc)))
                .transpose()?
        };
        let resolver = {
            let _entered = runtime.enter();
            resolver
                .map(|(sockets, servers)| Sockets::new(sockets).map(|sockets| (sockets, servers)))
                .transpose()?
        };
        let watch = async move {
            let serve = async {
                match resolver {
                    Some((sockets, servers)) => relay::serve(sockets, servers).await,
                    None => std::future::pending().await,
                }
            };
            let tie = async {
                match tied {
                    Some((pasta, runsc)) => {
                        let _ = pasta.readable().await;
                        tracing::error!("pasta ended before its container, which goes with it");
                        let _ = sys::pidfd_kill(&runsc, Signal::SIGKILL);
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Told to stop, or left alone.
                _ = stopped => {}
                () = tie => {}
                () = serve => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("runsc-network".to_owned())
            .spawn(move || runtime.block_on(watch))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
