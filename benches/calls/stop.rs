//! Why a benchmark ends before its end. A signal is heeded between two rounds, so that what a
//! round started is ended as always.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug)]
pub enum Stop {
    Signal,
    Failed(String),
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Takes SIGINT, SIGTERM and SIGHUP from now on.
pub fn listen() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut int = signal(SignalKind::interrupt()).unwrap();
            let mut term = signal(SignalKind::terminate()).unwrap();
            let mut hup = signal(SignalKind::hangup()).unwrap();
            loop {
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                    _ = hup.recv() => {}
                }
                eprintln!("stopping after this round");
                STOPPED.store(true, Ordering::Relaxed);
            }
        });
    });
}

pub fn is_asked_for() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

pub fn check() -> Result<(), Stop> {
    if is_asked_for() {
        Err(Stop::Signal)
    } else {
        Ok(())
    }
}
