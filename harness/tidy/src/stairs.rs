//! Stairs: modules that use each other in a circle.
//!
//! A file uses another if its text names a path that leads to an item of the other. A name that a
//! module only re-exports belongs to the file that defines it, and `mod child;` alone uses nothing.
//! Tests, simulations and examples do not count.

/// Tokens of Rust source.
mod lexer;
/// Modules of a crate: their names, and the paths in their text.
mod modules;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::Finding;
use crate::files::TextFile;
use modules::Modules;

/// Most files that may use each other in a circle.
pub const FILES_MAX: usize = 3;

/// A use of one file in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrow {
    /// Path of the file that names the path.
    pub from: String,
    /// Its line.
    pub line: usize,
    /// The path that it names.
    pub path: String,
    /// Path of the file that has the item.
    pub to: String,
}

impl fmt::Display for Arrow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            line,
            path,
            to,
        } = self;
        write!(formatter, "{from}:{line}: `{path}` is in {to}")
    }
}

/// Files of which each one uses all others, directly or through others.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// Paths of the files, sorted.
    pub files: Vec<String>,
    /// All uses inside of the circle.
    pub arrows: Vec<Arrow>,
    /// The uses of one shortest way around.
    pub shortest: Vec<Arrow>,
}

/// Returns a finding for each circle of more than [`FILES_MAX`] files in the crate in `directory`,
/// and for each module without a file.
pub fn check(directory: &str, sources: &[TextFile]) -> Vec<Finding> {
    let (circles, mut findings) = find(directory, sources);
    for circle in circles.iter().filter(|it| it.files.len() > FILES_MAX) {
        let files: String = circle
            .files
            .iter()
            .map(|it| format!("\n    {it}"))
            .collect();
        let shortest = circle.shortest.iter().map(|it| format!("\n    {it}"));
        let message = format!(
            "{} files use each other in a circle:{files}\n  the shortest way around:{}\n  \
             {FILES_MAX} are allowed: move what both sides need to a file below them, or pass it \
             as an argument (`cargo run -p tidy --example stairs` lists all uses)",
            circle.files.len(),
            shortest.collect::<String>(),
        );
        findings.push(Finding::new(directory, message));
    }
    findings
}

/// Returns the circles of the crate in `directory`, the longest first.
pub fn circles(directory: &str, sources: &[TextFile]) -> Vec<Circle> {
    find(directory, sources).0
}

/// Returns, for each item and for each file's uses of another, how many files the largest circle
/// has without it, the fewest first.
pub fn cuts(circle: &Circle) -> Vec<(usize, String)> {
    let mut cuts: BTreeMap<String, Vec<&Arrow>> = BTreeMap::new();
    for arrow in &circle.arrows {
        let Arrow { from, path, to, .. } = arrow;
        let item = path.rsplit("::").next().unwrap_or_default();
        let names = [
            format!("{from} -> {to}"),
            format!("`{item}` in {to}"),
            format!("all that {from} uses"),
        ];
        for name in names {
            cuts.entry(name).or_default().push(arrow);
        }
    }
    let files: Vec<&str> = circle.files.iter().map(|it| &**it).collect();
    let largest = |cut: &[&Arrow]| {
        let left = circle.arrows.iter().filter(|arrow| !cut.contains(arrow));
        let circles = Uses::new(&files, left.cloned()).circles().into_iter();
        circles.map(|it| it.files.len()).max().unwrap_or(0)
    };
    let mut cuts: Vec<_> = cuts
        .into_iter()
        .map(|(name, arrows)| (largest(&arrows), name))
        .collect();
    cuts.sort();
    cuts
}

/// Returns whether a file has only tests, simulations or examples.
fn is_test(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| matches!(part, "tests" | "sim" | "examples" | "tests.rs" | "sim.rs"))
}

fn find(directory: &str, sources: &[TextFile]) -> (Vec<Circle>, Vec<Finding>) {
    let sources: BTreeMap<&str, &TextFile> =
        sources.iter().map(|file| (&*file.path, file)).collect();
    let mut circles = Vec::new();
    let mut findings = Vec::new();
    for root in sources.keys().filter(|path| is_root(directory, path)) {
        let modules = Modules::read(&sources, root);
        for (file, line, name) in &modules.missing {
            let message = format!("the module `{name}` has no file beside it");
            findings.push(Finding::at_line(file, *line, message));
        }
        circles.extend(Uses::new(&modules.files, modules.uses()).circles());
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    (circles, findings)
}

fn is_root(directory: &str, path: &str) -> bool {
    let Some(path) = path
        .strip_prefix(directory)
        .and_then(|path| path.strip_prefix("/src/"))
    else {
        return false;
    };
    let program = path.strip_prefix("bin/");
    matches!(path, "lib.rs" | "main.rs")
        || program.is_some_and(|it| !it.trim_end_matches("/main.rs").contains('/'))
}

/// Uses between the files of a crate.
struct Uses<'a> {
    files: &'a [&'a str],
    arrows: Vec<Arrow>,
    /// The first use of each file by each other, as an index into `arrows`.
    first: BTreeMap<(usize, usize), usize>,
}

impl<'a> Uses<'a> {
    fn new(files: &'a [&'a str], arrows: impl IntoIterator<Item = Arrow>) -> Self {
        let arrows: Vec<Arrow> = arrows.into_iter().collect();
        let numbers: BTreeMap<&str, usize> = files.iter().copied().zip(0..).collect();
        let mut first = BTreeMap::new();
        for (index, arrow) in arrows.iter().enumerate() {
            let ends = (numbers[&*arrow.from], numbers[&*arrow.to]);
            first.entry(ends).or_insert(index);
        }
        Self {
            files,
            arrows,
            first,
        }
    }

    fn circles(&self) -> Vec<Circle> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len())
            .map(|file| self.ways_from(file).into_keys().collect())
            .collect();
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut circles = Vec::new();
        for file in 0..self.files.len() {
            if seen.contains(&file) || !reached[file].contains(&file) {
                continue;
            }
            let together = reached[file].iter().copied();
            let members: BTreeSet<usize> = together
                .filter(|&other| reached[other].contains(&file))
                .collect();
            seen.extend(&members);
            circles.push(self.circle(&members));
        }
        circles
    }

    fn circle(&self, members: &BTreeSet<usize>) -> Circle {
        let ways = members.iter().map(|&file| self.way_around(file));
        let mut files: Vec<String> = members
            .iter()
            .map(|&it| self.files[it].to_owned())
            .collect();
        files.sort();
        let inside = |file: &String| files.contains(file);
        let arrows = self
            .arrows
            .iter()
            .filter(|it| inside(&it.from) && inside(&it.to));
        Circle {
            arrows: arrows.cloned().collect(),
            files,
            shortest: ways.min_by_key(Vec::len).unwrap_or_default(),
        }
    }

    /// Returns each file that `start` uses, directly or through others, with the file before it on
    /// a shortest way.
    fn ways_from(&self, start: usize) -> BTreeMap<usize, usize> {
        let mut before = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(from) = next.pop_front() {
            for &(_, to) in self.first.range((from, 0)..(from + 1, 0)).map(|it| it.0) {
                before.entry(to).or_insert_with(|| {
                    next.push_back(to);
                    from
                });
            }
        }
        before
    }

    /// Returns a shortest way from a file back to it.
    fn way_around(&self, file: usize) -> Vec<Arrow> {
        let before = self.ways_from(file);
        let mut way = Vec::new();
        let mut to = file;
        loop {
            let from = before[&to];
            way.push(self.arrows[self.first[&(from, to)]].clone());
            to = from;
            if to == file {
                way.reverse();
                return way;
            }
        }
    }
}

#[cfg(test)]
mod tests;
