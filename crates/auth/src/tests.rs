//! Tests of the whole: tokens against policies.

mod tokens;
