//! What a sandbox sees of the host, and what of it it can change.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{Place, Ran, is_root, store, walk};

#[test]
fn the_workspace_is_the_current_directory_and_is_the_callers() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    fs::write(place.workspace.join("in"), "from the host\n").unwrap();
    place
        .run(&["sh", "-c", "pwd; cat in; echo from inside > out"])
        .assert(0, "/workspace\nfrom the host\n", "");
    let out = place.workspace.join("out");
    assert_eq!(fs::read_to_string(&out).unwrap(), "from inside\n");
    assert_eq!(
        fs::metadata(out).unwrap().uid(),
        nix::unistd::geteuid().as_raw()
    );
    place.assert_gone();
}

#[test]
fn read_only_is_the_rule_for_ro_bind_and_not_for_bind() {
    let place = Place::new();
    for name in ["ro", "rw"] {
        fs::create_dir(place.dir.path().join(name)).unwrap();
        fs::write(place.dir.path().join(name).join("f"), "old\n").unwrap();
    }
    let flags = ["--ro-bind", "../ro", "/fabric", "--bind", "../rw", "/mnt"];
    let script = "cat /fabric/f /mnt/f; echo new > /mnt/f; echo new > /fabric/f";
    let ran = place.run_with(&flags, &["sh", "-c", script]);
    assert_eq!(
        (ran.out().as_str(), ran.code == Some(0)),
        ("old\nold\n", false)
    );
    assert!(ran.err().contains("Read-only file system"), "{ran:?}");
    assert_eq!(
        fs::read_to_string(place.dir.path().join("rw/f")).unwrap(),
        "new\n"
    );
    assert_eq!(
        fs::read_to_string(place.dir.path().join("ro/f")).unwrap(),
        "old\n"
    );
    place.assert_gone();
}

#[test]
fn the_image_is_writable_inside_and_stays_as_it_is() {
    let place = Place::new();
    let script =
        "echo x > /usr/bin/new && mkdir /etc/new.d && rm /etc/debian_version && ls /usr/bin/new";
    place
        .run(&["sh", "-c", script])
        .assert(0, "/usr/bin/new\n", "");
    let image = store().join("images/kitchensink");
    assert!(!image.join("usr/bin/new").exists() && !image.join("etc/new.d").exists());
    assert!(image.join("etc/debian_version").exists());
    place.assert_gone();
}

#[test]
fn mount_points_that_the_image_lacks_never_reach_it() {
    let place = Place::new();
    let (dir, file) = (place.dir.path().join("d"), place.dir.path().join("f"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, "text\n").unwrap();
    let flags = [
        "--ro-bind",
        dir.to_str().unwrap(),
        "/not/there/at all",
        "--ro-bind",
        file.to_str().unwrap(),
        "/etc/not/there.conf",
        "--bind",
        dir.to_str().unwrap(),
        "/tmp/below",
    ];
    let script = "cat /etc/not/there.conf; ls -d '/not/there/at all'; touch /tmp/below/made; \
                  touch /usr/touched";
    place
        .run_with(&flags, &["sh", "-c", script])
        .assert(0, "text\n/not/there/at all\n", "");
    assert!(dir.join("made").exists());
    let image = store().join("images/kitchensink");
    for path in ["not", "etc/not", "tmp/below", "usr/touched"] {
        assert!(!image.join(path).exists(), "{path} reached the image");
    }
    place.assert_gone();
}

#[test]
fn a_mount_point_of_another_kind_is_refused() {
    let place = Place::new();
    place
        .run_with(&["--ro-bind", ".", "/etc/passwd"], &["true"])
        .assert_says(125, &["/etc/passwd", "bad-mount-point"]);
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
}

#[test]
fn odd_names_of_the_workspace_work_and_are_never_split() {
    let names: [&[u8]; 9] = [
        b"with space",
        b"colon:ro",
        b"comma,rw",
        b"new\nline",
        b"back\\slash\\040",
        b"%s$HOME",
        "ünï".as_bytes(),
        b"quote\"'",
        b"not\xffutf8",
    ];
    for name in names {
        let place = Place::new();
        let workspace = place.dir.path().join(OsStr::from_bytes(name));
        fs::create_dir(&workspace).unwrap();
        fs::write(workspace.join("f"), "here\n").unwrap();
        let args: Vec<OsString> = ["run", "--no-cfc", "--workspace"]
            .map(OsString::from)
            .into();
        let rest = ["--", "sh", "-c", "cat f; touch made"].map(OsString::from);
        let args = args
            .into_iter()
            .chain([workspace.clone().into()])
            .chain(rest);
        Ran::of(place.command(args).output().unwrap()).assert(0, "here\n", "");
        assert!(workspace.join("made").exists(), "{name:?}");
        place.assert_gone();
    }
}

#[test]
fn a_workspace_under_a_link_is_the_directory_it_leads_to() {
    let place = Place::new();
    fs::write(place.workspace.join("f"), "here\n").unwrap();
    let link = place.dir.path().join("link");
    symlink(&place.workspace, &link).unwrap();
    place
        .run_with(
            &["--workspace", link.to_str().unwrap()],
            &["cat", "/workspace/f"],
        )
        .assert(0, "here\n", "");
    place.assert_gone();
}

#[test]
fn the_working_directory_is_inside_a_mount_and_is_never_made() {
    let place = Place::new();
    fs::create_dir_all(place.workspace.join("a/b")).unwrap();
    symlink("a/b", place.workspace.join("inside")).unwrap();
    symlink("/etc", place.workspace.join("outside")).unwrap();
    fs::write(place.workspace.join("file"), "").unwrap();
    place
        .run_with(&["--cwd", "a/b"], &["pwd"])
        .assert(0, "/workspace/a/b\n", "");
    place
        .run_with(&["--cwd", "/workspace/./a//b/.."], &["pwd"])
        .assert(0, "/workspace/a\n", "");
    place
        .run_with(&["--cwd", "inside"], &["pwd"])
        .assert(0, "/workspace/a/b\n", "");
    for (cwd, code) in [
        ("/etc", "cwd-outside-mounts"),
        ("../etc", "cwd-outside-mounts"),
        ("missing", "bad-cwd"),
        ("file", "bad-cwd"),
        ("outside", "bad-cwd"),
    ] {
        place
            .run_with(&["--cwd", cwd], &["true"])
            .assert_says(125, &[code, "directory"]);
    }
    assert!(!place.workspace.join("missing").exists());
}

#[test]
fn a_workspace_that_holds_store_or_scratch_is_refused_with_the_way_out() {
    let place = Place::new();
    let home = runsc_driver::Host::read().home.unwrap();
    for workspace in [home.as_path(), &place.tmp, Path::new("/")] {
        place
            .run_with(&["--workspace", workspace.to_str().unwrap()], &["true"])
            .assert_says(125, &["--workspace DIR", workspace.to_str().unwrap()]);
    }
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
}

#[test]
fn what_decides_over_the_sandbox_is_out_of_its_reach() {
    let place = Place::new();
    let store = store();
    for inside in ["bin", "images", "images/kitchensink/usr"] {
        let source = store.join(inside);
        place
            .run_with(&["--bind", source.to_str().unwrap(), "/mnt"], &["true"])
            .assert_says(125, &[source.to_str().unwrap()]);
    }
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
    // The control: the same source read-only is fine.
    let source = store.join("bin");
    place
        .run_with(&["--ro-bind", source.to_str().unwrap(), "/mnt"], &["true"])
        .assert(0, "", "");
}

#[test]
fn without_a_network_there_is_loopback_alone() {
    let place = Place::new();
    let interfaces = ["sh", "-c", "cut -d: -f1 -s /proc/net/dev | tr -d ' '"];
    place.run(&interfaces).assert(0, "lo\n", "");
    // The control: the host's network has more to show.
    let host = place.run_with(&["--network", "host"], &interfaces);
    let own = fs::read_to_string("/proc/net/dev").unwrap();
    if own.lines().count() > 3 {
        assert!(host.out().lines().count() > 1, "{host:?}");
    }
    place.assert_gone();
}

#[test]
fn a_container_has_no_capabilities_and_a_bounded_tmp() {
    let place = Place::new();
    let script = "grep -E '^Cap(Eff|Prm|Bnd|Inh)' /proc/self/status | cut -f2 | sort -u; \
                  head -c 600000000 /dev/zero > /tmp/big; stat -c %s /tmp/big";
    let ran = place.run(&["sh", "-c", script]);
    assert_eq!(ran.out(), "0000000000000000\n536870912\n");
    assert!(ran.err().contains("No space left"), "{ran:?}");
    place.assert_gone();
}

#[test]
fn a_mount_point_that_the_image_lacks_leaves_its_modes_as_they_are() {
    let place = Place::new();
    let flags = ["--ro-bind", "/usr/share", "/not/there"];
    place
        .run_with(&flags, &["stat", "-c", "%a", "/", "/not", "/usr"])
        .assert(0, "755\n755\n755\n", "");
}

#[test]
fn roots_driver_says_that_it_cannot_write_somebody_elses_workspace() {
    let place = Place::new();
    if !is_root() {
        // An ordinary user cannot give a directory away; of others' ones it has /usr.
        place
            .run_with(&["--workspace", "/usr/share"], &["true"])
            .assert_says(125, &["/usr/share", "workspace-not-writable"]);
        return;
    }
    std::os::unix::fs::chown(&place.workspace, Some(4321), Some(4321)).unwrap();
    fs::set_permissions(place.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&place.workspace, PermissionsExt::from_mode(0o755)).unwrap();
    place
        .run(&["true"])
        .assert_says(125, &["4321", "--user", "workspace-not-writable"]);
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
    place
        .run_with(&["--user", "4321:4321"], &["sh", "-c", "id -u; touch made"])
        .assert(0, "4321\n", "");
    assert!(place.workspace.join("made").exists());
}

#[test]
fn a_dry_run_prints_what_a_run_would_do_and_does_nothing() {
    let place = Place::new();
    let plan = place.run_with(&["--dry-run"], &["touch", "made"]).json();
    let schema: serde_json::Value =
        serde_json::from_slice(include_bytes!("../../bundles/schemas/plan-v1.schema.json"))
            .unwrap();
    assert!(jsonschema::is_valid(&schema, &plan), "{plan:#}");
    assert_eq!(
        plan["config"]["process"]["args"],
        serde_json::json!(["touch", "made"])
    );
    assert_eq!(plan["userNamespace"].is_null(), is_root());
    assert!(!place.workspace.join("made").exists());
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
}
