use super::*;
use crate::limits::Limits;
use crate::store::Store;
use crate::store::directory::{Contents, Directory};

const FIRST: u32 = crate::INTERNED_FROM;

type Edges<'a> = &'a [(u32, u32)];

/// Contents of a file, consistent or not.
struct Given<'a> {
    names: &'a [(u32, &'a str)],
    there: Edges<'a>,
    back: Edges<'a>,
}

impl Contents for Given<'_> {
    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error> {
        let name = |&(key, id): &(u32, &str)| (Key::from_number(key), Id::parse(id).unwrap());
        Ok(self.names.iter().map(name).collect())
    }

    fn pairs(
        &mut self,
        direction: Direction,
        each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let edges = match direction {
            Direction::Subscriptions => self.there,
            Direction::Subscribers => self.back,
        };
        edges
            .iter()
            .try_for_each(|&(from, to)| each(pair(from, to)))
    }
}

fn check(names: &[(u32, &str)], there: Edges<'_>, back: Edges<'_>) -> Check {
    let directory = tempfile::tempdir().unwrap();
    let directory = Directory::lock(directory.path()).unwrap();
    directory.replace(Given { names, there, back }).unwrap();
    directory.snapshot().unwrap().check().unwrap()
}

/// Returns whether a graph opens with such a file.
fn opens(names: &[(u32, &str)], there: Edges<'_>, back: Edges<'_>) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let directory = Directory::lock(directory.path()).unwrap();
    directory.replace(Given { names, there, back }).unwrap();
    Store::open(directory.disk().unwrap(), Limits::SMALL).is_ok()
}

#[test]
fn edges_in_one_direction_and_keys_without_a_name_are_refused_at_start() {
    assert!(opens(&[], &[(1, 2)], &[(2, 1)]));
    assert!(!opens(&[], &[(1, 2), (1, 3)], &[(2, 1)]));
    assert!(!opens(&[], &[(1, 2)], &[(2, 1), (3, 1)]));
    assert!(!opens(&[], &[(1, FIRST)], &[(FIRST, 1)]));
}

#[test]
fn a_consistent_graph_is_sound() {
    let found = check(
        &[(FIRST, "ana")],
        &[(1, 2), (1, FIRST), (2, 1), (FIRST, 1)],
        &[(1, 2), (1, FIRST), (2, 1), (FIRST, 1)],
    );
    assert_eq!(found.told, [""; 0]);
    assert_eq!((found.edges, found.names, found.is_sound()), (4, 1, true));
    assert!(check(&[], &[], &[]).is_sound());
}

#[test]
fn an_edge_in_one_direction_is_found() {
    let names = [(FIRST, "ana")];
    let found = check(&names, &[(1, 2), (FIRST, 1)], &[(1, FIRST)]);
    assert_eq!(
        found.told,
        ["2 is a subscription of 1, which is not among its subscribers"]
    );
    let found = check(&names, &[(FIRST, 1)], &[(1, FIRST), (9, 3), (9, FIRST)]);
    assert_eq!(
        found.told,
        [
            "3 is a subscriber of 9, which is not among its subscriptions",
            "ana is a subscriber of 9, which is not among its subscriptions"
        ]
    );
    assert_eq!(found.edges, 1);
}

#[test]
fn names_without_edges_and_keys_without_names_are_found() {
    let found = check(&[], &[(1, FIRST)], &[(FIRST, 1)]);
    assert_eq!(found.told, ["key 2147483648 has edges but no name"]);
    let found = check(&[(FIRST, "ana"), (FIRST + 1, "ana")], &[], &[]);
    assert_eq!(
        found.told,
        [
            "two keys have the name \"ana\"",
            "\"ana\" has a name but no edge",
            "\"ana\" has a name but no edge"
        ]
    );
}

#[test]
fn an_edge_from_an_id_to_itself_is_found() {
    let found = check(&[], &[(1, 1)], &[(1, 1)]);
    assert_eq!(found.faults, 2);
    assert_eq!(found.told[0], "key 1 is in its own subscribers");
}

#[test]
fn faults_beyond_a_limit_are_only_counted() {
    let edges: Vec<_> = (2..102).map(|subject| (1, subject)).collect();
    let found = check(&[], &edges, &[]);
    assert_eq!((found.faults, found.told.len()), (100, TOLD_MAX));
}
