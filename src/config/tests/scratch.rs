//! Where bundles and state are kept, out of the reach of the sandbox.

use super::containment::OTHER_WORKSPACE;
use super::*;

#[test]
fn the_scratch_directory_is_in_no_mount() {
    let (tree, options, host) = laid_out();
    let t = tree.root.display();
    tree.link("ws", "link-to-ws");
    tree.link("../outside", "ws/out");
    tree.dir("outside");
    tree.link("tmp", "link-to-tmp");
    let reach = "through which the sandbox could reach the bundles and results of its own calls";
    let sentence = |scratch: &str, mount: &str, fix: &str| {
        refused(
            "scratch-in-mount",
            format!("the scratch directory {t}/{scratch} is inside {mount}, {reach}: {fix}"),
        )
    };
    let ws = format!("the workspace {t}/ws");
    let data = format!("the mount \"one\" {t}/data");
    for scratch in ["ws/scratch", "ws", "link-to-ws/scratch", "ws/sub/../x"] {
        let options = SandboxOptions {
            scratch: Some(tree.at(scratch)),
            ..options.clone()
        };
        assert_eq!(
            refusal(&options, &host),
            sentence(scratch, &ws, OTHER_WORKSPACE)
        );
    }
    // Read-only is no better: what is there could be read.
    for scratch in ["data/scratch", "data"] {
        let options = SandboxOptions {
            scratch: Some(tree.at(scratch)),
            mounts: vec![bind("one", tree.at("data"), "/data")],
            ..options.clone()
        };
        let fix = "mount a directory that does not hold it";
        assert_eq!(refusal(&options, &host), sentence(scratch, &data, fix));
    }
    for (scratch, real) in [
        ("ws/out/scratch", "outside/scratch"),
        ("wsx", "wsx"),
        ("link-to-tmp/a/b", "tmp/a/b"),
    ] {
        let options = SandboxOptions {
            scratch: Some(tree.at(scratch)),
            ..options.clone()
        };
        // As spelled, ws/out/scratch is in the workspace; where it leads, it is not.
        let config = SandboxConfig::resolve(options, &host).unwrap();
        let expected = Scratch {
            dir: tree.at(real),
            verified_parent: None,
        };
        assert_eq!(config.scratch(), &expected);
    }
    let relative = SandboxOptions {
        scratch: Some("scratch".into()),
        ..options
    };
    assert_eq!(
        refusal(&relative, &host),
        refused(
            "path-not-absolute",
            "the scratch directory scratch is relative: give an absolute path on the host"
        )
    );
}

/// The default one: a workspace that is the directory for temporary files holds it.
#[test]
fn the_default_scratch_directory_is_in_no_mount() {
    let (tree, options, mut host) = laid_out();
    let t = tree.root.display().to_string();
    tree.link("tmp", "link-to-tmp");
    tree.dir("tmp/cf-harness-runsc/other-run");
    let starts = format!("the scratch directory {t}/tmp/cf-harness-runsc/run-");
    for workspace in ["tmp", "link-to-tmp", "tmp/cf-harness-runsc"] {
        let options = SandboxOptions {
            workspace: tree.at(workspace),
            ..options.clone()
        };
        let (code, sentence) = refusal(&options, &host);
        assert_eq!(code, "scratch-in-mount", "{sentence}");
        assert!(sentence.starts_with(&starts), "{sentence}");
        let named = format!("is inside the workspace {t}/{workspace}, ");
        assert!(sentence.contains(&named), "{sentence}");
        let end = "--workspace DIR, or set TMPDIR to a directory outside";
        assert!(sentence.ends_with(end), "{sentence}");
    }
    // The directories of other runs are no workspace either.
    let other = SandboxOptions {
        workspace: tree.at("tmp/cf-harness-runsc/other-run"),
        ..options.clone()
    };
    assert_eq!(
        refusal(&other, &host),
        refused(
            "mount-in-scratch",
            format!(
                "the workspace {t}/tmp/cf-harness-runsc/other-run is writable and inside the \
                 scratch directory {t}/tmp/cf-harness-runsc, where bundles and results are kept: \
                 name a workspace outside it with --workspace DIR"
            )
        )
    );
    // A sibling of it is.
    tree.dir("tmp/work");
    let sibling = SandboxOptions {
        workspace: tree.at("tmp/work"),
        ..options.clone()
    };
    assert!(SandboxConfig::resolve(sibling, &host).is_ok());

    host.temp_dir = "tmp".into();
    assert_eq!(
        refusal(&options, &host),
        refused(
            "path-not-absolute",
            "the scratch directory under TMPDIR tmp/cf-harness-runsc is relative: give an \
             absolute path on the host"
        )
    );
}

/// The parent is left as it is spelled, so that its verification sees what it is.
#[test]
fn a_link_in_place_of_the_scratch_parent_is_still_there_when_it_is_verified() {
    let (tree, options, mut host) = laid_out();
    tree.dir("elsewhere");
    tree.link("../elsewhere", "tmp/cf-harness-runsc");
    tree.link("tmp", "link-to-tmp");
    host.temp_dir = tree.at("link-to-tmp");
    let config = SandboxConfig::resolve(options.clone(), &host).unwrap();
    let parent = tree.at("tmp/cf-harness-runsc");
    assert_eq!(config.scratch().verified_parent(), Some(parent.as_path()));
    let err = crate::trust::ScratchTree::create(config.scratch()).unwrap_err();
    assert_eq!(err.code(), "scratch-not-private");
    assert_eq!(tree.listing("elsewhere"), Vec::<String>::new());
    // Where the link leads into a mount, there is no need to wait.
    let options = SandboxOptions {
        workspace: tree.at("elsewhere"),
        ..options
    };
    assert_eq!(refusal(&options, &host).0, "scratch-in-mount");
}

#[test]
fn a_writable_mount_in_a_named_scratch_directory_is_refused() {
    let (tree, mut options, host) = laid_out();
    tree.dir("scratch/bundles");
    options.scratch = Some(tree.at("scratch"));
    options.mounts = vec![writable("one", tree.at("scratch/bundles"))];
    assert_eq!(refusal(&options, &host).0, "mount-in-scratch");
    options.mounts = vec![bind("one", tree.at("scratch/bundles"), "/data")];
    assert!(SandboxConfig::resolve(options, &host).is_ok());
}

#[test]
fn runs_whose_ids_agree_have_scratch_directories_apart() {
    let (_tree, mut options, host) = laid_out();
    let mut dirs = Vec::new();
    for end in ["a", "b"] {
        options.run_id = "r".repeat(40) + end;
        let config = SandboxConfig::resolve(options.clone(), &host).unwrap();
        dirs.push((
            config.scratch().dir().to_owned(),
            config.run_tag().to_owned(),
        ));
    }
    assert_ne!(dirs[0].0, dirs[1].0);
    assert_ne!(dirs[0].1, dirs[1].1);
}
