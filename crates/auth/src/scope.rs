//! Ids that a client may read: exact ids and prefixes.
//!
//! Owns the meaning of `*`.

use core::fmt;

/// Most entries of a scope. A token of the largest size holds about as many.
pub const ENTRIES_MAX: usize = 1024;

/// Set of ids: exact ids, and all ids that begin with one of some prefixes.
///
/// An entry that ends in `*` is a prefix, so `*` alone means all ids. Elsewhere `*` is an ordinary
/// character. Immutable; a look-up takes logarithmic time.
///
/// ```
/// use auth::Scope;
///
/// let scope = Scope::new(["alice", "team-7/*"]).unwrap();
/// assert!(scope.allows("alice"));
/// assert!(scope.allows("team-7/news"));
/// assert!(!scope.allows("alice2"));
/// assert!(!scope.allows("team-70"));
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// In ascending order, each once.
    exact: Box<[Box<str>]>,
    /// In ascending order. None begins with another: so at most one of them, the last that is not
    /// above an id, can be a prefix of it.
    prefixes: Box<[Box<str>]>,
}

/// Error of a scope with more than [`ENTRIES_MAX`] entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyEntries;

impl Scope {
    /// Returns the scope of these entries, each an id or a prefix followed by `*`.
    ///
    /// # Errors
    ///
    /// When there are more than [`ENTRIES_MAX`].
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, TooManyEntries> {
        let mut exact: Vec<&str> = Vec::new();
        let mut prefixes: Vec<&str> = Vec::new();
        for (count, entry) in entries.into_iter().enumerate() {
            if count == ENTRIES_MAX {
                return Err(TooManyEntries);
            }
            match entry.strip_suffix('*') {
                Some(prefix) => prefixes.push(prefix),
                None => exact.push(entry),
            }
        }
        Ok(Self::of_parts(exact, prefixes))
    }

    /// Returns the scope of exact ids, in which `*` is an ordinary character.
    pub fn exact<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of_parts(ids.into_iter().collect(), Vec::new())
    }

    /// Returns the scope of all ids.
    pub fn all() -> Self {
        Self::of_parts(Vec::new(), vec![""])
    }

    /// Returns this scope with one more exact id.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        if self.allows(id) {
            return self;
        }
        let mut exact = self.exact.into_vec();
        let at = exact.partition_point(|entry| **entry < *id);
        exact.insert(at, id.into());
        Self {
            exact: exact.into(),
            prefixes: self.prefixes,
        }
    }

    /// Returns whether a client with this scope may read `id`.
    pub fn allows(&self, id: &str) -> bool {
        let after = self.prefixes.partition_point(|prefix| **prefix <= *id);
        let nearest = self.prefixes[..after].last();
        nearest.is_some_and(|prefix| id.starts_with(&**prefix))
            || self
                .exact
                .binary_search_by(|entry| (**entry).cmp(id))
                .is_ok()
    }

    /// Returns whether no id is allowed.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty()
    }

    fn of_parts(mut exact: Vec<&str>, mut prefixes: Vec<&str>) -> Self {
        exact.sort_unstable();
        exact.dedup();
        prefixes.sort_unstable();
        // A prefix sorts directly before all that begin with it.
        prefixes.dedup_by(|later, earlier| later.starts_with(*earlier));
        Self {
            exact: exact.into_iter().map(Box::from).collect(),
            prefixes: prefixes.into_iter().map(Box::from).collect(),
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes = self.prefixes.iter().map(|prefix| format!("{prefix}*"));
        let exact = self.exact.iter().map(ToString::to_string);
        f.debug_set().entries(exact).entries(prefixes).finish()
    }
}
