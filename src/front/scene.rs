//! What a container sees of the host, and the looks at all of it.

use std::io;
use std::path::{Path, PathBuf};

use super::attributes::{self, Sight};
use super::doubt::{Doubt, Found};
use super::image::Index;
use super::look::{Against, Changed, Eyes, Snapshot, is_special, look};
use super::mounts::{Bind, FileId, MountTable, Tree};
use super::paths::matches;
use super::policy::Policy;
use super::spec::Spec;
use super::taint::Taint;
use super::view::View;

/// What a container sees of the host.
#[derive(Debug)]
pub struct Scene {
    /// The image first, then the mounts in order.
    pub binds: Vec<Bind>,
    /// Whether runsc keeps what is written to the image in memory.
    pub image_stays: bool,
    /// What could not be told of it.
    pub found: Found,
}

/// What was seen before the start.
#[derive(Debug, Default)]
pub struct Before {
    /// The label, and why.
    pub found: Found,
    /// When each file last changed.
    pub snapshots: Vec<Snapshot>,
    /// Files that have other names.
    pub links: Vec<FileId>,
    /// What is known of the image, where it stays as it is.
    pub image: Option<Index>,
    /// Files that a pattern matches and that have its label to get.
    pub to_label: Vec<(PathBuf, Taint)>,
}

/// What changed in one bind.
#[derive(Debug)]
pub struct Change {
    /// Where the bind is on the host.
    pub root: PathBuf,
    /// Its trees.
    pub trees: Vec<Tree>,
    /// What changed.
    pub entries: Vec<Changed>,
}

impl Scene {
    /// What a bundle's container sees.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn of(spec: &Spec, table: &MountTable, image_stays: bool) -> io::Result<Self> {
        let mut found = Found::default();
        if let Some(annotation) = &spec.annotation {
            found.doubt(Doubt::NotUnderstood(format!("the annotation {annotation}")));
        }
        let mut trees_of = |path: &Path| {
            table.trees(path).unwrap_or_else(|err| {
                found.doubt(Doubt::unforeseen(path, err));
                Vec::new()
            })
        };
        let mut image = Bind {
            destination: "/".into(),
            source: spec.rootfs.clone(),
            trees: Vec::new(),
        };
        match table.overlay_layers(&spec.rootfs).filter(|_| image_stays) {
            // The overlay itself is this call's alone; what others share with it is below.
            Some((lower, upper)) => {
                image.trees = trees_of(&lower);
                image.trees.extend(trees_of(&upper));
            }
            None => image.trees = trees_of(&spec.rootfs),
        }
        for tree in &mut image.trees {
            tree.writable &= !image_stays;
        }
        let mut binds = vec![image];
        for mount in &spec.mounts {
            let trees = trees_of(&mount.source);
            let destination = View::new(&binds).destination(&mount.destination)?;
            let source = trees
                .first()
                .map_or(&mount.source, |tree| &tree.path)
                .clone();
            binds.push(Bind {
                destination,
                source,
                trees,
            });
        }
        Ok(Self {
            binds,
            image_stays,
            found,
        })
    }

    /// The same for another process: of a registration whose owner is gone.
    #[must_use]
    pub fn again(binds: &[Bind], table: &MountTable) -> Self {
        let mut found = Found::default();
        let located = binds.iter().map(|bind| {
            let mut bind = bind.clone();
            match bind.trees.first().map(|tree| table.locate(tree)) {
                Some(Some(path)) => bind.source = path,
                Some(None) => {
                    found.doubt(Doubt::NotUnderstood(format!(
                        "{} of a killed container is not to be found",
                        bind.source.display()
                    )));
                }
                None => {}
            }
            bind
        });
        let binds: Vec<_> = located.collect();
        let image_stays = binds.first().is_some_and(|bind| !bind.writable());
        Self {
            binds,
            image_stays,
            found,
        }
    }

    /// Looks before the start: paths first, then attributes and what is there.
    #[must_use]
    pub fn before(&self, policy: &Policy, images: &Path, eyes: Eyes<'_>) -> Before {
        let mut before = Before {
            found: self.found.clone(),
            ..Before::default()
        };
        before.image = self.image(images, eyes);
        if let Some(image) = &before.image {
            before.found.join(image.found().clone());
        }
        let matched = matches(&self.binds, before.image.as_ref(), policy, eyes.limits);
        before.found.join(matched.found);
        before.to_label = matched.writable;
        for (at, bind) in self.binds.iter().enumerate() {
            let mut snapshot = Snapshot::default();
            for root in self.roots(at, bind, before.image.is_some()) {
                let seen = look(&root, eyes, Against::Nothing);
                before.found.join(seen.found);
                before.links.extend(seen.links);
                snapshot.extend(seen.snapshot);
                before.found.join(of_directory(&root, eyes.sight));
            }
            before.snapshots.push(snapshot);
        }
        before.links.sort_unstable();
        before.links.dedup();
        before
    }

    /// Looks after the end, at what was not there before or not so.
    #[must_use]
    pub fn after(&self, policy: &Policy, before: &Before, eyes: Eyes<'_>) -> (Found, Vec<Change>) {
        let against = |at: usize| before.snapshots.get(at).map(Against::Snapshot);
        self.changes(policy, before.image.as_ref(), eyes, against)
    }

    /// Looks at what a killed container may have changed.
    #[must_use]
    pub fn since(
        &self,
        policy: &Policy,
        image: Option<&Index>,
        eyes: Eyes<'_>,
        since: Option<(i64, u64)>,
    ) -> (Found, Vec<Change>) {
        self.changes(policy, image, eyes, |_| Some(Against::Since(since)))
    }

    fn changes<'a>(
        &self,
        policy: &Policy,
        image: Option<&Index>,
        eyes: Eyes<'_>,
        against: impl Fn(usize) -> Option<Against<'a>>,
    ) -> (Found, Vec<Change>) {
        let mut found = matches(&self.binds, image, policy, eyes.limits).found;
        let mut changes = Vec::new();
        for (at, bind) in self.binds.iter().enumerate() {
            let against = against(at).unwrap_or(Against::Since(None));
            for root in self.roots(at, bind, image.is_some()) {
                let seen = look(&root, eyes, against);
                found.join(seen.found);
                found.join(of_directory(&root, eyes.sight));
                if bind.writable() && !seen.changed.is_empty() {
                    changes.push(Change {
                        root,
                        trees: bind.trees.clone(),
                        entries: seen.changed,
                    });
                }
            }
        }
        (found, changes)
    }

    /// The index of the image, where it stays as it is.
    #[must_use]
    pub fn image(&self, images: &Path, eyes: Eyes<'_>) -> Option<Index> {
        let root = self.binds.first().filter(|_| self.image_stays)?;
        let lower = root.trees.first()?;
        Some(Index::open(images, &lower.path, eyes))
    }

    /// What has to be walked of a bind: of an indexed image only what an overlay puts over it.
    fn roots(&self, at: usize, bind: &Bind, indexed: bool) -> Vec<PathBuf> {
        if at > 0 || !indexed {
            return vec![bind.source.clone()];
        }
        let lower = bind.trees.first().map(|tree| &tree.path);
        let upper = bind.trees.get(1).filter(|_| lower != Some(&bind.source));
        upper.map(|tree| tree.path.clone()).into_iter().collect()
    }
}

/// The label of the directory of a file that holds none of its own, mounted by itself.
fn of_directory(path: &Path, sight: &Sight) -> Found {
    let mut found = Found::default();
    if sight.trusted || !is_special(path) {
        return found;
    }
    let Some(above) = path.parent() else {
        return found;
    };
    let reach = std::os::unix::ffi::OsStrExt::as_bytes(above.as_os_str());
    match std::ffi::CString::new(reach).map(|reach| attributes::read(&reach, &mut |_| false)) {
        Ok(Ok(Some(taint))) => {
            found.label(&taint, || format!("{} is labelled", above.display()));
        }
        Ok(Ok(None)) => {}
        Ok(Err(_)) | Err(_) => found.doubt(Doubt::at(Doubt::UnreadableLabel, above)),
    }
    found
}
