//! The network of a step and its children.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use serde_json::json;

use crate::common::{command_line, processes_of};
use crate::session::Session;

/// What the host's server says, or nothing where it cannot be reached.
const DIAL: &str = "import json,os,socket,sys\n\
    def dial(port):\n\
    \x20   try:\n\
    \x20       with socket.create_connection(('host.docker.internal', port), 10) as to:\n\
    \x20           return to.recv(99).decode()\n\
    \x20   except OSError:\n\
    \x20       return None\n";

#[test]
fn a_step_and_its_children_have_the_network_that_was_asked_for_and_else_none() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = closed.local_addr().unwrap().port();
    let step = format!(
        "{DIAL}\nsaid = launch(child_id(HOST['ids'][0])).stdout.read().decode()\n\
         report([[dial({port}), dial({other})], json.loads(said)['subrun_report']])\n"
    );
    let child = format!(
        "{DIAL}\nsys.stdin.readline()\n\
         print(json.dumps({{'subrun_report': [dial({port}), dial({other})]}}))\n"
    );
    let mut session = Session::new(1, &step, &child);
    // It ends with the test's process.
    let dir = session.place.dir.path().to_owned();
    thread::spawn(move || {
        for client in server.incoming().flatten() {
            let _ = (&client).write_all(layout_of(&dir).as_bytes());
        }
    });
    let allowed = format!("host.docker.internal:{port}");
    for (revision, layout) in [(1, "holder"), (2, "wrap")] {
        session.plan["run"]["revision"] = json!(revision);
        let network = ["--network", "sandbox", "--egress", &allowed];
        let flags = [&network[..], &["--network-layout", layout]].concat();
        let handed = session.run_with(&flags);
        handed.assert_success();
        assert_eq!(
            handed.output(&session, "report.json"),
            json!([[layout, null], [layout, null]])
        );
    }
    session.plan["run"]["revision"] = json!(3);
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.output(&session, "report.json"),
        json!([[null, null], [null, null]])
    );
}

/// How the sandbox that is up has its network: only pasta around runsc names it.
fn layout_of(dir: &Path) -> &'static str {
    let lines = processes_of(dir).into_iter().map(command_line);
    match lines.into_iter().any(|line| line.contains("/setpriv ")) {
        true => "wrap",
        false => "holder",
    }
}
