//! Short answers: the page, errors, preflights.
//!
//! Owns how an answer is written and what follows it. Must never read a request's path.

/// Answers and their content.
mod content;
/// The page at `/`.
mod page;
/// Fields for pages of other origins.
mod cors;
/// The `Date` of answers.
mod date;
/// Writer of answers.
mod responder;
/// Answers to requests that have waited.
mod later;
/// Entries of the access log.
mod logged;

pub(crate) use content::{Answer, EVENT_STREAM, Fields, HTML};
pub(crate) use later::RequestManner;
pub(crate) use logged::client_of;
pub(crate) use page::{PAGE_POLICY, page_of};
pub(crate) use responder::Responder;
