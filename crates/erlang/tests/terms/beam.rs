//! A BEAM as the oracle: it reads what is written here, writes it again, and prints it.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use erlang::term::Raw;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::value::{Value, text_of, value};

/// Terms that a usual run sends through the BEAM. `ENCKE_TERMS=1000000` sends a million.
const TERMS: usize = 20_000;

/// Terms that one BEAM is given: it forgets no atom that it ever read, and here nearly every term
/// has some.
const TERMS_EACH: usize = 50_000;

/// Reads terms behind their sizes and answers each with the term as the BEAM writes it and prints
/// it.
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
fn terms_pass_through_a_beam_unchanged_and_are_printed_alike() {
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

/// Terms that depend on where in the run the first of them comes.
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
            "a BEAM is the oracle here: tests/setup installs Erlang, `-- --skip beam` does without",
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
    let (size, rest) = bytes.split_first_chunk().expect("the BEAM answered all");
    let (taken, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
    *bytes = rest;
    taken
}
