//! A BEAM as the oracle: it reads generated terms, writes them again, and prints them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use erlang::term::Raw;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::value::{Value, text_of, value};

/// Number of terms in a normal run. `ENCKE_TERMS=1000000` tests a million.
const TERMS: usize = 20_000;

/// Number of terms for one BEAM, as it never frees atoms and nearly every term has some.
const TERMS_EACH: usize = 50_000;

/// Program that reads terms, each after its size, and answers each with the term as the BEAM
/// encodes and prints it.
const MIRROR: &str = r#"
main([From, To]) ->
    {ok, Terms} = file:read_file(From),
    {ok, File} = file:open(To, [write, raw, delayed_write]),
    mirror(Terms, File),
    ok = file:close(File).

mirror(<<Size:32, Bytes:Size/binary, Rest/binary>>, File) ->
    Term = binary_to_term(Bytes),
    Again = term_to_binary(Term),
    Text = unicode:characters_to_binary(io_lib:format("~0tp", [Term])),
    ok = file:write(File, [<<(byte_size(Again)):32>>, Again, <<(byte_size(Text)):32>>, Text]),
    mirror(Rest, File);
mirror(<<>>, _) -> ok.
"#;

#[test]
fn terms_pass_unchanged_through_a_beam_which_prints_them_alike() {
    let count = env::var("ENCKE_TERMS").map_or(TERMS, |count| count.parse().expect("a number"));
    assert!(count > 0, "ENCKE_TERMS=0 would check nothing");
    for first in (0..count).step_by(TERMS_EACH) {
        pass_through(&generate(first, TERMS_EACH.min(count - first)));
    }
}

fn pass_through(values: &[Value]) {
    let answers = mirror(values);
    let mut answers = answers.as_slice();
    for value in values {
        let (again, text) = (take(&mut answers), take(&mut answers));
        assert_eq!(&Value::of(Raw::external(again).expect("a term")), value);
        if value.has_portable_text() {
            assert_eq!(text_of(again), String::from_utf8_lossy(text));
        }
    }
    assert!(answers.is_empty());
}

/// Generates terms that depend on the position of the first of them in the run.
fn generate(first: usize, count: usize) -> Vec<Value> {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&(first as u64).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = value();
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

fn mirror(values: &[Value]) -> Vec<u8> {
    let directory =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("terms-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let [script, from, to] = ["mirror.escript", "from", "to"].map(|name| directory.join(name));
    fs::write(
        &script,
        format!("#!/usr/bin/env escript\n%%! +pc unicode +S 1 +t 8388608\n{MIRROR}"),
    )
    .unwrap();
    let mut terms = Vec::new();
    for value in values {
        let bytes = value.external();
        terms.extend((bytes.len() as u32).to_be_bytes());
        terms.extend(bytes);
    }
    fs::write(&from, terms).unwrap();
    let output = Command::new("escript")
        .env("ERL_CRASH_DUMP_SECONDS", "0")
        .arg(&script)
        .args([&from, &to])
        .output()
        .expect(
            "a BEAM is the oracle here: harness/tests/setup installs Erlang, `-- --skip beam` \
             does without",
        );
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = fs::read(&to).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    answers
}

fn take<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let (size, rest) = bytes
        .split_first_chunk()
        .expect("the BEAM answers every term");
    let (taken, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
    *bytes = rest;
    taken
}
