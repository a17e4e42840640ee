//! Files that are refused with an error and not changed.

use std::fs;
use std::sync::Arc;

use redb::{Database, TableDefinition};
use simulated::Dice;

use super::super::{Directory, OpenError, Store};
use super::crash::{World, changes, edges, empty_file};
use crate::Graph;
use crate::limits::Limits;

/// Opens a directory whose graph is `content` and returns the error, after checking that the file
/// is unchanged.
fn refused(content: &[u8]) -> OpenError {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.redb");
    fs::write(&file, content).unwrap();
    let error = Graph::open(directory.path()).err().expect("a refusal");
    assert!(error.to_string().contains("graph.redb"), "{error}");
    assert_eq!(fs::read(&file).unwrap().len(), content.len(), "{error}");
    error
}

fn filled() -> Vec<u8> {
    let mut world = World::open(empty_file());
    let mut random = Dice::new(3);
    for _ in 0..20 {
        assert!(world.commit(&changes(&mut random, 500)));
    }
    drop(world.store);
    world.disk.file().content()
}

#[test]
fn foreign_and_empty_files_are_refused() {
    assert!(matches!(refused(b""), OpenError::Torn { .. }));
    assert!(matches!(refused(b"redb"), OpenError::Foreign { .. }));
    assert!(matches!(
        refused(&[b'x'; 70_000]),
        OpenError::Foreign { .. }
    ));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.redb");
    {
        let other = Database::create(&path).unwrap();
        let write = other.begin_write().unwrap();
        let table: TableDefinition<'_, u64, u64> = TableDefinition::new("other");
        write.open_table(table).unwrap().insert(1, 2).unwrap();
        write.commit().unwrap();
    }
    assert!(matches!(
        refused(&fs::read(&path).unwrap()),
        OpenError::Foreign { .. }
    ));
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.redb");
    fs::write(&path, empty_file()).unwrap();
    {
        let database = Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        let header: TableDefinition<'_, &str, u64> = TableDefinition::new("encke graph");
        write
            .open_table(header)
            .unwrap()
            .insert("format", 4)
            .unwrap();
        write.commit().unwrap();
    }
    let error = refused(&fs::read(&path).unwrap());
    assert!(
        matches!(error, OpenError::Newer { format: 4, .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("format 4, but this program supports only formats up to 3")
    );
}

#[test]
fn a_truncated_file_is_refused() {
    let whole = filled();
    let cuts = (9..whole.len()).step_by(whole.len() / 40);
    for end in cuts {
        let error = refused(&whole[..end]);
        assert!(
            matches!(error, OpenError::Torn { .. } | OpenError::Foreign { .. }),
            "cut at {end}: {error}"
        );
    }
}

// Compares the edges and not only their number, which is also right if some are lost and as many
// wrong ones added.
#[test]
fn a_page_of_noise_is_detected_or_was_unused() {
    let whole = filled();
    let model = World::open(whole.clone()).model;
    let mut found = 0;
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        for (index, byte) in damaged[page * 4096..(page + 1) * 4096]
            .iter_mut()
            .enumerate()
        {
            *byte = (index * 31 + page) as u8;
        }
        let disk = simulated::disk::Disk::from(damaged);
        match Store::open(Arc::new(disk.file()), Limits::SMALL) {
            Ok((_, memory)) => assert_eq!(edges(&memory), model, "page {page}"),
            Err(refusal) => {
                let refusal = refusal.of("graph.redb".into());
                assert!(matches!(refusal, OpenError::Torn { .. }), "{refusal}");
                found += 1;
            }
        }
    }
    assert!(found > 0, "no page was in use");
}

#[test]
fn a_directory_without_a_graph_has_no_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let taken = Directory::lock(directory.path()).unwrap();
    assert!(matches!(taken.snapshot(), Err(OpenError::Missing { .. })));
}
