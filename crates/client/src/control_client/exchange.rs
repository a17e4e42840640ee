//! Exchanges of one request and its response, over the connection that is kept between calls.

use std::io::{self, Read, Write};

use serde_json::Value;

use super::ControlClient;
use crate::http::{Connection, RequestBody, Response};
use machine::failure::{Context, Outcome};

impl ControlClient {
    /// Sends `body` in chunks and reads the response.
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
            .and_then(|()| {
                let mut chunks = connection.body_writer();
                io::copy(body, &mut chunks)?;
                chunks.finish()
            });
        // If the server refused the body, its response says why.
        let value = self.read_answer(&mut connection)?;
        written.map_err(|error| self.explain(&error))?;
        self.keep(connection);
        Ok(value)
    }

    /// Sends a request whose body, if it has one, is in memory, and reads the response.
    pub(super) fn call(
        &mut self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: RequestBody<'_>,
    ) -> Outcome<Value> {
        let mut connection = self.send_request(method, path, content_type, body)?;
        let value = self.read_answer(&mut connection)?;
        self.keep(connection);
        Ok(value)
    }

    /// Copies the body of the response to `out`.
    ///
    /// # Errors
    ///
    /// When the request fails, the body is incomplete, or `out` cannot be written.
    pub(super) fn download(&mut self, path: &str, out: &mut dyn Write) -> Outcome<()> {
        let mut connection = self.send_request("GET", path, None, RequestBody::None)?;
        let answer = self.read_head(&mut connection)?;
        let mut body = connection.body(&answer);
        let mut piece = vec![0; 1 << 16];
        loop {
            match body.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => out.write_all(&piece[..count]).context("writing the copy")?,
                Err(error) => return Err(self.explain(&error)),
            }
        }
        self.keep(connection);
        Ok(())
    }

    /// Sends a request over the connection of the last call, or over a new one.
    pub(super) fn send_request(
        &mut self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: RequestBody<'_>,
    ) -> Outcome<Connection> {
        let mut connection = self.connect()?;
        let sent = connection.write(method, path, &self.fields(content_type), body);
        sent.map_err(|error| self.explain(&error))?;
        Ok(connection)
    }

    /// Reads a response to its end. Returns null if its body is empty or not JSON.
    fn read_answer(&self, connection: &mut Connection) -> Outcome<Value> {
        let answer = self.read_head(connection)?;
        let mut bytes = Vec::new();
        let read = connection.body(&answer).read_to_end(&mut bytes);
        read.map_err(|error| self.explain(&error))?;
        if bytes.is_empty() || !answer.content_type.contains("json") {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).context("reading the server's answer")
    }

    /// Reads the head of a response. A refusal is an error.
    pub(super) fn read_head(&self, connection: &mut Connection) -> Outcome<Response> {
        let answer = connection.read_head();
        let answer = answer.map_err(|error| self.explain(&error))?;
        if answer.status >= 300 {
            return Err(self.refusal(answer.status, &mut connection.body(&answer)));
        }
        Ok(answer)
    }

    /// Takes the connection of the last call, or opens one.
    fn connect(&mut self) -> Outcome<Connection> {
        if let Some(connection) = self.connection.take()
            && !connection.is_stale()
        {
            return Ok(connection);
        }
        Connection::open(&self.url, self.tls.as_ref())
            .and_then(|connection| {
                connection.set_read_timeout(self.read_timeout)?;
                Ok(connection)
            })
            .map_err(|error| self.explain(&error))
    }

    fn keep(&mut self, used: Connection) {
        if !used.must_close() {
            self.connection = Some(used);
        }
    }

    fn fields<'a>(&'a self, content_type: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let bearer = self.bearer.as_deref();
        let bearer = bearer.map(|bearer| ("Authorization", bearer));
        let content_type = content_type.map(|content_type| ("Content-Type", content_type));
        bearer.into_iter().chain(content_type).collect()
    }
}
