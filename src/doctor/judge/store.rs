//! The files that a run starts from.

use crate::doctor::Name;
use crate::doctor::gather::files::{
    Image, MountPoint, PieceFound, Point, PolicyFile, PolicyText, Store,
};
use crate::doctor::report::{Findings, Words};
use crate::host::Host;
use crate::selection::Obstacle;
use crate::selection::store::{IMAGE, RUNSC, StoreProblem};
use crate::trust::shown;

pub(super) fn store(
    to: &mut Findings,
    store: Option<&Store>,
    policy: &PolicyFile,
    needs_policy: bool,
) {
    let Some(store) = store else {
        // The selection says why.
        return to.info(Name::Store, "not known: there is no place for one");
    };
    for found in &store.pieces {
        piece(to, found);
    }
    let absent = needs_policy && policy.found.is_none();
    match &policy.found {
        _ if policy.named => to.info(Name::StorePolicy, "not needed: another is named"),
        Some((path, _)) => to.pass(Name::StorePolicy, shown(path).to_string()),
        None if absent => to.fail_untold(Name::StorePolicy, "missing"),
        None => to.info(Name::StorePolicy, "none"),
    }

    let faults = store.pieces.iter().filter(|found| found.instead.is_none());
    let faults = faults.filter_map(|found| {
        Some(StoreProblem::Piece {
            piece: found.piece,
            fault: found.fault.clone()?,
        })
    });
    let no_policy = absent.then(|| StoreProblem::NoPolicy {
        looked: policy.looked.clone(),
    });
    let problems: Vec<_> = faults.chain(no_policy).collect();
    let at = shown(&store.at).to_string();
    if problems.is_empty() {
        return to.pass(Name::Store, at);
    }
    let obstacle = Obstacle::NotSetUp {
        store: store.at.clone(),
        problems,
    };
    to.fail(Name::Store, at, super::obstacle(store.native, obstacle));
}

fn piece(to: &mut Findings, found: &PieceFound) {
    let name = match found.piece.path {
        RUNSC => Name::StoreRunsc,
        IMAGE => Name::StoreImage,
        "bin/cfc-vm" => Name::StoreVmDaemon,
        "config.json" => Name::StoreVmConfig,
        _ => Name::StoreVmDisk,
    };
    let fault = found.fault.clone().map(|fault| StoreProblem::Piece {
        piece: found.piece,
        fault,
    });
    match (&found.instead, fault) {
        (Some(setting), _) => to.info(name, format!("not needed: a {} is named", setting.what)),
        (None, None) => to.pass(name, found.piece.path),
        (None, Some(fault)) => to.fail_untold(name, fault.to_string()),
    }
}

pub(super) fn policy(to: &mut Findings, policy: &PolicyFile, needed: bool) {
    let name = Name::Policy;
    let Some((path, text)) = &policy.found else {
        return match (policy.named, needed) {
            (true, _) => {
                let looked: Vec<_> = policy.looked.iter().map(|path| shown(path)).collect();
                let looked = looked.first().map(ToString::to_string);
                let headline = format!(
                    "the CFC policy {} does not exist",
                    looked.unwrap_or_default()
                );
                to.fail(name, "missing", Words::new(headline, NAME_ANOTHER));
            }
            (false, true) => to.fail_untold(name, "missing"),
            (false, false) => to.info(name, "none"),
        };
    };
    let path = shown(path).to_string();
    let wrong = match text {
        PolicyText::Object => return to.pass(name, path),
        PolicyText::NoObject => "is JSON and no object".to_owned(),
        PolicyText::NoJson(reason) => format!("is no JSON ({reason})"),
        PolicyText::Unreadable(reason) => format!("could not be read ({reason})"),
    };
    let headline = format!("the CFC policy {path} {wrong}");
    to.fail(name, wrong, Words::new(headline, NAME_ANOTHER));
}

const NAME_ANOTHER: &str =
    "mend it, or name another with --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY";

pub(super) fn image(to: &mut Findings, host: &Host, image: Option<&Image>) {
    let Some(image) = image else {
        let why = "not known: there is no image";
        to.info(Name::ImageOwner, why);
        return to.info(Name::ImageMountPoints, why);
    };
    owner(to, host.uid, image);
    mount_points(to, image);
}

/// The container has no capabilities: its root is the caller.
pub(super) fn owner(to: &mut Findings, uid: Option<u32>, image: &Image) {
    let value = format!("uid {}", image.owner);
    match uid.filter(|uid| *uid != image.owner) {
        None => to.pass(Name::ImageOwner, value),
        Some(uid) => to.fail(
            Name::ImageOwner,
            value,
            Words::new(
                format!(
                    "the image {} belongs to uid {} and this is uid {uid}, so the container's \
                     root could use neither /root nor its files",
                    shown(&image.at),
                    image.owner
                ),
                "unpack an image of your own: scripts/install-store.sh does",
            ),
        ),
    }
}

/// One that is missing is made in an overlay over the image, where one can be mounted.
pub(super) fn mount_points(to: &mut Findings, image: &Image) {
    let name = Name::ImageMountPoints;
    let list = |wanted: fn(&MountPoint, &Point) -> bool| {
        let points = image.points.iter().filter(|(at, found)| wanted(at, found));
        points
            .map(|(point, _)| point.at)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let at = shown(&image.at);
    let wrong = list(|point, found| match found {
        Point::Directory => !point.directory,
        Point::NoDirectory => point.directory,
        Point::Missing => false,
        Point::Unknown(_) => true,
    });
    let missing = list(|_, found| *found == Point::Missing);
    if !wrong.is_empty() {
        let words = Words::new(
            format!("the image {at} has something else at {wrong}"),
            "unpack the image again: scripts/install-store.sh does",
        );
        return to.fail(name, format!("not as they have to be: {wrong}"), words);
    }
    if !missing.is_empty() {
        let words = Words::new(
            format!("the image {at} lacks {missing}, which an overlay has to take"),
            "make them in the image: an empty file for /etc/hosts and /etc/resolv.conf, empty \
             directories for the others",
        );
        return to.warn(name, format!("without {missing}"), words);
    }
    to.pass(name, list(|_, _| true));
}
