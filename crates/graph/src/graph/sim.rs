//! A graph whose writer takes a step when it is told.

use std::sync::Arc;

use super::{Changes, Graph};
use crate::memory::Memory;
use crate::store::Store;
use crate::sync::Mutex;
use crate::writer::{Work, Writer};

impl Graph {
    /// A durable graph whose writer has no thread, and the work of that writer.
    pub(crate) fn without_thread(mut store: Store, memory: Memory) -> (Self, Work) {
        let memory = Arc::new(memory);
        let rows = Mutex::new(store.take_rows());
        let (writer, work) = Writer::without_thread(store, Arc::clone(&memory));
        let graph = Self {
            memory,
            changes: Changes::Durable(writer),
            rows,
            directory: None,
        };
        (graph, work)
    }
}
