//! Who is online, for all threads to read. Written by the presence thread alone, except for what
//! is hidden.

use std::sync::atomic::{AtomicBool, Ordering};

use graph::Key;
use parking_lot::{Mutex, RwLock};

use crate::KeySet;

/// Locks that the sets are spread over, so that workers that send snapshots seldom meet the thread
/// that writes.
const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two());

/// Who is online. Shared by all threads, for the life of the server.
///
/// An id that is *online* has a session, on any node of a cluster, or had one less than the delay
/// ago. An id is *announced* from the moment when its subscribers are told that it is online until
/// they are told that it is not: never while it is hidden, or has too many subscribers.
#[derive(Debug)]
pub struct Online {
    shards: Box<[RwLock<Shard>]>,
    hidden: RwLock<KeySet>,
    /// Keys that were hidden or shown, which the presence thread has not taken yet.
    changed: Mutex<Vec<Key>>,
    /// Whether it is known who is online.
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

    /// Returns whether it is known who is online: the first delay of the server is over, in which
    /// clients come back, and other nodes tell which ids they have.
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::SeqCst)
    }

    /// Notes that it is known who is online. For the presence thread.
    pub fn settle(&self) {
        self.is_settled.store(true, Ordering::SeqCst);
    }

    /// Returns whether `key` is online, hidden or not.
    pub fn is_online(&self, key: Key) -> bool {
        self.shard(key).read().online.contains(key)
    }

    /// Returns whether the subscribers of `key` were told that it is online. This, and not
    /// [`Self::is_online`], is what a snapshot shows: only of these keys is it told later that they
    /// went offline.
    pub fn is_announced(&self, key: Key) -> bool {
        self.shard(key).read().announced.contains(key)
    }

    /// Returns whether `key` is online and not hidden.
    pub fn is_visible(&self, key: Key) -> bool {
        self.is_online(key) && !self.is_hidden(key)
    }

    /// Notes whether `key` is online. For the presence thread. Returns whether that is new.
    pub fn set_online(&self, key: Key, is_online: bool) -> bool {
        self.shard(key).write().online.set(key, is_online)
    }

    /// Notes that the subscribers of `key` are told whether it is online. For the presence thread,
    /// before it looks up who they are: a session that logs in later finds it in its snapshot.
    /// Returns whether that is new.
    pub fn set_announced(&self, key: Key, is_announced: bool) -> bool {
        self.shard(key).write().announced.set(key, is_announced)
    }

    /// Takes the keys that were hidden or shown. For the presence thread.
    pub fn take_changed(&self) -> Vec<Key> {
        std::mem::take(&mut self.changed.lock())
    }

    /// Number of keys that are online, hidden or not.
    pub fn count(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.read().online.len()).sum()
    }

    /// Number of parts that [`Self::visible_part`] has.
    pub const fn parts(&self) -> usize {
        self.shards.len()
    }

    /// Returns the keys of a part that are online and not hidden, in no order. Parts are apart so
    /// that nobody waits long for one who reads all.
    pub fn visible_part(&self, part: usize) -> Vec<Key> {
        let Some(shard) = self.shards.get(part) else {
            return Vec::new();
        };
        let mut keys: Vec<Key> = shard.read().online.iter().collect();
        let hidden = self.hidden.read();
        keys.retain(|&key| !hidden.contains(key));
        keys
    }

    /// Hides `key`, or shows it again. Subscribers are told what they are to see by the next edges.
    /// Who hides an interned key must hold it for as long. Returns whether that is new.
    pub fn set_hidden(&self, key: Key, is_hidden: bool) -> bool {
        let is_new = self.hidden.write().set(key, is_hidden);
        if is_new {
            self.changed.lock().push(key);
        }
        is_new
    }

    /// Number of keys that are hidden.
    pub fn hidden_count(&self) -> usize {
        self.hidden.read().len()
    }

    /// Returns whether `key` is hidden.
    pub fn is_hidden(&self, key: Key) -> bool {
        self.hidden.read().contains(key)
    }
}
