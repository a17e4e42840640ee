//! An echo server over `wire::websocket`, with blocking sockets and a thread for each connection:
//! what conformance suites talk to.
//!
//! `cargo run -p wire --example websocket_echo -- 127.0.0.1:9001`

use std::error::Error;
use std::io::{self, Read, Write};
use std::{env, thread};

use wire::head;
use wire::websocket::{self, CloseCode, Decoder, Limits, Message, Opcode};

/// Suites send messages of up to 16 MiB, and some of them in fragments of 64 bytes.
const LIMITS: Limits = Limits {
    message_bytes: 16 << 20,
    fragments: 1 << 20,
};

#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the example is the program around the crate, which itself has no sockets"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = std::net::TcpListener::bind(address)?;
    println!("ws://{}/", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: impl Read + Write) -> Result<(), Box<dyn Error>> {
    let mut block = vec![0; 64 * 1024];
    let mut filled = 0;
    let consumed = loop {
        let count = stream.read(&mut block[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let request = head::parse(&block[..filled]).map_err(|error| error.reason())?;
        if let Some(request) = request {
            let accept = websocket::check(&request).map_err(|error| error.reason())?;
            write!(
                stream,
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {}\r\n\r\n",
                accept.as_str()
            )?;
            break request.consumed;
        }
    };
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    let mut range = consumed..filled;
    loop {
        out.clear();
        let goes_on = answer(&mut decoder, &mut block[range], &mut out);
        stream.write_all(&out)?;
        if !goes_on {
            // The client ends the connection when it has the close frame.
            io::copy(&mut stream, &mut io::sink())?;
            return Ok(());
        }
        range = 0..stream.read(&mut block)?;
        if range.is_empty() {
            return Ok(());
        }
    }
}

/// Appends the answers to what has arrived. Returns whether the connection goes on.
fn answer(decoder: &mut Decoder, mut input: &mut [u8], out: &mut Vec<u8>) -> bool {
    loop {
        match decoder.next(&mut input, &LIMITS) {
            Ok(Some(Message::Text(text))) => {
                websocket::push_frame(Opcode::Text, text.as_bytes(), out);
            }
            Ok(Some(Message::Binary(bytes))) => {
                websocket::push_frame(Opcode::Binary, &bytes, out);
            }
            Ok(Some(Message::Ping(payload))) => {
                websocket::push_frame(Opcode::Pong, &payload, out);
            }
            Ok(Some(Message::Pong(_))) => {}
            Ok(Some(Message::Close(close))) => {
                let code = close.map_or(CloseCode::NORMAL, |close| close.code);
                websocket::push_close(code, "", out);
                return false;
            }
            Ok(None) => return true,
            Err(error) => {
                websocket::push_close(error.code(), error.reason(), out);
                return false;
            }
        }
    }
}
