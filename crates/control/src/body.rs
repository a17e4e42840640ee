//! Request bodies that are read as a whole.
//!
//! Must never hold more than the limit, or wait longer than the time limit.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::limits::{BODY_STALL_WAIT, BODY_WAIT, DISCARD_BYTES_MAX};
use crate::problem::Problem;

/// Returns the next piece of a body; `None` at its end. An incomplete body gives an error once.
pub(crate) async fn chunk(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    poll_fn(|context| poll_chunk(body, context)).await
}

/// Polls for the result of [`chunk`].
pub(crate) fn poll_chunk(
    body: &mut Body,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, axum::Error>>> {
    loop {
        match Pin::new(&mut *body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => {
                // Trailers are ignored.
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
        }
    }
}

/// Body of an answer that comes in pieces. Dropped when the client is gone, which closes the
/// channel.
struct Pieces<E>(mpsc::Receiver<Result<Bytes, E>>);

/// Returns the body of an answer that comes in pieces.
pub(crate) fn pieces_of<E>(pieces: mpsc::Receiver<Result<Bytes, E>>) -> Body
where
    E: Into<axum::BoxError> + Send + 'static,
{
    Body::new(Pieces(pieces))
}

impl<E> HttpBody for Pieces<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Awaits a body that is read as a whole, within its time limit.
pub(crate) async fn within_time<T>(
    body: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    timeout(BODY_WAIT, body).await.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the body was not complete after {} s; send a body without pauses, or stream many \
                 events with POST /v1/publish",
                BODY_WAIT.as_secs()
            ),
        ))
    })
}

/// The next piece of a body that is read as a whole.
pub(crate) async fn prompt_chunk(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    match timeout(BODY_STALL_WAIT, chunk(body)).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(piece))) => Ok(Some(piece)),
        Ok(Some(Err(error))) => Err(Problem::bad("body", broken(&error))),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "no byte of the body came for {} s; send a body without pauses, or stream many \
                 events with POST /v1/publish",
                BODY_STALL_WAIT.as_secs()
            ),
        )),
    }
}

/// Reads the payload of an event. One that is somewhat too large is read to its end nevertheless,
/// so that the client gets an answer with its size.
pub(crate) async fn read(
    body: Body,
    headers: &HeaderMap,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    within_time(read_whole(body, headers, bytes_max)).await
}

async fn read_whole(
    mut body: Body,
    headers: &HeaderMap,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let declared = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let readable_max = bytes_max.saturating_add(DISCARD_BYTES_MAX);
    if let Some(length) = declared
        && length > readable_max
    {
        return Err(too_large("", length, bytes_max));
    }
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = prompt_chunk(&mut body).await? {
        length += piece.len();
        if length > readable_max {
            return Err(too_large("at least ", length, bytes_max));
        } else if length > bytes_max {
            more = BytesMut::new();
        } else if first.is_empty() {
            first = piece;
        } else {
            if more.is_empty() {
                more.reserve(
                    declared
                        .unwrap_or(0)
                        .clamp(first.len() + piece.len(), bytes_max),
                );
                more.extend_from_slice(&first);
            }
            more.extend_from_slice(&piece);
        }
    }
    match length {
        _ if length > bytes_max => Err(too_large("", length, bytes_max)),
        _ if more.is_empty() => Ok(first),
        _ => Ok(more.freeze()),
    }
}

fn too_large(about: &str, length: usize, bytes_max: usize) -> Problem {
    Problem::too_large(event_too_large(about, length, bytes_max))
}

/// Returns the error text for an event that is too large.
pub(crate) fn event_too_large(about: &str, length: usize, bytes_max: usize) -> String {
    format!(
        "the event has {about}{length} bytes, more than the limit of {bytes_max}; publish a \
         smaller event, or a link to the data"
    )
}

/// Returns the error text for an incomplete body.
pub(crate) fn broken(error: &axum::Error) -> String {
    format!("the transfer was interrupted: {error}")
}
