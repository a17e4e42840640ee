//! The catalog of snapshots: their names, and which of them exist.
//!
//! A snapshot consists of two objects: the copy of the graph, and its manifest, which is stored
//! last and completes it. Its name has its position in the log and a random number, so that two
//! nodes that copy at the same time never write the same object.

use std::collections::BTreeSet;
use std::fmt;

use bytes::BytesMut;
use replication::SnapshotManifest;

use super::error::SnapshotError;
use super::objects::Objects;

/// Number of snapshots that are kept: if the newest cannot be used, the one before it can.
const KEPT: usize = 2;

/// Maximum size of a manifest, in bytes: 65 tables with a thousand nodes each.
const MANIFEST_BYTES_MAX: usize = 16 << 20;

/// Name of a snapshot. Ordered by the position in the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotName {
    /// Last entry that is applied in the copy.
    pub(super) read: u64,
    pub(super) random: u64,
    pub(super) epoch: Box<str>,
}

impl SnapshotName {
    /// Returns the name of the object with the copy.
    pub(super) fn graph(&self) -> String {
        format!("{self}-graph")
    }

    /// Returns the name of the object with the manifest.
    pub(super) fn manifest(&self) -> String {
        format!("{self}-manifest")
    }

    /// Returns the snapshot that an object belongs to, and whether the object is its manifest.
    fn of_object(name: &str) -> Option<(Self, bool)> {
        let mut parts = name.split('-');
        let (epoch, read) = (parts.next()?, parts.next()?.parse().ok()?);
        let random = u64::from_str_radix(parts.next()?, 16).ok()?;
        let part = parts.next()?;
        let snapshot = Self {
            read,
            random,
            epoch: epoch.into(),
        };
        // Accepts only the canonical form of the name.
        let is_manifest = part == "manifest";
        let own = [snapshot.graph(), snapshot.manifest()];
        (own[usize::from(is_manifest)] == name).then_some((snapshot, is_manifest))
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            read,
            random,
            epoch,
        } = self;
        write!(f, "{epoch}-{read:020}-{random:016x}")
    }
}

/// Returns the complete snapshots of a log, the newest first.
pub(super) async fn list(
    objects: &Objects,
    epoch: &str,
) -> Result<Vec<SnapshotName>, SnapshotError> {
    let (whole, _) = objects.names().await?;
    Ok(whole_of(&whole, epoch))
}

fn whole_of(names: &BTreeSet<String>, epoch: &str) -> Vec<SnapshotName> {
    let all = names
        .iter()
        .filter_map(|name| SnapshotName::of_object(name));
    let mut snapshots: Vec<_> = all
        .filter(|(snapshot, is_manifest)| *is_manifest && *snapshot.epoch == *epoch)
        .map(|(snapshot, _)| snapshot)
        .collect();
    snapshots.sort_unstable_by(|a, b| b.cmp(a));
    snapshots
}

/// Removes the snapshots of a log but the last two, and what writers that died have left behind. A
/// snapshot that has more of the log than `last`, its end, goes too: the log has lost the rest.
/// Those of other logs stay: the user may need them.
pub(super) async fn remove_old(
    objects: &Objects,
    epoch: &str,
    last: u64,
) -> Result<(), SnapshotError> {
    let (whole, parts) = objects.names().await?;
    for snapshot in old_of(&whole, &parts, epoch, last) {
        // Without its manifest it is no snapshot any more.
        objects.remove(&snapshot.manifest()).await?;
        objects.remove(&snapshot.graph()).await?;
    }
    Ok(())
}

fn old_of(
    whole: &BTreeSet<String>,
    parts: &BTreeSet<String>,
    epoch: &str,
    last: u64,
) -> BTreeSet<SnapshotName> {
    let kept = whole_of(whole, epoch).into_iter();
    let kept: Vec<_> = kept.filter(|name| name.read <= last).take(KEPT).collect();
    let all = whole.iter().chain(parts);
    all.filter_map(|name| SnapshotName::of_object(name))
        .map(|(snapshot, _)| snapshot)
        .filter(|snapshot| *snapshot.epoch == *epoch && !kept.contains(snapshot))
        .collect()
}

/// Returns the manifest of a snapshot.
pub(super) async fn manifest(
    objects: &Objects,
    name: &SnapshotName,
) -> Result<SnapshotManifest, SnapshotError> {
    let mut pieces = objects.fetch(&name.manifest()).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(SnapshotError::refused("its manifest is too large"));
        }
    }
    let manifest = SnapshotManifest::decode(&bytes.freeze());
    manifest
        .map_err(|error| SnapshotError::refused(format!("its manifest cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(epoch: &str, read: u64) -> SnapshotName {
        SnapshotName {
            read,
            random: 7,
            epoch: epoch.into(),
        }
    }

    #[test]
    fn names_are_parsed_and_others_refused() {
        let name = snapshot("k3v9", 12);
        let read = |text: &str| SnapshotName::of_object(text);
        assert_eq!(read(&name.graph()), Some((name.clone(), false)));
        assert_eq!(read(&name.manifest()), Some((name.clone(), true)));
        for other in [
            "",
            "lease",
            "a-1-2-graph",
            &format!("{name}"),
            &format!("{name}-x"),
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn the_newest_snapshot_of_the_same_log_comes_first() {
        let names = [
            snapshot("a", 9).manifest(),
            snapshot("a", 10).manifest(),
            snapshot("a", 11).graph(),
            snapshot("b", 99).manifest(),
        ];
        let whole = whole_of(&names.into(), "a");
        assert_eq!(whole, [snapshot("a", 10), snapshot("a", 9)]);
    }

    #[test]
    fn two_snapshots_stay_and_none_of_entries_that_the_log_has_lost() {
        let whole = [9, 10, 11, 20].map(|read| snapshot("a", read).manifest());
        let parts = [snapshot("a", 8).graph(), snapshot("b", 1).graph()];
        let old = |last| {
            let old = old_of(&whole.clone().into(), &parts.clone().into(), "a", last);
            old.into_iter().map(|name| name.read).collect::<Vec<_>>()
        };
        assert_eq!(old(u64::MAX), [8, 9, 10]);
        assert_eq!(old(20), [8, 9, 10]);
        assert_eq!(old(19), [8, 9, 20]);
    }
}
