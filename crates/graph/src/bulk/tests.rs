//! Tests of bulk loads.

use std::collections::BTreeSet;
use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::{Graph, Id};

/// Reader that returns its text in pieces of a fixed size, and fails at the end if the flag is set.
struct Pieces<'a>(&'a [u8], usize, bool);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(self.1).min(out.len());
        if count == 0 && self.2 {
            return Err(io::Error::other("the pipe broke"));
        }
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn loaded(path: &std::path::Path, text: &str, options: LoadOptions) -> Result<Loaded, LoadError> {
    let directory = Directory::lock(path).unwrap();
    load(&directory, text.as_bytes(), options, |_| {})
}

/// Returns all edges of a directory by name, and asserts that both directions agree.
fn edges(path: &std::path::Path) -> BTreeSet<(String, String)> {
    let graph = Graph::open(path).unwrap();
    let snapshot = graph.snapshot().unwrap().unwrap();
    let name = |key| graph.name(key).unwrap().to_string();
    let pairs = snapshot
        .pairs(Direction::Subscriptions)
        .unwrap()
        .map(Result::unwrap);
    let there: BTreeSet<_> = pairs.map(|(from, to)| (name(from), name(to))).collect();
    let pairs = snapshot
        .pairs(Direction::Subscribers)
        .unwrap()
        .map(Result::unwrap);
    let back: BTreeSet<_> = pairs.map(|(to, from)| (name(from), name(to))).collect();
    assert_eq!(there, back);
    assert_eq!(graph.counts().edges, there.len());
    there
}

#[test]
fn lines_are_read_alike_in_pieces_of_any_size() {
    let long = format!("# {}\n{} 1\n", "x".repeat(3000), "y".repeat(3000));
    let text = format!(
        "1 2\n\n# c\n  7\t8\r\n01 2147483647\n2147483648 \u{e9}\n1 2 3\nx\n\
         {long}a\u{1} b\n0 4294967295\n00 1\n1  2\n9 9"
    );
    let read = |size| {
        let mut lines = Lines::new(Pieces(text.as_bytes(), size, false));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((lines.number(), line));
        }
        all
    };
    let whole = read(usize::MAX);
    assert_eq!(whole.len(), 15);
    assert_eq!(whole[0].1, Line::Keys(1, 2));
    assert_eq!(whole[3].1, Line::Ids(Id::from(7), Id::from(8)));
    assert!(matches!(whole[4].1, Line::Ids(Id::Text(_), _)));
    assert!(matches!(whole[6].1, Line::Bad(_)));
    assert_eq!(whole[8].1, Line::Nothing);
    assert!(matches!(whole[9].1, Line::Bad(_)));
    for size in 1..80 {
        assert_eq!(read(size), whole, "in pieces of {size}");
    }
}

#[test]
fn the_error_describes_the_invalid_line() {
    assert!(parse_edge(b"1 2 3\n").unwrap_err().contains("3 words"));
    assert!(parse_edge(b"a \xff\n").unwrap_err().contains("byte 2"));
    let control = parse_edge(b"a \x01\n").unwrap_err();
    assert!(control.starts_with("subject: "), "{control}");
    assert_eq!(parse_edge(b" \n"), Ok(None));
    assert_eq!(parse_edge(b"#1 2"), Ok(None));
}

#[test]
fn an_invalid_line_stops_the_load_or_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    loaded(path, "1 2\n", LoadOptions::default()).unwrap();
    let text = "3 4\nbad\n5 6\n";
    let refused = loaded(path, text, LoadOptions::default()).unwrap_err();
    assert!(
        matches!(refused, LoadError::Line { number: 2, .. }),
        "{refused}"
    );
    assert_eq!(edges(path).len(), 1);
    let skip = LoadOptions {
        skip_bad: true,
        ..LoadOptions::default()
    };
    let done = loaded(path, text, skip).unwrap();
    assert_eq!((done.lines, done.added, done.edges, done.bad), (3, 2, 3, 1));
    assert_eq!(done.bad_lines[0].0, 2);
}

#[test]
fn an_interrupted_load_does_not_change_the_graph() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    loaded(path, "ana ben\n", LoadOptions::default()).unwrap();
    let before = edges(path);
    let taken = Directory::lock(path).unwrap();
    let broken = load(
        &taken,
        Pieces(b"1 2\n3 4\n", 3, true),
        LoadOptions::default(),
        |_| {},
    );
    assert!(matches!(broken, Err(LoadError::Input(_))));
    // As after a kill while writing: an incomplete file under the temporary name.
    std::fs::write(path.join("graph.redb.new"), b"half").unwrap();
    drop(taken);
    assert_eq!(edges(path), before);
    assert!(!path.join("graph.redb.new").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn loads_and_changes_result_in_a_set_of_edges(
        first in prop::collection::vec((0..60_u32, 0..60_u32), 0..300),
        changes in prop::collection::vec((any::<bool>(), 0..60_u32, 0..60_u32), 0..30),
        second in prop::collection::vec((0..60_u32, 0..60_u32), 0..300),
        mutual in any::<bool>(),
    ) {
        // A third of the ids are text, whose keys must not change.
        let name = |n: u32| if n.is_multiple_of(3) { format!("user-{n}") } else { n.to_string() };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut model = BTreeSet::new();
        let load_all = |model: &mut BTreeSet<_>, list: &[(u32, u32)]| {
            let before = model.len();
            let mut text = String::new();
            for &(from, to) in list {
                text += &format!("{} {}\n", name(from), name(to));
                if from != to {
                    model.insert((name(from), name(to)));
                    if mutual {
                        model.insert((name(to), name(from)));
                    }
                }
            }
            let options = LoadOptions { mutual, ..LoadOptions::default() };
            let done = loaded(path, &text, options).unwrap();
            assert_eq!(done.edges, model.len() as u64);
            assert_eq!(done.added, (model.len() - before) as u64);
        };
        load_all(&mut model, &first);
        {
            let graph = Graph::open(path).unwrap();
            for (present, from, to) in changes {
                let (from, to) = (name(from), name(to));
                let (a, b) = (Id::parse(&from).unwrap(), Id::parse(&to).unwrap());
                if present {
                    graph.subscribe(&a, &b).unwrap();
                    if from != to {
                        model.insert((from, to));
                    }
                } else {
                    graph.unsubscribe(&a, &b).unwrap();
                    model.remove(&(from, to));
                }
            }
        }
        load_all(&mut model, &second);
        prop_assert_eq!(edges(path), model);
    }
}
