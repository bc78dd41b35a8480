//! Labels of files on disk, where a runsc that tracks labels finds them again.

use std::fs::File;
use std::io;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

use crate::cfc::label::Label;

/// What a file's owner can set and see.
const ATTRIBUTE: &str = "user.commonfabric.cfc.contentLabel";
/// The most that the kernel lets an attribute have.
const MOST: usize = 64 * 1024;

/// Labels a file.
pub(super) fn put(file: &File, label: &Label) -> io::Result<()> {
    let text = serde_json::to_vec(label)?;
    Ok(fsetxattr(file, ATTRIBUTE, &text, XattrFlags::empty())?)
}

/// Gives a copy the label of what it is a copy of.
pub(super) fn carry(from: &File, to: &File) -> io::Result<()> {
    let mut value = vec![0_u8; MOST];
    match fgetxattr(from, ATTRIBUTE, value.as_mut_slice()) {
        Ok(length) => Ok(fsetxattr(
            to,
            ATTRIBUTE,
            &value[..length],
            XattrFlags::empty(),
        )?),
        // Nothing is labelled where nothing can be.
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(err) => Err(err.into()),
    }
}
