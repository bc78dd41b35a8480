//! Who the container is, and what it could write.

use super::*;

#[test]
fn a_container_user_is_one_or_two_numbers() {
    let (tree, mut options, host) = laid_out();
    tree.mode("ws", 0o777);
    let user = |uid, gid| Ok(ContainerUser { uid, gid });
    let cases = [
        (None, false, user(0, 0)),
        (Some("0"), true, user(0, 0)),
        (Some("0:0"), true, user(0, 0)),
        (Some("1000"), false, user(1000, 0)),
        (Some("1000:100"), false, user(1000, 100)),
        (Some("4294967294"), false, user(4_294_967_294, 0)),
        (Some("1000:100"), true, Err("user-when-rootless")),
        (Some("0:1"), true, Err("user-when-rootless")),
        (Some("4294967295"), false, Err("user-invalid")),
        (Some("1:4294967296"), false, Err("user-invalid")),
        (Some("99999999999999999999"), false, Err("user-invalid")),
        (Some("nobody"), false, Err("user-invalid")),
        (Some("nobody:nogroup"), false, Err("user-invalid")),
        (Some(""), false, Err("user-invalid")),
        (Some(":"), false, Err("user-invalid")),
        (Some(":1"), false, Err("user-invalid")),
        (Some("1000:"), false, Err("user-invalid")),
        (Some("1:2:3"), false, Err("user-invalid")),
        (Some("+1"), false, Err("user-invalid")),
        (Some("-1"), false, Err("user-invalid")),
        (Some(" 1"), false, Err("user-invalid")),
        (Some("1\n"), false, Err("user-invalid")),
        (Some("1e3:0x10"), false, Err("user-invalid")),
        (Some("١"), false, Err("user-invalid")),
    ];
    for (given, rootless, expected) in cases {
        options.user = given.map(str::to_owned);
        options.rootless = rootless;
        let result = SandboxConfig::resolve(options.clone(), &host);
        let result = result.map(|config| config.user()).map_err(|err| err.code());
        assert_eq!(result, expected, "{given:?}");
    }
    options.user = Some("no\x1bbody".to_owned());
    options.rootless = false;
    assert_eq!(
        refusal(&options, &host),
        refused(
            "user-invalid",
            "the container user no\\u{1b}body is not a numeric UID or UID:GID of at most \
             4294967294"
        )
    );
    options.user = Some("7".to_owned());
    options.rootless = true;
    assert_eq!(
        refusal(&options, &host),
        refused(
            "user-when-rootless",
            "the container user 7 cannot be used without root, since only 0:0 can write the \
             mounts there: leave it out"
        )
    );
}

/// The uid and the gid of the machine are made up, so the owner of the files is somebody else.
#[test]
fn what_is_writable_can_be_written_by_the_container() {
    let (tree, options, host) = laid_out();
    tree.mode("ws", 0o755);
    tree.mode("data", 0o755);
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(tree.at("ws")).unwrap());
    let group = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(tree.at("ws")).unwrap());
    let (uid, gid) = (owner + 1, group + 1);
    let t = tree.root.display();
    let root = Host {
        uid: Some(0),
        gid: Some(0),
        ..host.clone()
    };
    let other = Host {
        uid: Some(uid),
        gid: Some(gid),
        ..host.clone()
    };
    let as_other = SandboxOptions {
        user: Some(format!("{uid}:{gid}")),
        ..options.clone()
    };
    let rootless = SandboxOptions {
        rootless: true,
        ..options.clone()
    };
    let kept_out = |what: &str, mode: &str, fix: String| {
        format!(
            "{what} belongs to {owner}:{group} (mode {mode}), so that a container without \
             capabilities, which is {uid}:{gid} here, cannot write it: {fix}"
        )
    };
    let workspace = format!("the workspace {t}/ws");

    assert_eq!(
        refusal(&as_other, &root),
        refused(
            "workspace-not-writable",
            kept_out(
                &workspace,
                "0755",
                format!("run as its owner with --user {owner}:{group}")
            )
        )
    );
    assert_eq!(
        refusal(&rootless, &other),
        refused(
            "workspace-not-writable",
            kept_out(
                &workspace,
                "0755",
                "name a directory of your own with --workspace DIR".to_owned()
            )
        )
    );
    // The owner is let in, and where nobody can tell who the container is, so is everybody.
    let as_owner = SandboxOptions {
        user: Some(format!("{owner}:{group}")),
        ..options.clone()
    };
    let macos = Host {
        platform: Platform::MacOs,
        ..root.clone()
    };
    assert!(SandboxConfig::resolve(as_owner, &root).is_ok());
    assert!(SandboxConfig::resolve(as_other.clone(), &macos).is_ok());
    assert!(SandboxConfig::resolve(options.clone(), &other).is_ok());
    let nobody = Host {
        uid: None,
        ..other.clone()
    };
    assert!(SandboxConfig::resolve(rootless.clone(), &nobody).is_ok());

    tree.mode("ws", 0o777);
    assert!(SandboxConfig::resolve(as_other.clone(), &root).is_ok());
    assert!(SandboxConfig::resolve(rootless.clone(), &other).is_ok());
    let with = |options: &SandboxOptions, mount| SandboxOptions {
        mounts: vec![mount],
        ..options.clone()
    };
    let data = format!("the mount \"one\" {t}/data");
    assert_eq!(
        refusal(&with(&rootless, writable("one", tree.at("data"))), &other),
        refused(
            "mount-not-writable",
            kept_out(
                &data,
                "0755",
                "mount it read-only, or mount a directory of your own".to_owned()
            )
        )
    );
    let read_only = with(&rootless, bind("one", tree.at("data"), "/data"));
    assert!(SandboxConfig::resolve(read_only, &other).is_ok());
    tree.mode("data", 0o555);
    assert_eq!(
        refusal(&with(&as_other, writable("one", tree.at("data"))), &root),
        refused(
            "mount-not-writable",
            kept_out(&data, "0555", "give its owner write access".to_owned())
        )
    );
}
