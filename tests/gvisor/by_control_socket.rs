//! The suite of sessions, by the sandbox's control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use runsc_driver::Driver;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::ExecVia;

use crate::common::{Place, pidfd, wait_readable};
use crate::library::sh;

#[allow(clippy::duplicate_mod, reason = "one suite runs over both ways")]
#[path = "sessions.rs"]
mod sessions;

/// How the suite's calls are started.
const VIA: ExecVia = ExecVia::ControlSocket;

/// A connection that stayed open would delay the sandbox's end by 15 s.
#[tokio::test]
async fn a_sandbox_ends_at_once_right_after_calls() {
    let place = Place::new();
    let driver = driver(&place);
    let within = |script: &str| {
        let mut call = sh(script);
        call.session = Some("s".into());
        call
    };
    for _ in 0..3 {
        driver.run(within("true")).await.unwrap();
    }
    assert_eq!(driver.describe().exec_via, Some(VIA));
    let ends: Vec<_> = place.processes().into_iter().filter_map(pidfd).collect();
    assert!(!ends.is_empty());
    let _ = driver.run(within("kill -9 1")).await;
    for end in ends {
        assert!(wait_readable(&end, Duration::from_secs(10)));
    }
    driver.close().await;
    place.assert_gone();
}

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(crate::library::made(place).exec_via(VIA))
}

/// The same with another runsc.
fn over(place: &Place, runsc: &Path) -> Arc<DirectDriver> {
    let made = crate::library::made_with(place, |options| options.runsc = runsc.into());
    Arc::new(made.exec_via(VIA))
}
