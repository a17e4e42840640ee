//! Request bodies that an answer did not need.
//!
//! Hyper closes a connection after an answer whose request body is not complete, as the rest of the
//! body would be taken for the next request. So a small body is awaited, read and dropped before
//! the answer, and the connection stays usable. Otherwise the answer has `Connection: close`: a
//! client would send its next request into the closing connection. Must never read the body of a
//! client that asks before it sends one (RFC 9110, section 10.1.1), or of a refused request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, EXPECT};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::body::chunk;
use crate::limits::{LINGER_WAIT, UNNEEDED_BYTES_MAX};

/// Answers a request, and takes care of the body that its handler did not read.
pub(super) async fn answer(http: Router, request: Request) -> Result<Response, Infallible> {
    if request.body().is_end_stream() {
        return http.oneshot(request).await;
    }
    let may_read = !request.headers().contains_key(EXPECT);
    let unread = UnreadBody::default();
    let request = request.map(|body| {
        Body::new(TrackedBody {
            body,
            unread: unread.clone(),
        })
    });
    let mut response = http.oneshot(request).await?;
    // None if the handler has read the body, or if the answer is sent while it is read.
    let Some(body) = unread.0.lock().take() else {
        return Ok(response);
    };
    let refused = response.status().is_client_error() || response.status().is_server_error();
    if refused || !may_read || !discard(body).await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

/// Reads a small body to its end. Returns false if it is too large, too slow or broken.
async fn discard(mut body: Body) -> bool {
    let is_small = |bytes: u64| bytes <= UNNEEDED_BYTES_MAX;
    if !is_small(body.size_hint().lower()) {
        return false;
    }
    let read = async {
        let mut length = 0;
        while let Some(piece) = chunk(&mut body).await {
            let Ok(piece) = piece else { return false };
            length += piece.len() as u64;
            if !is_small(length) {
                return false;
            }
        }
        true
    };
    timeout(LINGER_WAIT, read).await.unwrap_or(false)
}

/// The body that a handler has dropped before its end, if it did.
#[derive(Clone, Default)]
struct UnreadBody(Arc<Mutex<Option<Body>>>);

/// A request body that goes to [`UnreadBody`] if it is dropped before its end.
struct TrackedBody {
    body: Body,
    unread: UnreadBody,
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            *self.unread.0.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() {
            self.body = Body::empty();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
