//! Clients and measuring tools for push servers: Encke's and other people's.
//!
//! Nothing here depends on `wire` or `server`: a client that shares the encoder shares its bugs.
//! Every byte that a server sends is decoded by code written for the purpose.

#![forbid(unsafe_code)]

// What every tool stands on.
pub mod failure;
pub mod spoken;
pub mod clock;
pub mod interrupt;
pub mod random;
pub mod stamp;
pub mod machine;
pub mod poll;

// Bytes of a server, decoded.
pub mod decode;

// One client, talking or listening.
pub mod http;
pub mod control_client;
pub mod backoff;
pub mod listen;

// Who is whose friend, and events about them at a rate.
pub mod friends;
pub mod drive;

// A million clients, and the barest server to hold them against.
pub mod flood;
pub mod bare;

// What it cost, and how it is said.
pub mod measure;
pub mod top;
pub mod record;
pub mod plot;
pub mod doctor;
pub mod report;
pub mod child;
pub mod bench;
pub mod prove;
