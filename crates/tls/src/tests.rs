//! The crate against `rustls` as a client. Every law holds with records of this crate and of
//! `rustls`.

mod pair;

mod certificates;
mod handshakes;
mod hostile;
mod records;
mod updates;
mod vectors;
