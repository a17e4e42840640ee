//! Tests of the whole: tokens against policies.

mod attacks;
mod claims;
mod keys;
mod rotation;
mod scope;
mod signer;
mod tickets;
mod tickets_of_nodes;
mod vectors;
mod withdrawal;
