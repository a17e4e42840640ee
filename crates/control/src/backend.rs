//! What the control API needs of the server behind it.
//!
//! Exists so that the API can be tested over a router without workers. Must never grow what
//! [`server::Handle`] does not have.

use router::{Mailboxes, Router, SessionRef};
use server::{Handle, Post, ServerStats, SessionReport};

/// A server: [`Handle`], or a stand-in.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// The way to its workers.
    type Mailboxes: Mailboxes + 'static;

    fn router(&self) -> &Router<Self::Mailboxes>;
    fn stats(&self) -> ServerStats;
    fn is_draining(&self) -> bool;
    fn close(&self, sessions: &[SessionRef]);
    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    );
    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static);
}

impl Backend for Handle {
    type Mailboxes = Post;

    fn router(&self) -> &Router<Post> {
        Self::router(self)
    }

    fn stats(&self) -> ServerStats {
        Self::stats(self)
    }

    fn is_draining(&self) -> bool {
        Self::is_draining(self)
    }

    fn close(&self, sessions: &[SessionRef]) {
        Self::close(self, sessions);
    }

    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    ) {
        Self::inspect(self, sessions, report);
    }

    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static) {
        Self::slowest(self, limit, report);
    }
}
