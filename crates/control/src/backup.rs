//! A copy of the graph, taken while changes go on, and of the file that goes with it, streamed to
//! whoever asks.
//!
//! Must never hold up a change for longer than a snapshot takes, nor keep more than some pieces of
//! the copy in memory.

use std::fs::File;
use std::io::Read;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use graph::ID_TERMS_FILE;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::api::Shared;
use crate::body::pieces_of;
use crate::limits::{COPY_PIECE_BYTES, COPY_PIECES_MAX};
use crate::problem::{Answered, Problem, ProblemType};
use crate::query::Query;

/// `GET /v1/graph/backup`
pub(crate) async fn backup(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    // There is one thread for what blocks, so copies are made one after another.
    let copy = spawn_blocking(move || api.router().graph().copy()).await;
    let failed = |why: String| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the graph could not be copied: {why}"),
        )
    };
    let copy = copy
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| {
            Problem::new(
                StatusCode::CONFLICT,
                "this server keeps its graph in memory only (--memory), so there is no file to \
                 copy",
            )
            .of_type(ProblemType::NotConfigured)
        })?;
    stream(copy.file, "graph.redb").map_err(|error| failed(error.to_string()))
}

/// `GET /v1/graph/backup/erlang-ids`
pub(crate) async fn erlang_ids(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let failed = |error: std::io::Error| {
        let why = format!("the original terms of ids could not be copied: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    };
    match api.router().graph().open_id_terms().map_err(failed)? {
        Some(file) => stream(file, ID_TERMS_FILE).map_err(failed),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Answers with a file as long as it is now.
fn stream(file: File, name: &str) -> std::io::Result<Response> {
    let length = file.metadata()?.len();
    let (pieces, body) = mpsc::channel(COPY_PIECES_MAX);
    spawn_blocking(move || read(file.take(length), &pieces));
    Ok((
        [
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (CONTENT_LENGTH, length.to_string()),
            (
                CONTENT_DISPOSITION,
                format!("attachment; filename=\"{name}\""),
            ),
        ],
        pieces_of(body),
    )
        .into_response())
}

type Piece = Result<Bytes, std::io::Error>;

/// Reads the copy, no faster than the client does.
fn read(mut file: impl Read, pieces: &mpsc::Sender<Piece>) {
    loop {
        let mut piece = vec![0; COPY_PIECE_BYTES];
        let piece = match file.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => {
                piece.truncate(count);
                Ok(piece.into())
            }
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if pieces.blocking_send(piece).is_err() || failed {
            return;
        }
    }
}
