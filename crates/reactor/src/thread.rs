//! Worker threads, with a private descriptor table on request.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sched::{CloneFlags, unshare};

/// Stack of a worker in bytes. Its loop is shallow and keeps its buffers on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Starts a thread. With `private_fds` it first replaces the shared descriptor table by a copy of
/// its own, so that the limit on descriptors counts for this thread alone. From then on the thread
/// must close the descriptors that it opens, and sockets must not be passed to it or from it.
///
/// # Errors
///
/// When the thread cannot be started. A failure to copy the table is passed to `run`.
pub fn spawn<T: Send + 'static>(
    name: String,
    private_fds: bool,
    run: impl FnOnce(io::Result<()>) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let table = if private_fds {
                unshare(CloneFlags::CLONE_FILES)
            } else {
                Ok(())
            };
            run(table.map_err(io::Error::from))
        })
}
