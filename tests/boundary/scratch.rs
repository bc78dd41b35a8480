//! Nothing is run over a scratch directory that others may reach into.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use runsc_driver::Driver;
use runsc_driver::driver::End;

use crate::common::{is_root, walk};
use crate::fake::{Fake, bounded, run};

const FIX: &str = "remove it, or set TMPDIR to a directory of your own";

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// The refusal is given, kept, and nothing is written or run under it.
async fn refused(
    spoil: impl FnOnce(&Path),
    mend: impl FnOnce(&Path),
    code: &'static str,
    found: &str,
) {
    let fake = Fake::new();
    let parent = fake.place.tmp.join("cf-harness-runsc");
    spoil(&parent);
    let before = walk(&fake.place.tmp);
    let driver = fake.driver();
    let expected = (
        code,
        format!("the scratch parent {} {found}: {FIX}", parent.display()),
    );
    let refused = run(&driver).await.unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), expected);
    assert_eq!(walk(&fake.place.tmp), before);

    // Looked at once: what became of it since does not matter to this driver.
    mend(&parent);
    let refused = run(&driver).await.unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), expected);
    bounded(driver.close()).await;
    // Not even the release was asked for.
    assert_eq!(fake.verbs(), Vec::<Vec<String>>::new());

    let again = fake.driver();
    assert_eq!(run(&again).await.unwrap().end, End::Exited);
    bounded(again.close()).await;
}

#[tokio::test]
async fn a_parent_that_lets_others_in_is_refused() {
    let uid = nix::unistd::geteuid();
    for bits in [0o755, 0o711, 0o770, 0o1777] {
        refused(
            |parent| {
                fs::create_dir(parent).unwrap();
                mode(parent, bits);
            },
            |parent| mode(parent, 0o700),
            "scratch-not-private",
            &format!("belongs to uid {uid} and has mode {bits:04o}, which lets others in"),
        )
        .await;
    }
}

#[tokio::test]
async fn a_link_in_its_place_is_refused() {
    refused(
        |parent| {
            let private = parent.with_file_name("private");
            fs::create_dir(&private).unwrap();
            mode(&private, 0o700);
            symlink("private", parent).unwrap();
        },
        |parent| fs::remove_file(parent).unwrap(),
        "scratch-not-private",
        "is a symbolic link",
    )
    .await;
}

#[tokio::test]
async fn a_file_in_its_place_is_refused() {
    refused(
        |parent| fs::write(parent, "").unwrap(),
        |parent| fs::remove_file(parent).unwrap(),
        "scratch-not-private",
        "is not a directory",
    )
    .await;
}

/// Root can make one; to an ordinary user it is one that he cannot write.
#[tokio::test]
async fn a_parent_of_somebody_elses_is_refused() {
    if is_root() {
        refused(
            |parent| {
                fs::create_dir(parent).unwrap();
                mode(parent, 0o700);
                chown(parent, Some(65534), None).unwrap();
            },
            |parent| chown(parent, Some(0), None).unwrap(),
            "scratch-not-private",
            "belongs to uid 65534 (mode 0700), and what this process makes in it belongs to uid 0",
        )
        .await;
    } else {
        refused(
            |parent| {
                fs::create_dir(parent).unwrap();
                mode(parent, 0o500);
            },
            |parent| mode(parent, 0o700),
            "scratch-not-verified",
            "cannot be written to: Permission denied (os error 13)",
        )
        .await;
    }
}

#[tokio::test]
async fn what_others_put_into_the_tree_stays() {
    let fake = Fake::doing("run", ": >\"${root%/*}/foreign\"");
    let driver = fake.driver();
    assert_eq!(run(&driver).await.unwrap().end, End::Exited);
    let dir = driver.config().scratch().dir().to_owned();
    bounded(driver.close()).await;
    assert_eq!(walk(&dir), [dir.join("foreign")]);
}
