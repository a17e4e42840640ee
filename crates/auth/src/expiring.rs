//! A bounded map whose entries expire.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::time::UnixSeconds;

/// Values by name, each with the time at which it expires. The number of entries is bounded. An
/// operation takes logarithmic time.
#[derive(Debug)]
pub(crate) struct ExpiringMap<V> {
    entries: HashMap<Arc<str>, (V, UnixSeconds)>,
    /// The names in the order of their times.
    order: BTreeSet<(UnixSeconds, Arc<str>)>,
    max: usize,
}

/// The map is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl<V> ExpiringMap<V> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeSet::new(),
            max,
        }
    }

    /// Sets the value of a name until `until`, after removing the entries that have expired at
    /// `now`. If the name has a value, `merge` combines the two, and the later time counts.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: V,
        until: UnixSeconds,
        now: UnixSeconds,
        merge: impl FnOnce(&V, V) -> V,
    ) -> Result<(), Full> {
        self.forget_until(now);
        if let Some((held, held_until)) = self.entries.get_mut(name) {
            *held = merge(held, value);
            if *held_until < until {
                let (key, _) = self.entries.get_key_value(name).expect("just found");
                let key = key.clone();
                let (_, held_until) = self.entries.get_mut(name).expect("just found");
                self.order.remove(&(*held_until, key.clone()));
                *held_until = until;
                self.order.insert((until, key));
            }
            return Ok(());
        }
        if self.entries.len() >= self.max {
            return Err(Full);
        }
        let key: Arc<str> = name.into();
        self.order.insert((until, key.clone()));
        self.entries.insert(key, (value, until));
        Ok(())
    }

    /// Returns the value of a name, and the time at which it expires.
    pub(crate) fn get(&self, name: &str, now: UnixSeconds) -> Option<(&V, UnixSeconds)> {
        let (value, until) = self.entries.get(name)?;
        (now < *until).then_some((value, *until))
    }

    /// Removes a name. Returns whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some((key, (_, until))) = self.entries.remove_entry(name) else {
            return false;
        };
        self.order.remove(&(until, key));
        true
    }

    /// Removes the entries that have expired.
    pub(crate) fn forget_until(&mut self, now: UnixSeconds) {
        while let Some((until, _)) = self.order.first()
            && *until <= now
        {
            if let Some((_, name)) = self.order.pop_first() {
                self.entries.remove(&*name);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
