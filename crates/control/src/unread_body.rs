//! `Connection: close` on refusals whose request body was not read.
//!
//! The connection is closed after such an answer, as the rest of the body would be taken for the
//! next request. The answer announces it: otherwise a client would send its next request into the
//! closing connection. Must never read a body itself: a client that asks before it sends one (RFC
//! 9110, section 10.1.1) gets the refusal instead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Adds `Connection: close` to refusals of requests with an unread body. Other answers may be sent
/// while the body is still being read.
pub(crate) async fn announce_close(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let read = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| {
        let read = Arc::clone(&read);
        Body::new(TrackedBody { body, read })
    });
    let mut response = next.run(request).await;
    let refused = response.status().is_client_error() || response.status().is_server_error();
    if refused && !read.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// A request body that records whether it was read to its end.
struct TrackedBody {
    body: Body,
    read: Arc<AtomicBool>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.read.store(true, Ordering::Relaxed);
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
