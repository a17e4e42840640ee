//! Exchanges of one request and its response, over the connection that is kept between calls.

use std::io::{self, Read, Write};

use serde_json::Value;
use ureq::{Body, SendBody, http};

use super::secure::Head;
use super::{Channel, ControlClient};
use crate::http::{Connection, RequestBody, Response};
use machine::failure::{Context, Failure, Outcome};

impl ControlClient {
    /// Sends `body` in chunks and reads the response. Without TLS the response may come before the
    /// body ends.
    pub(super) fn stream(
        &mut self,
        path: &str,
        content_type: &str,
        mut body: &mut dyn Read,
    ) -> Outcome<Value> {
        if let Channel::Tls(listener) = &self.channel {
            let head = self.head("POST", path, Some(content_type));
            let answer = listener.request(head, SendBody::from_reader(&mut body));
            return self.read_secure(answer.map_err(|error| self.explain_secure(error))?);
        }
        let mut connection = self.connect()?;
        let fields = self.fields(Some(content_type));
        let written = connection
            .write("POST", path, &fields, RequestBody::Chunked)
            .and_then(|()| connection.chunks())
            .and_then(|mut chunks| {
                io::copy(body, &mut chunks)?;
                chunks.finish()
            });
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
        if let Channel::Tls(listener) = &self.channel {
            let head = self.head(method, path, content_type);
            let answer = match body {
                RequestBody::Bytes(bytes) => listener.request(head, bytes),
                RequestBody::None | RequestBody::Chunked => listener.request(head, ()),
            };
            return self.read_secure(answer.map_err(|error| self.explain_secure(error))?);
        }
        let mut connection = self.connect()?;
        let fields = self.fields(content_type);
        connection
            .write(method, path, &fields, body)
            .map_err(|error| self.explain(&error))?;
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
        if let Channel::Tls(listener) = &self.channel {
            let answer = listener.request(self.head("GET", path, None), ());
            let mut answer = answer.map_err(|error| self.explain_secure(error))?;
            let status = answer.status().as_u16();
            return self.copy(status, &mut answer.body_mut().as_reader(), out);
        }
        let mut connection = self.connect()?;
        connection
            .write("GET", path, &self.fields(None), RequestBody::None)
            .map_err(|error| self.explain(&error))?;
        let answer = self.read_head(&mut connection)?;
        self.copy(answer.status, &mut connection.body(&answer), out)?;
        self.keep(connection);
        Ok(())
    }

    fn copy(&self, status: u16, body: &mut dyn Read, out: &mut dyn Write) -> Outcome<()> {
        if status >= 300 {
            return Err(self.refusal(status, body));
        }
        let mut piece = vec![0; 1 << 16];
        loop {
            match body
                .read(&mut piece)
                .map_err(|error| self.explain(&error))?
            {
                0 => return Ok(()),
                count => (out.write_all(&piece[..count])).context("writing the copy")?,
            }
        }
    }

    fn read_secure(&self, mut answer: http::Response<Body>) -> Outcome<Value> {
        let status = answer.status().as_u16();
        let is_json = answer
            .body()
            .mime_type()
            .is_some_and(|mime_type| mime_type.contains("json"));
        self.read_value(status, is_json, &mut answer.body_mut().as_reader())
    }

    fn read_answer(&self, connection: &mut Connection) -> Outcome<Value> {
        let answer = self.read_head(connection)?;
        let is_json = answer.content_type.contains("json");
        self.read_value(answer.status, is_json, &mut connection.body(&answer))
    }

    fn read_head(&self, connection: &mut Connection) -> Outcome<Response> {
        connection.read_head().map_err(|error| self.explain(&error))
    }

    /// Reads the body of a response to its end. Returns null if it is empty or not JSON.
    fn read_value(&self, status: u16, is_json: bool, body: &mut dyn Read) -> Outcome<Value> {
        if status >= 300 {
            return Err(self.refusal(status, body));
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)
            .map_err(|error| self.explain(&error))?;
        if bytes.is_empty() || !is_json {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).context("reading the server's answer")
    }

    /// Takes the connection of the last call, or opens one.
    pub(super) fn connect(&mut self) -> Outcome<Connection> {
        let Channel::Plain { url, connection } = &mut self.channel else {
            return Err(Failure::new("this request is made over http:// only"));
        };
        if let Some(connection) = connection.take()
            && !connection.is_stale()
        {
            return Ok(connection);
        }
        Connection::open(url)
            .and_then(|connection| {
                connection.set_read_timeout(self.read_timeout)?;
                Ok(connection)
            })
            .map_err(|error| self.explain(&error))
    }

    fn keep(&mut self, used: Connection) {
        if let Channel::Plain { connection, .. } = &mut self.channel
            && !used.must_close()
        {
            *connection = Some(used);
        }
    }

    fn head<'a>(
        &'a self,
        method: &'a str,
        path: &'a str,
        content_type: Option<&'a str>,
    ) -> Head<'a> {
        Head {
            method,
            path,
            bearer: self.bearer.as_deref(),
            content_type,
            read_timeout: self.read_timeout,
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
