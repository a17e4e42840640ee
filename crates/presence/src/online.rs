//! Sets of the ids that are online, announced and hidden, which all threads can read. The first two
//! are written by the presence thread alone.

use std::sync::atomic::{AtomicBool, Ordering};

use graph::Key;
use parking_lot::{Mutex, RwLock};

use crate::KeySet;

/// Number of locks over which the sets are spread, so that workers that send snapshots seldom wait
/// for the presence thread.
const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two());

/// The ids that are online, announced and hidden. Shared by all threads, for the life of the
/// server.
///
/// An id is *online* if it has a session, in a cluster on any node, or had one less than the delay
/// ago. An id is *announced* from the time at which its subscribers are told that it is online to
/// the time at which they are told that it is offline. A hidden id, or one that has too many
/// subscribers, is not announced.
#[derive(Debug)]
pub struct Online {
    shards: Box<[RwLock<Shard>]>,
    hidden: RwLock<KeySet>,
    /// Keys that were hidden or shown since the presence thread last took them.
    changed: Mutex<Vec<Key>>,
    /// Whether the first delay of the server is over.
    is_settled: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    online: KeySet,
    announced: KeySet,
}

impl Default for Online {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hidden: RwLock::default(),
            changed: Mutex::default(),
            is_settled: AtomicBool::new(false),
        }
    }
}

impl Online {
    fn shard(&self, key: Key) -> &RwLock<Shard> {
        &self.shards[(key.number() >> 6) as usize % SHARDS]
    }

    /// Returns whether the sets are complete. They are not during the first delay of the server, in
    /// which clients come back and other nodes say which ids they have.
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::SeqCst)
    }

    /// Notes that the sets are complete. Called by the presence thread.
    pub fn settle(&self) {
        self.is_settled.store(true, Ordering::SeqCst);
    }

    /// Returns whether `key` is online, hidden or not.
    pub fn is_online(&self, key: Key) -> bool {
        self.shard(key).read().online.contains(key)
    }

    /// Returns whether the subscribers of `key` were told that it is online. Snapshots show this,
    /// and not [`Self::is_online`], because only for announced keys an offline edge follows.
    pub fn is_announced(&self, key: Key) -> bool {
        self.shard(key).read().announced.contains(key)
    }

    /// Returns whether `key` is online and not hidden.
    pub fn is_visible(&self, key: Key) -> bool {
        self.is_online(key) && !self.is_hidden(key)
    }

    /// Sets whether `key` is online. Returns whether that changed. Called by the presence thread.
    pub fn set_online(&self, key: Key, is_online: bool) -> bool {
        self.shard(key).write().online.set(key, is_online)
    }

    /// Sets whether `key` is announced. Returns whether that changed. Called by the presence thread
    /// before it looks up the subscribers of `key`: a session that logs in later finds the change
    /// in its snapshot.
    pub fn set_announced(&self, key: Key, is_announced: bool) -> bool {
        self.shard(key).write().announced.set(key, is_announced)
    }

    /// Takes the keys that were hidden or shown since the last call. Called by the presence thread.
    pub fn take_changed(&self) -> Vec<Key> {
        std::mem::take(&mut self.changed.lock())
    }

    /// Returns the number of keys that are online, hidden or not.
    pub fn count(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.read().online.len()).sum()
    }

    /// Returns the number of parts that [`Self::visible_part`] has.
    pub const fn parts(&self) -> usize {
        self.shards.len()
    }

    /// Returns the keys of a part that are online and not hidden, in no order. A reader of all keys
    /// takes part after part, so that it locks each of them for a short time only.
    pub fn visible_part(&self, part: usize) -> Vec<Key> {
        let Some(shard) = self.shards.get(part) else {
            return Vec::new();
        };
        let mut keys: Vec<Key> = shard.read().online.iter().collect();
        let hidden = self.hidden.read();
        keys.retain(|&key| !hidden.contains(key));
        keys
    }

    /// Hides `key`, or shows it again. Returns whether that changed. The presence thread announces
    /// it. The caller must hold a reference to an interned key for as long as it is hidden.
    pub fn set_hidden(&self, key: Key, is_hidden: bool) -> bool {
        let is_new = self.hidden.write().set(key, is_hidden);
        if is_new {
            self.changed.lock().push(key);
        }
        is_new
    }

    /// Returns the number of keys that are hidden.
    pub fn hidden_count(&self) -> usize {
        self.hidden.read().len()
    }

    /// Returns whether `key` is hidden.
    pub fn is_hidden(&self, key: Key) -> bool {
        self.hidden.read().contains(key)
    }
}
