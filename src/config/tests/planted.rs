//! A program that the sandbox put where the next run looks for runsc.

use super::*;

#[test]
fn a_relative_binary_in_the_workspace_is_refused() {
    let (tree, options, mut host) = laid_out();
    tree.file("ws/runsc", 0o755);
    tree.file("ws/bin/runsc", 0o755);
    tree.file("bin/runsc", 0o755);
    host.cwd = Some(tree.at("ws"));
    for binary in ["./runsc", "bin/runsc", "../ws/runsc"] {
        let options = SandboxOptions {
            runsc: binary.into(),
            ..options.clone()
        };
        let (code, sentence) = refusal(&options, &host);
        assert_eq!(code, "trusted-file-in-mount", "{sentence}");
        let start = format!("the runsc binary {binary}, which leads to ");
        assert!(sentence.starts_with(&start), "{sentence}");
        let named = format!(
            "/runsc, is inside the workspace {}, ",
            tree.at("ws").display()
        );
        assert!(sentence.contains(&named), "{sentence}");
    }
    let outside = SandboxOptions {
        runsc: "../bin/runsc".into(),
        ..options
    };
    let config = SandboxConfig::resolve(outside, &host).unwrap();
    assert_eq!(config.runsc().as_path(), tree.at("bin/runsc"));
}

#[test]
fn a_binary_that_is_found_in_the_workspace_first_is_refused() {
    let (tree, mut options, mut host) = laid_out();
    tree.file("ws/runsc", 0o755);
    tree.file("ws/bin/runsc", 0o755);
    host.cwd = Some(tree.at("ws"));
    options.runsc = "runsc".into();
    let outside = tree.at("store/bin").display().to_string();
    let t = tree.root.display();
    for (path, found) in [
        (format!("{t}/ws:{outside}"), "ws/runsc"),
        (format!(":{outside}"), "ws/runsc"),
        (format!("bin:{outside}"), "ws/bin/runsc"),
    ] {
        host.path = Some(path.clone().into());
        let (code, sentence) = refusal(&options, &host);
        assert_eq!(code, "trusted-file-in-mount", "{path}");
        let start = format!("the runsc binary runsc, which leads to {t}/{found}, is inside ");
        assert!(sentence.starts_with(&start), "{sentence}");
    }
    // One that is found before it is not the sandbox's, and one that cannot run is none.
    tree.mode("ws/bin/runsc", 0o644);
    for path in [format!("{outside}:{t}/ws"), format!("bin:{outside}")] {
        host.path = Some(path.clone().into());
        let config = SandboxConfig::resolve(options.clone(), &host).unwrap();
        assert_eq!(
            config.runsc().as_path(),
            tree.at("store/bin/runsc"),
            "{path}"
        );
    }
    host.path = Some("/nowhere".into());
    let (code, sentence) = refusal(&options, &host);
    assert_eq!(code, "program-not-found");
    assert!(sentence.contains("PATH") && sentence.contains("CF_HARNESS_RUNSC_BINARY"));
}

/// The spelling is turned into a link after the check; what was resolved stays as it was.
#[test]
fn what_was_resolved_is_not_looked_up_again() {
    let (tree, mut options, host) = laid_out();
    tree.link("store", "named");
    options.runsc = tree.at("named/bin/runsc").into();
    let config = SandboxConfig::resolve(options, &host).unwrap();
    tree.file("ws/bin/runsc", 0o755);
    std::fs::remove_file(tree.at("named")).unwrap();
    tree.link("ws", "named");
    assert_eq!(config.runsc().as_path(), tree.at("store/bin/runsc"));
}
