//! One request and its answer, over the connection that is kept from call to call.

use std::io::{self, Read, Write};

use serde_json::Value;

use super::ControlClient;
use crate::http::{Connection, RequestBody, Response};
use machine::failure::{Context, Outcome};

impl ControlClient {
    /// Writes `body` in chunks and reads the one answer, which may come before the end.
    pub(super) fn stream(
        &mut self,
        path: &str,
        content_type: &str,
        body: &mut dyn Read,
    ) -> Outcome<Value> {
        let mut connection = self.connect()?;
        let fields = self.fields(Some(content_type));
        let written = connection
            .write("POST", path, &fields, RequestBody::Chunked)
            .and_then(|()| connection.chunks())
            .and_then(|mut chunks| {
                io::copy(body, &mut chunks)?;
                chunks.finish()
            });
        match self.read_answer(&mut connection) {
            Ok(value) => {
                written.map_err(|error| self.explain(&error))?;
                self.keep(connection);
                Ok(value)
            }
            Err(failure) => Err(failure),
        }
    }

    pub(super) fn call(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        payload: RequestBody<'_>,
    ) -> Outcome<Value> {
        let mut connection = self.connect()?;
        let mut fields = self.fields(None);
        fields.extend_from_slice(more);
        connection
            .write(method, path, &fields, payload)
            .map_err(|error| self.explain(&error))?;
        let value = self.read_answer(&mut connection)?;
        self.keep(connection);
        Ok(value)
    }

    /// Reads the body of an answer into `out`, and errs unless all of it came.
    pub(super) fn download(&mut self, path: &str, out: &mut dyn Write) -> Outcome<()> {
        let mut connection = self.connect()?;
        connection
            .write("GET", path, &self.fields(None), RequestBody::None)
            .map_err(|error| self.explain(&error))?;
        let answer = connection
            .read_head()
            .map_err(|error| self.explain(&error))?;
        let mut body = connection.body(&answer);
        if answer.status >= 300 {
            return Err(self.refusal(&answer, &mut body));
        }
        let mut piece = vec![0; 1 << 16];
        loop {
            match body
                .read(&mut piece)
                .map_err(|error| self.explain(&error))?
            {
                0 => break,
                count => (out.write_all(&piece[..count])).context("writing the copy")?,
            }
        }
        self.keep(connection);
        Ok(())
    }

    pub(super) fn read_answer(&self, connection: &mut Connection) -> Outcome<Value> {
        let answer = connection
            .read_head()
            .map_err(|error| self.explain(&error))?;
        self.read_body(connection, &answer)
    }

    fn read_body(&self, connection: &mut Connection, answer: &Response) -> Outcome<Value> {
        let mut body = connection.body(answer);
        if answer.status >= 300 {
            return Err(self.refusal(answer, &mut body));
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)
            .map_err(|error| self.explain(&error))?;
        if bytes.is_empty() || !answer.content_type.contains("json") {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).context("reading the server's answer")
    }

    pub(super) fn connect(&mut self) -> Outcome<Connection> {
        match self.connection.take() {
            Some(connection) if !connection.is_stale() => Ok(connection),
            _ => Connection::open(&self.url)
                .and_then(|connection| {
                    connection.set_read_timeout(self.read_timeout)?;
                    Ok(connection)
                })
                .map_err(|error| self.explain(&error)),
        }
    }

    pub(super) fn keep(&mut self, connection: Connection) {
        if !connection.must_close() {
            self.connection = Some(connection);
        }
    }

    pub(super) fn fields<'a>(&'a self, content_type: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let bearer = self
            .bearer
            .as_deref()
            .map(|bearer| ("Authorization", bearer));
        let content_type = content_type.map(|content_type| ("Content-Type", content_type));
        bearer.into_iter().chain(content_type).collect()
    }
}
