//! Doubts, and marks of what could not be labelled: rules 4 and 8.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;

use crate::common::is_root;
use crate::lab::{Call, Lab, SECRET, USER, atoms, clear, label, label_of, put, set};

#[test]
fn an_attribute_that_is_no_label_is_no_ones() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("plain"), SECRET);
    lab.sh(&work, "cat /work/plain").assert_observed();
    for value in [&b"finance"[..], b"{", b"[]", b"", br#"{"conf":[]}"#] {
        crate::lab::set(&work.join("plain"), crate::lab::USER, value).unwrap();
        let ran = lab.sh(&work, "cat /work/plain");
        assert_eq!(ran.out, SECRET);
        ran.assert_doubt("cfc-doubt-malformed-label");
    }
}

#[test]
fn more_than_a_look_may_see_is_no_ones() {
    let lab = Lab::new();
    let work = lab.mount("work");
    for number in 0..2000 {
        put(&work.join(number.to_string()), "");
    }
    let mut call = Call::new("echo out", &[(&work, "/work")]);
    lab.run(&call).assert_observed();
    call.flags = vec!["--cfc-walk-limit=1000"];
    lab.run(&call).assert_doubt("cfc-doubt-walk-bound");
}

#[test]
fn a_registration_that_cannot_be_read_is_everywhere() {
    let lab = Lab::new();
    let work = lab.mount("work");
    lab.sh(&work, "echo out").assert_observed();
    let live = lab.store.join("registry/live");
    put(&live.join("00.lock"), "");
    put(&live.join("00.json"), "{");
    lab.sh(&work, "echo out")
        .assert_doubt("cfc-doubt-unreadable-registration");
    fs::remove_file(live.join("00.json")).unwrap();
    lab.sh(&work, "echo out").assert_observed();
    put(&lab.store.join("registry/marks/00.json"), "[]");
    lab.sh(&work, "echo out")
        .assert_doubt("cfc-doubt-unreadable-registration");
}

#[test]
fn a_registry_that_others_can_write_or_the_container_is_none() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let work = lab.mount("work");
    lab.sh(&work, "echo out").assert_observed();
    let store = lab.store.clone();
    lab.sh(&store, "echo out")
        .assert_refused("cfc-registry-exposed");
    let registry = lab.store.join("registry");
    fs::set_permissions(&registry, fs::Permissions::from_mode(0o770)).unwrap();
    lab.sh(&work, "echo out")
        .assert_refused("cfc-registry-unavailable");
}

/// What a user may use and not own: a directory that the container can make files in, and that
/// we can neither list nor label. It belongs to a subordinate id, given back at the end.
struct OfAnother<'a>(&'a Path);

impl<'a> OfAnother<'a> {
    fn new(path: &'a Path, mode: &str) -> Self {
        fs::create_dir(path).unwrap();
        let made = Self(path);
        made.mapped(&format!("chown 1:1 \"$1\"; chmod {mode} \"$1\""));
        made
    }

    fn mapped(&self, script: &str) {
        let status = Command::new("unshare")
            .args(["--map-auto", "--map-root-user", "sh", "-ec", script, "sh"])
            .arg(self.0)
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn give_back(&self) {
        self.mapped("chown -R 0:0 \"$1\"; chmod 755 \"$1\"");
    }
}

impl Drop for OfAnother<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A filesystem without attributes, in this thread's own mount namespace.
struct WithoutAttributes<'a>(&'a Path);

impl<'a> WithoutAttributes<'a> {
    fn new(path: &'a Path) -> Self {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        fs::create_dir(path).unwrap();
        mount(Some("ramfs"), path, Some("ramfs"), MsFlags::empty(), none).unwrap();
        Self(path)
    }
}

impl Drop for WithoutAttributes<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_directory_that_the_container_may_enter_and_we_cannot_list_is_in_doubt() {
    let lab = Lab::new();
    let work = lab.mount("work");
    lab.set_policy(json!({"unseen_trusted_labels": "none"}));
    if is_root() {
        // Root reads all: a mode keeps it from nothing, and so not from the labels.
        fs::create_dir(work.join("dir")).unwrap();
        put(&work.join("dir/secret"), SECRET);
        label(&work.join("dir/secret"), "finance");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(work.join("dir"), mode).unwrap();
        lab.sh(&work, "cat /work/dir/secret")
            .assert_labelled(&["finance"]);
        return;
    }
    lab.sh(&work, "echo out").assert_observed();
    let dir = work.join("dir");
    let other = OfAnother::new(&dir, "711");
    lab.sh(&work, "echo out")
        .assert_doubt("cfc-doubt-unreadable-directory");
    other.mapped("chmod 700 \"$1\"");
    // Nobody but its owner can learn anything from it.
    lab.sh(&work, "echo out; ls /work/dir").out.contains("out");
    lab.sh(&work, "echo out").assert_observed();
}

#[test]
fn what_cannot_be_labelled_keeps_the_mount_marked_until_it_can() {
    let lab = Lab::new();
    let (vault, work) = (lab.mount("vault"), lab.mount("work"));
    put(&vault.join("secret"), SECRET);
    label(&vault.join("secret"), "finance");
    lab.set_policy(json!({"unseen_trusted_labels": "none"}));
    let dir = work.join("dir");
    let _mounted = is_root().then(|| WithoutAttributes::new(&dir));
    // Sticky, and not ours: a file can be made in it, and no attribute set on it.
    let other = (!is_root()).then(|| OfAnother::new(&dir, "1777"));
    let mut call = Call::new(
        "cat /other/secret >/work/dir/copy",
        &[(&vault, "/other"), (&work, "/work")],
    );
    call.mounts[0].2 = "ro";
    let ran = lab.run(&call);
    ran.assert_labelled(&["finance"]);
    ran.assert_told("cfc-mount-marked");
    assert_eq!(label_of(&dir), None);
    assert_eq!(lab.registered("marks").len(), 1);
    // Whatever is there, by whatever path, until it can be labelled; and no mark for each run.
    for (mount, at) in [(&work, "/work"), (&dir, "/work")] {
        let ran = lab.run(&Call::new("ls /work", &[(mount, at)]));
        ran.assert_labelled(&["finance"]);
    }
    lab.sh(&vault, "exit 0").assert_labelled(&["finance"]);
    lab.sh(&lab.mount("apart"), "exit 0").assert_observed();
    assert_eq!(lab.registered("marks").len(), 1);
    // Without a policy nothing runs over a mark either.
    let mut bare = Call::new("exit 0", &[(&work, "/work")]);
    bare.cfc = false;
    lab.run(&bare).assert_refused("cfc-labels-without-policy");

    if let Some(other) = &other {
        other.give_back();
        lab.sh(&work, "ls /work").assert_labelled(&["finance"]);
        assert_eq!(lab.registered("marks"), Vec::<String>::new());
        assert_eq!(atoms(&dir), ["finance"]);
        clear(&dir);
    } else {
        let told = lab.label_command(&["get", dir.to_str().unwrap()]);
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.contains("[\"finance\"]\tmark on "), "{told}");
        // A person says that it may leave from now on.
        let cleared = lab.label_command(&["clear", work.to_str().unwrap()]);
        assert_eq!(cleared.status.code(), Some(0), "{cleared:?}");
        assert_eq!(lab.registered("marks"), Vec::<String>::new());
        lab.sh(&work, "ls /work").assert_observed();
    }
}

#[test]
fn a_read_only_file_of_the_policy_is_labelled_or_marked() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("key"), SECRET);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    fs::set_permissions(work.join("key"), mode).unwrap();
    lab.label_paths("/work/key", "k");
    lab.sh(&work, "exit 0").assert_labelled(&["k"]);
    assert_eq!(atoms(&work.join("key")), ["k"]);
}

#[test]
fn a_full_filesystem_keeps_the_mount_marked() {
    let lab = Lab::new();
    let (vault, work) = (lab.mount("vault"), lab.mount("work"));
    put(&vault.join("secret"), SECRET);
    label(&vault.join("secret"), "finance");
    lab.set_policy(json!({"unseen_trusted_labels": "none"}));
    let run = |room: &str| {
        let fill = "for i in 1 2 3 4 5 6 7 8; do cat /other/secret >/work/f$i; done; cat /work/f1";
        let script = format!("{fill} 2>/tmp/no");
        let mut call = Call::new(&script, &[(&vault, "/other"), (&work, "/work")]);
        call.mounts[0].2 = "ro";
        // In a mount namespace of the call's own, so that everybody may mount.
        let mount = format!("mount -t tmpfs -o {room} full \"$0\"; exec \"$@\"");
        let work = work.to_str().unwrap();
        call.under = vec!["unshare", "-r", "-m", "sh", "-ec", &mount, work];
        lab.run(&call)
    };
    // The filesystem counts attributes as inodes: the files take them all.
    let ran = run("nr_inodes=5");
    assert!(ran.out.starts_with(SECRET), "{ran:?}");
    ran.assert_labelled(&["finance"]);
    ran.assert_told("cfc-mount-marked");
    assert_eq!(lab.registered("marks").len(), 1);

    // The control: with room there is no other mark, where such a filesystem holds attributes.
    let probe = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let holds = set(probe.path(), USER, b"{}").is_ok();
    let ran = run("nr_inodes=1000");
    ran.assert_labelled(&["finance"]);
    let told = ran.log.iter().any(|one| one["code"] == "cfc-mount-marked");
    assert_eq!(told, !holds, "{ran:?}");
}
