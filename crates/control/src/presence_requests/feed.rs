//! Edges as they come: a stream of lines that goes on, and can be resumed.
//!
//! Owns what a reader is told, and when it gets a snapshot: whenever edges before the next one may
//! be missing. Must never keep more for a slow reader than some lines.

use std::convert::Infallible;
use std::sync::Arc;

use ::presence::{FeedReset, IdEdge};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use graph::Id;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::{Presence, presence};
use crate::api::Shared;
use crate::body::pieces_of;
use crate::caller::Caller;
use crate::json::push_line;
use crate::limits::{FEED_HEARTBEAT, FEED_LINES_PER_PIECE, FEED_PIECES_MAX, FEED_TICK};
use crate::problem::{Answered, Problem};
use crate::query::Query;

/// A line of the stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    /// Edges after the cursor of the request may be missing. A snapshot follows.
    Reset {
        reason: &'static str,
    },
    /// Ids that are online. What the pieces from the first one on do not name is offline.
    Snapshot {
        online: &'a [Id],
        first: bool,
        more: bool,
        /// Where edges go on, in the last piece.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    Online {
        id: &'a Id,
        cursor: String,
    },
    Offline {
        id: &'a Id,
        cursor: String,
    },
    Heartbeat {
        cursor: String,
    },
}

/// `GET /v1/presence`
pub(crate) async fn edges(State(api): State<Shared>, request: Request) -> Answered {
    let query = Query::parse(request.uri(), &["cursor"])?;
    let presence = presence(&api)?.clone();
    let place = Arc::clone(&api.feeds).try_acquire_owned().map_err(|_| {
        Problem::unavailable(format!(
            "{} programs read presence, which is the limit; close one of them",
            api.limits.feeds_max
        ))
    })?;
    let start = query.get("cursor").map(|text| presence.feed.resume(text));
    let (pieces, body) = mpsc::channel(FEED_PIECES_MAX);
    let reader = Reader {
        caller: Caller::of(&request),
        api,
        presence,
        pieces,
        _place: place,
    };
    tokio::spawn(reader.run(start));
    let content_type = [(CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, pieces_of(body)).into_response())
}

/// The reader is gone, or must go.
struct Ended;

/// One program that reads edges. Lives until it leaves, the server drains or its token is removed.
struct Reader {
    api: Shared,
    caller: Caller,
    presence: Presence,
    pieces: mpsc::Sender<Result<Bytes, Infallible>>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    async fn run(self, start: Option<Result<u64, FeedReset>>) {
        // Each way out drops the sender, which ends the body.
        let _ = self.follow(start).await;
    }

    async fn follow(&self, start: Option<Result<u64, FeedReset>>) -> Result<(), Ended> {
        let mut cursor = match start {
            Some(Ok(cursor)) => cursor,
            Some(Err(reset)) => self.reset(reset).await?,
            None => self.snapshot().await?,
        };
        self.send(&[self.heartbeat(cursor)]).await?;
        let mut spoken = Instant::now();
        loop {
            let page = self.presence.feed.after(cursor, FEED_LINES_PER_PIECE);
            if page.reset {
                cursor = self.reset(FeedReset::Expired).await?;
                continue;
            }
            if !page.edges.is_empty() {
                self.send_edges(&page.edges, cursor).await?;
                cursor = page.cursor;
                spoken = Instant::now();
                continue;
            }
            if spoken.elapsed() >= FEED_HEARTBEAT {
                self.send(&[self.heartbeat(cursor)]).await?;
                spoken = Instant::now();
            }
            self.check()?;
            // The presence thread takes what comes and goes at the same interval.
            sleep(FEED_TICK).await;
        }
    }

    /// Tells that edges may be missing, and what is true now. Returns where edges go on.
    async fn reset(&self, reset: FeedReset) -> Result<u64, Ended> {
        let reason = reset.name();
        self.send(&[Line::Reset { reason }]).await?;
        self.snapshot().await
    }

    /// Tells who is online. Returns where edges go on.
    async fn snapshot(&self) -> Result<u64, Ended> {
        let Presence { online, feed, .. } = &self.presence;
        // Edges are absolute, so one that the snapshot has seen already does no harm.
        let cursor = feed.end();
        let mut first = true;
        let mut waiting: Vec<Id> = Vec::new();
        for part in 0..online.parts() {
            let graph = self.api.router().graph();
            let names = online.visible_part(part).into_iter();
            waiting.extend(
                names
                    .filter_map(|key| graph.name(key))
                    .filter(|id| self.may_name(id)),
            );
            while waiting.len() > self.api.limits.feed_ids_per_line {
                let rest = waiting.split_off(self.api.limits.feed_ids_per_line);
                let online = &waiting;
                let piece = Line::Snapshot {
                    online,
                    first,
                    more: true,
                    cursor: None,
                };
                self.send(&[piece]).await?;
                (waiting, first) = (rest, false);
            }
            yield_now().await;
        }
        let last = Line::Snapshot {
            online: &waiting,
            first,
            more: false,
            cursor: Some(feed.cursor_text(cursor)),
        };
        self.send(&[last]).await?;
        Ok(cursor)
    }

    async fn send_edges(&self, edges: &[IdEdge], from: u64) -> Result<(), Ended> {
        let feed = &self.presence.feed;
        let visible = edges.iter().zip(from + 1..);
        let visible = visible.filter(|(edge, _)| self.may_name(&edge.id));
        let lines: Vec<Line<'_>> = visible
            .map(|(IdEdge { id, online }, position)| {
                let cursor = feed.cursor_text(position);
                match online {
                    true => Line::Online { id, cursor },
                    false => Line::Offline { id, cursor },
                }
            })
            .collect();
        self.send(&lines).await
    }

    fn heartbeat(&self, cursor: u64) -> Line<'static> {
        Line::Heartbeat {
            cursor: self.presence.feed.cursor_text(cursor),
        }
    }

    /// Hands lines to the connection, as soon as that takes them.
    async fn send(&self, lines: &[Line<'_>]) -> Result<(), Ended> {
        self.check()?;
        if lines.is_empty() {
            return Ok(());
        }
        let mut piece = Vec::new();
        for line in lines {
            push_line(&mut piece, line);
        }
        self.pieces.send(Ok(piece.into())).await.map_err(|_| Ended)
    }

    /// Returns whether the token of the reader may name the id.
    fn may_name(&self, id: &Id) -> bool {
        self.caller.may_name(id)
    }

    /// Checks that the reader is there and may go on.
    fn check(&self) -> Result<(), Ended> {
        let token = self.caller.token();
        let is_valid = token.is_none_or(|token| self.api.tokens.has(token));
        let goes_on = is_valid && !self.pieces.is_closed() && !self.api.server.is_draining();
        if goes_on { Ok(()) } else { Err(Ended) }
    }
}
