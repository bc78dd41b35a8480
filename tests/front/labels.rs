//! What labels a container, and what a container labels.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::common::{is_root, wait_for};
use crate::lab::{Call, Lab, SECRET, TRUSTED, atoms, label, label_of, put, set, unset};

/// A mount with a labelled secret in it.
fn with_secret(lab: &Lab) -> std::path::PathBuf {
    let work = lab.mount("work");
    put(&work.join("secret"), SECRET);
    label(&work.join("secret"), "finance");
    work
}

#[test]
fn an_unlabelled_mount_is_public_to_the_byte() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("plain"), "hello");
    let ran = lab.sh(&work, "cat /work/plain; echo new >/work/made; exit 0");
    ran.assert_observed();
    assert_eq!(ran.out, "hello");
    assert_eq!(
        String::from_utf8(ran.result).unwrap(),
        format!(
            "{{\"version\":1,\"containerId\":\"{0}\",\"sandboxId\":\"{0}\",\"waitStatus\":0,\
             \"cfcTaint\":{{\"string\":\"{{conf: \u{22a4}, integ: \u{2205}}}\",\"xattrJSON\":{{}}}}}}",
            ran.id
        )
    );
    assert_eq!(ran.log, Vec::<serde_json::Value>::new());
    assert_eq!(label_of(&work.join("made")), None);
    lab.assert_settled();
}

#[test]
fn a_labelled_file_labels_the_container_and_what_it_makes() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    fs::create_dir(work.join("dir")).unwrap();
    put(&work.join("old"), "");
    let ran = lab.sh(
        &work,
        "cat /work/secret; cp /work/secret /work/dir/copy; echo x >>/work/old",
    );
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);
    for name in ["dir", "dir/copy", "old"] {
        assert_eq!(atoms(&work.join(name)), ["finance"], "{name}");
    }
    // Nothing was made in it, and so nothing is told by it.
    assert_eq!(label_of(&work), None);

    // The copy alone, elsewhere, still labels.
    let other = lab.mount("other");
    fs::rename(work.join("dir/copy"), other.join("copy")).unwrap();
    let ran = lab.sh(&other, "cat /work/copy");
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);
    // The control: without the label it is public.
    unset(&other.join("copy"), crate::lab::USER);
    if is_root() {
        unset(&other.join("copy"), TRUSTED);
    }
    lab.sh(&other, "cat /work/copy").assert_observed();
}

#[test]
fn only_root_sees_trusted_labels_and_writes_both() {
    if !is_root() {
        let lab = Lab::new();
        let work = lab.mount("work");
        assert!(set(&work, TRUSTED, b"{}").is_err());
        return;
    }
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("secret"), SECRET);
    set(
        &work.join("secret"),
        TRUSTED,
        br#"{"confidentiality":["root"]}"#,
    )
    .unwrap();
    let ran = lab.sh(&work, "cp /work/secret /work/copy");
    ran.assert_labelled(&["root"]);
    assert_eq!(atoms(&work.join("copy")), ["root"]);

    // Root of a user namespace sees none, and knows that it does not.
    let plain = lab.mount("plain");
    put(&plain.join("plain"), SECRET);
    set(
        &plain.join("plain"),
        TRUSTED,
        br#"{"confidentiality":["root"]}"#,
    )
    .unwrap();
    let mut call = Call::new("cat /work/plain", &[(&plain, "/work")]);
    call.under = vec!["unshare", "-r"];
    let ran = lab.run(&call);
    assert_eq!(ran.out, SECRET);
    ran.assert_doubt("cfc-doubt-unseen-trusted-labels");
    // The control: the operator's word that there are none.
    lab.set_policy(json!({"unseen_trusted_labels": "none"}));
    lab.run(&call).assert_observed();
}

#[test]
fn a_pattern_labels_paths_through_links_of_image_and_mount() {
    let lab = Lab::new();
    let work = lab.mount("work");
    fs::create_dir_all(work.join("real/deep")).unwrap();
    put(&work.join("real/deep/key"), SECRET);
    symlink("/work/real", lab.image.join("vault")).unwrap();
    symlink("real/deep", work.join("short")).unwrap();
    let script = "cat /vault/deep/key";
    lab.label_paths("/elsewhere/**", "k");
    lab.sh(&work, script).assert_observed();
    for pattern in [
        "/work/real/deep/key",
        "/work/short/k*",
        "/vault/*/key",
        "/vault/**",
        "**/deep/key",
        "/v*/deep/key",
    ] {
        lab.label_paths(pattern, "k");
        let ran = lab.sh(&work, script);
        assert_eq!(ran.out, SECRET);
        assert_eq!(ran.label(), [json!("k")], "{pattern} {ran:?}");
        for path in [
            work.join("real/deep/key"),
            work.join("real/deep"),
            work.join("real"),
        ] {
            for name in [crate::lab::USER, TRUSTED] {
                let _ = rustix::fs::lremovexattr(&path, name);
            }
        }
    }
}

#[test]
fn a_pattern_labels_files_of_the_image() {
    let lab = Lab::new();
    let work = lab.mount("work");
    fs::create_dir_all(lab.image.join("opt/a")).unwrap();
    put(&lab.image.join("opt/a/x.key"), SECRET);
    for pattern in ["/opt/**", "**/*.key", "/o*/a/x.key"] {
        lab.label_paths(pattern, "k");
        let ran = lab.sh(&work, "cat /opt/a/x.key");
        assert_eq!(ran.out, SECRET);
        ran.assert_labelled(&["k"]);
    }
    lab.label_paths("**/*.other", "k");
    lab.sh(&work, "cat /opt/a/x.key").assert_observed();
    // A name that comes later is seen though there is an index.
    put(&lab.image.join("opt/a/y.other"), "");
    lab.sh(&work, "cat /opt/a/x.key").assert_labelled(&["k"]);
}

#[test]
fn a_label_on_a_file_of_the_image_is_seen_though_there_is_an_index() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&lab.image.join("etc/secret"), SECRET);
    lab.sh(&work, "cat /etc/secret").assert_observed();
    label(&lab.image.join("etc/secret"), "i");
    let ran = lab.sh(&work, "cat /etc/secret");
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["i"]);
}

#[test]
fn moving_a_matched_file_or_its_directory_does_not_lose_the_label() {
    for script in [
        "mv /work/vault /work/plain",
        "mv /work/vault/key /work/key; mkdir -p /work/plain; mv /work/key /work/plain/key",
        "mkdir /work/plain; ln /work/vault/key /work/plain/key; rm /work/vault/key",
    ] {
        let lab = Lab::new();
        let work = lab.mount("work");
        fs::create_dir(work.join("vault")).unwrap();
        put(&work.join("vault/key"), SECRET);
        lab.label_paths("/work/vault/*", "k");
        lab.sh(&work, script).assert_labelled(&["k"]);
        // The pattern matches nothing any more, and the mount is only what was moved.
        let ran = lab.sh(&work.join("plain"), "cat /work/key");
        assert_eq!(ran.out, SECRET, "{script}");
        ran.assert_labelled(&["k"]);
    }
}

#[test]
fn the_host_may_move_a_matched_file_too() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("key"), SECRET);
    lab.label_paths("/work/key", "k");
    lab.sh(&work, "exit 0").assert_labelled(&["k"]);
    let other = lab.mount("other");
    fs::rename(work.join("key"), other.join("plain")).unwrap();
    lab.sh(&other, "cat /work/plain").assert_labelled(&["k"]);
}

#[test]
fn hard_links_and_nested_mounts_do_not_lose_the_label() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    let other = lab.mount("other");
    fs::hard_link(work.join("secret"), other.join("twin")).unwrap();
    let ran = lab.sh(&other, "cat /work/twin");
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);

    // A file by itself, a mount in a mount, and a mount over the image.
    let plain = lab.mount("plain");
    fs::create_dir(plain.join("in")).unwrap();
    put(&plain.join("file"), "");
    let secret = work.join("secret");
    for mounts in [
        vec![(plain.as_path(), "/work"), (secret.as_path(), "/work/file")],
        vec![(plain.as_path(), "/work"), (work.as_path(), "/work/in")],
        vec![(work.as_path(), "/etc")],
    ] {
        let mut call = Call::new("cat /work/file /work/in/secret /etc/secret", &mounts);
        call.mounts.last_mut().unwrap().2 = "ro";
        let ran = lab.run(&call);
        assert!(ran.out.contains(SECRET), "{ran:?}");
        ran.assert_labelled(&["finance"]);
    }
}

#[test]
fn modes_hide_no_label_and_keep_none_away() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    fs::create_dir(work.join("closed")).unwrap();
    fs::rename(work.join("secret"), work.join("closed/secret")).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("closed/secret", 0o400);
    mode("closed", 0o000);
    let ran = lab.sh(&work, "chmod 700 /work/closed; cat /work/closed/secret");
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);

    // What it writes and makes read-only, or unreadable, is labelled all the same.
    let script = "cd /work; for m in 400 444 000; do cat closed/secret >f$m; chmod $m f$m; done";
    lab.sh(&work, script).assert_labelled(&["finance"]);
    for name in ["f400", "f444", "f000"] {
        mode(name, 0o600);
        assert_eq!(atoms(&work.join(name)), ["finance"], "{name}");
    }
}

#[test]
fn names_and_link_targets_carry_labels_too() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    for name in ["names", "links", "gone"] {
        fs::create_dir(work.join(name)).unwrap();
    }
    put(&work.join("gone/one"), "");
    let script = "cd /work; s=$(cat secret); echo >names/$s; ln -s $s links/l; rm gone/one";
    lab.sh(&work, script).assert_labelled(&["finance"]);
    for (name, script) in [
        ("names", "ls /work"),
        ("links", "readlink /work/l"),
        ("gone", "ls /work"),
    ] {
        let dir = lab.mount(&format!("moved-{name}"));
        fs::remove_dir(&dir).unwrap();
        fs::rename(work.join(name), &dir).unwrap();
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            // Only the directory's own label is left.
            for attribute in [crate::lab::USER, TRUSTED] {
                let _ = rustix::fs::lremovexattr(entry.path(), attribute);
            }
        }
        let ran = lab.sh(&dir, script);
        assert_eq!(ran.out.contains(SECRET), name != "gone", "{ran:?}");
        ran.assert_labelled(&["finance"]);
    }
}

#[test]
fn a_fifo_has_its_directorys_label() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    fs::create_dir(work.join("dir")).unwrap();
    nix::unistd::mkfifo(&work.join("dir/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The time of a FIFO is as good as a byte.
    lab.sh(&work, "touch -d @12345 /work/dir/fifo")
        .assert_labelled(&["finance"]);
    let time = fs::metadata(work.join("dir/fifo")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mtime(&time), 12345);
    let dir = work.join("dir");
    lab.sh(&dir, "ls -l /work").assert_labelled(&["finance"]);
    // Mounted by itself.
    let fifo = dir.join("fifo");
    let call = Call::new("ls -l /other", &[(&fifo, "/tmp/fifo")]);
    lab.run(&call).assert_opaque();
}

#[test]
fn a_file_that_is_deleted_after_reading_has_labelled_already() {
    let lab = Lab::new();
    let work = with_secret(&lab);
    let ran = lab.sh(&work, "cat /work/secret; rm /work/secret");
    assert_eq!(ran.out, SECRET);
    assert!(!work.join("secret").exists());
    ran.assert_labelled(&["finance"]);
}

#[test]
fn a_file_that_arrives_meanwhile_labels_at_the_end() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let away = lab.mount("away");
    put(&away.join("secret"), SECRET);
    label(&away.join("secret"), "late");
    let script = "echo >/work/ready; while ! [ -e /work/secret ]; do :; done; \
                  cat /work/secret; cat /work/secret >/work/copy";
    let started = lab.start(&Call::new(script, &[(&work, "/work")]));
    wait_for(&work, "ready");
    fs::rename(away.join("secret"), work.join("secret")).unwrap();
    let ran = started.finish();
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["late"]);
    assert_eq!(atoms(&work.join("copy")), ["late"]);
}

#[test]
fn four_kilobytes_of_label_are_no_ones() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("plain"), SECRET);
    let long = "x".repeat(5000);
    let mut call = Call::new(
        "cat /work/plain >/work/made; cat /work/made",
        &[(&work, "/work")],
    );
    call.mode = Some("enforce-strict");
    call.labels = vec![("command", &long)];
    let ran = lab.run(&call);
    ran.assert_labelled(&[&long]);
    // The filesystem has no room for it.
    assert_eq!(atoms(&work.join("made")), ["nobody"]);
    let ran = lab.sh(&work, "cat /work/made");
    assert_eq!(ran.out, SECRET);
    ran.assert_opaque();
}

#[test]
fn labels_of_the_call_are_the_containers() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let mut call = Call::new("cat >/work/made; cat /work/made", &[(&work, "/work")]);
    call.mode = Some("observe");
    call.labels = vec![("env", "e"), ("stdin", "s")];
    lab.run(&call).assert_labelled(&["e"]);
    assert_eq!(atoms(&work.join("made")), ["e"]);
    call.stdin = Some("in");
    let ran = lab.run(&call);
    assert_eq!(ran.out, "in");
    ran.assert_labelled(&["e", "s"]);
}
