//! From inside a sandbox to the broker and back.

use std::sync::Arc;

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::config::{MountKind, MountRequest};
use runsc_driver::direct::DirectDriver;
use runsc_driver::handoff::broker::{
    Broker, ChildPlace, Grant, KindSpec, Limits, MakeChild, Records,
};
use runsc_driver::handoff::host::{Block, ChildTemplate, Kind};
use runsc_driver::{Call, Driver, NetworkMode, SandboxConfig, SandboxOptions};

use crate::common::{NOT_HUNG, Place, is_root, store};
use crate::session::Session;

fn options(place: &Place, work: &std::path::Path) -> SandboxOptions {
    let store = store();
    let mut options = SandboxOptions::new(
        store.join("bin/runsc"),
        store.join("images/kitchensink"),
        work,
    );
    options.network = NetworkMode::None;
    options.rootless = !is_root();
    options.mode = EnforcementMode::Disabled;
    options.native_store = Some(store);
    let _ = place;
    options
}

fn driver(place: &Place, options: SandboxOptions) -> Arc<DirectDriver> {
    let host = place.host();
    Arc::new(DirectDriver::new(
        SandboxConfig::resolve(options, &host).unwrap(),
        host,
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_reaches_the_broker_through_its_mount() {
    let place = Place::new();
    let long = place.dir.path().join("x".repeat(120));
    let seen = long.join("seen");
    std::fs::create_dir_all(&seen).unwrap();
    let child_work = place.dir.path().join("child");
    std::fs::create_dir(&child_work).unwrap();
    let child_options = options(&place, &child_work);
    let children = driver(&place, child_options);
    let spec = KindSpec {
        command: vec![
            "sh".into(),
            "-c".into(),
            "read line; echo \"{\\\"subrun_report\\\":$line}\"".into(),
        ],
        ..KindSpec::default()
    };
    let grant = Grant {
        block: Block::new(1, 1).unwrap(),
        template: ChildTemplate::new("c-{n}").unwrap(),
        kinds: [(Kind::new("k").unwrap(), spec)].into_iter().collect(),
        limits: Limits::default(),
        labels: Default::default(),
    };
    let make: MakeChild = Arc::new(move |_| {
        Ok(ChildPlace {
            driver: Arc::clone(&children) as Arc<dyn Driver>,
            keep: Box::new(()),
        })
    });
    let broker = Broker::open(&seen, None, grant, Records::default(), make).unwrap();
    let mut with = options(&place, &place.workspace);
    with.mounts.push(MountRequest {
        kind: MountKind::HostBind {
            name: "broker".into(),
        },
        host_path: seen.clone(),
        sandbox_path: Some("/run/handoff".into()),
        read_only: Some(true),
    });
    let parent = driver(&place, with);
    let mut call = Call::new(["python3", "-c", SCRIPT]);
    call.host_uds = true;
    let outcome = parent.run(call).await.unwrap();
    let released = outcome.released().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&released.stdout.head),
        "{\"subrun_report\":{\"workflow_contract\":1,\"id\":\"c-1\",\"kind\":\"k\",\"input\":7}}\n\
         ended 0\nRead-only file system\n",
        "{outcome:?}"
    );
    // The same mount without the permission.
    let outcome = parent
        .run(Call::new(["python3", "-c", SCRIPT]))
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&outcome.released().unwrap().stdout.head).into_owned();
    assert!(
        said.contains("there is no broker to launch through"),
        "{said}"
    );
    let launches = broker.close().await;
    assert_eq!(launches.workers.len(), 1);
    assert_eq!(launches.workers[0].status, "succeeded");
    parent.close().await;
    place.assert_no_process_within(NOT_HUNG);
}

/// Keeps the child's input open, as the contract has it, and then tries to take the socket away.
const SCRIPT: &str = r#"
import os, subprocess
child = subprocess.Popen(["/run/handoff/launch", "k", "c-1"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
child.stdin.write(b'{"workflow_contract":1,"id":"c-1","kind":"k","input":7}\n')
child.stdin.flush()
print(child.stdout.read().decode(), end="")
print("ended", child.wait())
try:
    os.unlink("/run/handoff/broker.sock")
except OSError as error:
    print(error.strerror)
"#;

#[test]
fn the_containers_user_launches_and_hands_on() {
    let child = "import json,os,sys\nsys.stdin.readline()\n\
        print(json.dumps({'subrun_report': os.getuid()}))\n";
    let step = "said = launch(child_id(HOST['ids'][0])).stdout.read().decode()\n\
        report([os.getuid(), json.loads(said)['subrun_report']])\n";
    let session = Session::new(1, step, child);
    let handed = session.run_with(&["--user", "1234:1234"]);
    if is_root() {
        handed.assert_success();
        let report = handed.output(&session, "report.json");
        assert_eq!(report, serde_json::json!([1234, 1234]));
    } else {
        // Nobody else can give anything to another user.
        assert_eq!(handed.error(), "user-when-rootless");
    }
}
