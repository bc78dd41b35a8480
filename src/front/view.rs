//! The container's own view of its paths: an image with mounts in it, and links that lead about in
//! both but never out.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mounts::Bind;

/// How many links one path may lead through, as on Linux.
const MAX_LINKS: usize = 40;

/// What a container sees: the image first, then its mounts in order.
#[derive(Debug, Clone)]
pub struct View<'a> {
    binds: &'a [Bind],
}

/// Where a path of the container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// In the container, links resolved.
    pub inside: PathBuf,
    /// On the host.
    pub host: PathBuf,
    /// Which bind it is in.
    pub bind: usize,
}

impl<'a> View<'a> {
    /// The view of these.
    #[must_use]
    pub fn new(binds: &'a [Bind]) -> Self {
        Self { binds }
    }

    /// Where a path without links in it is: in the mount that is nearest above it, the last of
    /// those that are at one place.
    #[must_use]
    pub fn place(&self, inside: &Path) -> Option<Place> {
        let above = self.binds.iter().enumerate();
        let above = above.filter(|(_, bind)| inside.starts_with(&bind.destination));
        let (at, bind) =
            above.max_by_key(|(at, bind)| (bind.destination.components().count(), *at))?;
        let below = inside.strip_prefix(&bind.destination).ok()?;
        let host = if below.as_os_str().is_empty() {
            bind.source.clone()
        } else {
            bind.source.join(below)
        };
        Some(Place {
            inside: inside.to_owned(),
            host,
            bind: at,
        })
    }

    /// Where a path is, its links followed as in the container. None where it leads nowhere.
    ///
    /// # Errors
    /// What is on the way cannot be examined.
    pub fn resolve(&self, path: &Path) -> io::Result<Option<Place>> {
        match self.walk(path)? {
            (reached, rest) if rest.is_empty() => Ok(self.place(&reached)),
            _ => Ok(None),
        }
    }

    /// A mount's destination, its links followed as far as it exists.
    ///
    /// # Errors
    /// What is on the way cannot be examined.
    pub fn destination(&self, path: &Path) -> io::Result<PathBuf> {
        let (mut reached, rest) = self.walk(path)?;
        for name in rest {
            match name.as_bytes() {
                b"." => {}
                b".." => {
                    reached.pop();
                }
                _ => reached.push(name),
            }
        }
        Ok(reached)
    }

    /// As far as a path exists, and the names after that.
    fn walk(&self, path: &Path) -> io::Result<(PathBuf, VecDeque<OsString>)> {
        let mut pending: VecDeque<_> = names(path).collect();
        let mut reached = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            match name.as_bytes() {
                b"." => continue,
                b".." => {
                    reached.pop();
                    continue;
                }
                _ => {}
            }
            let next = reached.join(&name);
            let Some(place) = self.place(&next) else {
                pending.push_front(name);
                break;
            };
            let found = match std::fs::symlink_metadata(&place.host) {
                Ok(found) => found,
                Err(err) if is_absent(&err) => {
                    pending.push_front(name);
                    break;
                }
                Err(err) => return Err(err),
            };
            if !found.is_symlink() {
                reached = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                pending.push_front(name);
                break;
            }
            let target = std::fs::read_link(&place.host)?;
            if target.is_absolute() {
                reached = PathBuf::from("/");
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                pending.push_front(name);
            }
        }
        Ok((reached, pending))
    }
}

fn is_absent(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.as_os_str()
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(|name| OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::mounts::MountTable;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_about_in_the_container_and_never_out() {
        let dir = tempfile::tempdir().unwrap();
        let (image, work) = (dir.path().join("image"), dir.path().join("work"));
        fs::create_dir_all(image.join("run")).unwrap();
        fs::create_dir_all(work.join("sub")).unwrap();
        fs::create_dir_all(image.join("var")).unwrap();
        symlink("/run", image.join("var/run")).unwrap();
        symlink("/work/sub", image.join("data")).unwrap();
        symlink("../../../../etc", work.join("up")).unwrap();
        symlink("loop", work.join("loop")).unwrap();
        let table = MountTable::read().unwrap();
        let bind = |destination: &str, source: &Path| Bind {
            destination: destination.into(),
            source: source.to_owned(),
            trees: table.trees(source).unwrap(),
        };
        let root = [bind("/", &image)];
        let destination = View::new(&root).destination(Path::new("/var/run/x/../y"));
        assert_eq!(destination.unwrap(), Path::new("/run/y"));

        let binds = [bind("/", &image), bind("/work", &work)];
        let view = View::new(&binds);
        let resolved = |path: &str| view.resolve(Path::new(path)).unwrap();
        let place = resolved("/data").unwrap();
        assert_eq!(place.inside, Path::new("/work/sub"));
        assert_eq!((place.host, place.bind), (work.join("sub"), 1));
        // Up past the root is the container's root, which has no /etc here.
        assert_eq!(resolved("/work/up"), None);
        assert_eq!(resolved("/work/loop"), None);
        assert_eq!(resolved("/work/none"), None);
        assert_eq!(resolved("/work/sub/../..").unwrap().host, image);
    }
}
