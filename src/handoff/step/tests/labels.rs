//! A labelled step, its children and its outputs.

use super::*;

fn finance() -> Label {
    Label {
        confidentiality: vec![json!("finance")],
        integrity: Vec::new(),
    }
}

fn labelled(setting: Option<&str>) -> Stage {
    let mut stage = Stage::new(plain);
    stage.plan["step"]["labels"] = json!(["finance"]);
    if let Some(setting) = setting {
        stage.plan["outputs"]["unobserved"] = json!(setting);
    }
    stage.fakes.tracked = true;
    stage
}

fn opaque(stage: &mut Stage) {
    stage.fakes.observe = Some(Arc::new(|_| Observation::Opaque {
        label: finance(),
        diagnostics: Vec::new(),
        stdout_bytes: 1,
        stderr_bytes: 2,
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_not_observed_yields_nothing_or_what_is_labelled() {
    for (setting, expected) in [
        (None, "outputs-withheld"),
        (Some("withhold"), "outputs-withheld"),
    ] {
        let mut stage = labelled(setting);
        opaque(&mut stage);
        let (ran, dir) = stage.run().await;
        assert_eq!(code(&ran), expected);
        assert_eq!(ran.envelope.value()["result"]["exitCode"], Value::Null);
        assert_eq!(
            fs::read_dir(dir.path().join("session/artifacts"))
                .unwrap()
                .count(),
            0
        );
    }
    let mut stage = labelled(Some("label"));
    stage.fakes.observe = Some(Arc::new(|_| Observation::Denied {
        diagnostics: Vec::new(),
    }));
    assert_eq!(code(&stage.run().await.0), "outputs-denied");

    let plain_id = {
        let (ran, _dir) = Stage::new(plain).run().await;
        ran.envelope.bundle_id().unwrap().to_owned()
    };
    let mut stage = labelled(Some("label"));
    opaque(&mut stage);
    let (ran, dir) = stage.run().await;
    assert_eq!(code(&ran), "-");
    let id = ran.envelope.bundle_id().unwrap();
    assert_ne!(
        id, plain_id,
        "the same outputs without a label are another bundle"
    );
    let bundle = dir.path().join("session/artifacts").join(id);
    let manifest: Value =
        serde_json::from_slice(&fs::read(bundle.join("manifest.json")).unwrap()).unwrap();
    let output = &manifest["files"][0];
    assert_eq!(output["path"], "outputs/report.json");
    assert_eq!(
        output["provenance"]["metadata"]["cfcLabel"],
        json!(finance())
    );
    // A copy is labelled too.
    let other = crate::handoff::artifacts::Store::open(&dir.path().join("other")).unwrap();
    other.import(&bundle, &Default::default()).unwrap();
    for bundle in [bundle, dir.path().join("other").join(id)] {
        for name in [
            "outputs/report.json",
            "label.json",
            "metadata.json",
            "manifest.json",
        ] {
            let mut value = [0; 256];
            let name = bundle.join(name);
            let attribute = "user.commonfabric.cfc.contentLabel";
            let length = rustix::fs::getxattr(&name, attribute, &mut value[..]).unwrap();
            assert_eq!(&value[..length], br#"{"confidentiality":["finance"]}"#);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_label_of_a_step_goes_into_its_childrens_contexts() {
    let mut stage = labelled(None);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    stage.fakes.behave = Arc::new(move |view, inside| {
        told.lock()
            .unwrap()
            .push((inside.argv.clone(), inside.labels.clone()));
        if inside.argv == ["scout"] {
            return plain(view, inside);
        }
        Box::pin(async move {
            launch(&at(&view, BROKER), "run-7-c-1", "scout").await;
            plain(view, inside).await
        })
    });
    stage.run().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    for (argv, labels) in seen.iter() {
        let roots: Vec<_> = labels
            .entries()
            .iter()
            .map(|entry| entry.path.root.as_str())
            .collect();
        assert_eq!(roots, ["command", "stdin"], "{argv:?}");
        assert!(
            labels.to_value().to_string().contains("finance"),
            "{argv:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_is_a_way_out_for_labels() {
    let mut stage = labelled(None);
    stage.fakes.behave = Arc::new(|_, _| panic!("it ran"));
    stage.fakes.enforces = true;
    assert_eq!(code(&stage.run().await.0), "labelled-egress");
    let mut stage = labelled(None);
    stage.fakes.behave = Arc::new(|_, _| panic!("it ran"));
    stage.fakes.tracked = false;
    assert_eq!(code(&stage.run().await.0), "labels-untracked");
    // Without the way out it runs.
    let mut stage = labelled(Some("withhold"));
    stage.fakes.enforces = true;
    stage.plan.as_object_mut().unwrap().remove("launch");
    opaque(&mut stage);
    assert_eq!(code(&stage.run().await.0), "outputs-withheld");
}
