//! Names of snapshots, and which there are.
//!
//! A snapshot is two objects: the copy of the graph, and then its manifest. It is there when both
//! are. Its name has its place in the log, and a random number, so that two nodes that copy at once
//! never write the same object.

use std::collections::BTreeSet;
use std::fmt;

use bytes::BytesMut;
use replication::SnapshotManifest;

use super::error::SnapshotError;
use super::objects::Objects;

/// Snapshots that are kept: if the newest cannot be used, the one before it can.
const KEPT: usize = 2;

/// Most bytes of a manifest: 65 tables with a thousand nodes each.
const MANIFEST_BYTES_MAX: usize = 16 << 20;

/// Name of a snapshot. The order is that of the places in the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotName {
    /// The last entry whose effect the copy has.
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
        // A name that says the same in another form is not ours.
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

/// Returns the snapshots of a log that are whole, the newest first.
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

/// Removes the snapshots of a log but the last two, and what writers that died have left behind.
/// Those of other logs stay: the user may need them.
pub(super) async fn remove_old(objects: &Objects, epoch: &str) -> Result<(), SnapshotError> {
    let (whole, parts) = objects.names().await?;
    let kept = whole_of(&whole, epoch);
    let kept = &kept[..kept.len().min(KEPT)];
    let mut old = BTreeSet::new();
    for name in whole.iter().chain(&parts) {
        if let Some((snapshot, _)) = SnapshotName::of_object(name)
            && *snapshot.epoch == *epoch
            && !kept.contains(&snapshot)
        {
            old.insert(snapshot);
        }
    }
    for snapshot in old {
        // Without its manifest it is no snapshot any more.
        objects.remove(&snapshot.manifest()).await?;
        objects.remove(&snapshot.graph()).await?;
    }
    Ok(())
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
    fn names_are_read_back_and_others_are_not() {
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
    fn the_newest_snapshot_of_the_own_log_comes_first_whatever_others_have() {
        let names = [
            snapshot("a", 9).manifest(),
            snapshot("a", 10).manifest(),
            snapshot("a", 11).graph(),
            snapshot("b", 99).manifest(),
        ];
        let whole = whole_of(&names.into(), "a");
        assert_eq!(whole, [snapshot("a", 10), snapshot("a", 9)]);
    }
}
