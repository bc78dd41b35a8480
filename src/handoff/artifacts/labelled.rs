//! Labels of files on disk, where a runsc that tracks labels finds them again.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

use crate::cfc::label::Label;

/// What a file's owner can set and see.
const OWN: &str = "user.commonfabric.cfc.contentLabel";
/// What root alone can set and see.
const TRUSTED: &str = "trusted.cfc.contentLabel";
/// The most that the kernel lets an attribute have.
const MOST: usize = 64 * 1024;

/// Labels a file.
pub(super) fn put(file: &File, label: &Label) -> io::Result<()> {
    let text = serde_json::to_vec(label)?;
    Ok(fsetxattr(file, OWN, &text, XattrFlags::empty())?)
}

/// Whether a file or directory has a label that we can see.
pub(super) fn is_labelled(file: impl AsFd) -> io::Result<bool> {
    Ok(!of(file)?.is_empty())
}

/// Gives a copy the label of what it is a copy of.
pub(crate) fn carry(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    for (name, value) in of(from)? {
        fsetxattr(&to, name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

fn of(file: impl AsFd) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut value = vec![0_u8; MOST];
    for name in [OWN, TRUSTED] {
        match fgetxattr(&file, name, value.as_mut_slice()) {
            Ok(length) => found.push((name, value[..length].to_vec())),
            // There is none, it is not ours to see, or nothing is labelled there.
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(err) => return Err(err.into()),
        }
    }
    Ok(found)
}
