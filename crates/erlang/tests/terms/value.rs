//! Random terms as plain values, to compare with the codec's views.

use std::collections::BTreeMap;

use erlang::term::{Raw, Term, text, write};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Integer(i64),
    Big(bool, Vec<u8>),
    /// The bits of the float.
    Float(u64),
    Atom(String),
    Pid(String, u32, u32, u32),
    Port(String, u64, u32),
    Reference(String, u32, Vec<u32>),
    Binary(Vec<u8>),
    Bits(Vec<u8>, u8),
    /// Elements and tail.
    List(Vec<Value>, Box<Value>),
    Nil,
    Tuple(Vec<Value>),
    Map(BTreeMap<Value, Value>),
    Export(String, String, u8),
}

impl Value {
    /// Converts a term. A string becomes a list of integers.
    pub(crate) fn of(raw: Raw<'_>) -> Self {
        match raw.view() {
            Term::Integer(integer) => Self::Integer(integer),
            Term::Big(big) => Self::Big(big.negative, big.magnitude.to_vec()),
            Term::Float(float) => Self::Float(float.to_bits()),
            Term::Atom(atom) => Self::Atom(atom.text().into_owned()),
            Term::Pid(pid) => Self::Pid(pid.node.text().into(), pid.id, pid.serial, pid.creation),
            Term::Port(port) => Self::Port(port.node.text().into(), port.id, port.creation),
            Term::Reference(reference) => Self::Reference(
                reference.node.text().into(),
                reference.creation,
                reference.numbers().collect(),
            ),
            Term::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Term::Bits(bytes, in_last) => {
                let mut bytes = bytes.to_vec();
                // Unused bits may have any value.
                *bytes.last_mut().unwrap() &= 0xff << (8 - in_last);
                Self::Bits(bytes, in_last)
            }
            Term::Nil => Self::Nil,
            Term::String(bytes) => Self::List(
                bytes
                    .iter()
                    .map(|&byte| Self::Integer(byte.into()))
                    .collect(),
                Box::new(Self::Nil),
            ),
            Term::List(list) => Self::List(
                list.elements().map(Self::of).collect(),
                Box::new(Self::of(list.tail())),
            )
            .joined(),
            Term::Tuple(elements) => Self::Tuple(elements.map(Self::of).collect()),
            Term::Map(pairs) => {
                let flat: Vec<_> = pairs.map(Self::of).collect();
                let pairs = flat
                    .chunks(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()));
                Self::Map(pairs.collect())
            }
            Term::Export(module, function, arity) => {
                Self::Export(module.text().into(), function.text().into(), arity)
            }
            Term::Fun(_) => panic!("none is generated"),
        }
    }

    /// Joins a list with its tail if that is a list.
    fn joined(self) -> Self {
        match self {
            Self::List(mut elements, tail) => match *tail {
                Self::List(more, tail) => {
                    elements.extend(more);
                    Self::List(elements, tail)
                }
                tail => Self::List(elements, Box::new(tail)),
            },
            other => other,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(integer) => write::integer(out, *integer),
            Self::Big(negative, magnitude) => {
                match u8::try_from(magnitude.len()) {
                    Ok(size) => out.extend([110, size]),
                    Err(_) => {
                        out.push(111);
                        out.extend((magnitude.len() as u32).to_be_bytes());
                    }
                }
                out.push(u8::from(*negative));
                out.extend(magnitude);
            }
            Self::Float(bits) => write::float(out, f64::from_bits(*bits)),
            Self::Atom(text) => write::atom(out, text),
            Self::Pid(node, id, serial, creation) => {
                out.push(88);
                write::atom(out, node);
                for number in [id, serial, creation] {
                    out.extend(number.to_be_bytes());
                }
            }
            Self::Port(node, id, creation) => {
                out.push(120);
                write::atom(out, node);
                out.extend(id.to_be_bytes());
                out.extend(creation.to_be_bytes());
            }
            Self::Reference(node, creation, words) => {
                out.push(90);
                out.extend((words.len() as u16).to_be_bytes());
                write::atom(out, node);
                out.extend(creation.to_be_bytes());
                out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            }
            Self::Binary(bytes) => write::binary(out, bytes),
            Self::Bits(bytes, in_last) => {
                out.push(77);
                out.extend((bytes.len() as u32).to_be_bytes());
                out.push(*in_last);
                out.extend(bytes);
            }
            Self::List(elements, tail) => {
                write::list(out, elements.len());
                elements.iter().for_each(|element| element.write(out));
                tail.write(out);
            }
            Self::Nil => write::nil(out),
            Self::Tuple(elements) => {
                write::tuple(out, elements.len());
                elements.iter().for_each(|element| element.write(out));
            }
            Self::Map(pairs) => {
                write::map(out, pairs.len());
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Export(module, function, arity) => {
                out.push(113);
                write::atom(out, module);
                write::atom(out, function);
                write::integer(out, (*arity).into());
            }
        }
    }

    /// Encodes the value with the version byte.
    pub(crate) fn external(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write::version(&mut bytes);
        self.write(&mut bytes);
        bytes
    }

    /// Whether its text is the same in every node.
    pub(crate) fn has_portable_text(&self) -> bool {
        match self {
            Self::Pid(..) | Self::Port(..) | Self::Reference(..) => false,
            Self::List(elements, tail) => {
                elements.iter().all(Self::has_portable_text) && tail.has_portable_text()
            }
            Self::Tuple(elements) => elements.iter().all(Self::has_portable_text),
            Self::Map(pairs) => pairs
                .iter()
                .all(|(key, value)| key.has_portable_text() && value.has_portable_text()),
            _ => true,
        }
    }
}

/// Returns the text of a term, without a limit.
pub(crate) fn text_of(external: &[u8]) -> String {
    text::of(Raw::external(external).unwrap(), usize::MAX).unwrap()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-zA-Z0-9_@]{0,6}",
        proptest::sample::select(vec![
            "", "and", "Upper", "a b", "é", "Ünder", "ключ", "÷", "a.b", "a'b", "\n\u{1}"
        ])
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

fn node() -> impl Strategy<Value = String> {
    "[a-z]{1,4}@[a-z]{1,4}"
}

fn float() -> impl Strategy<Value = Value> {
    let any = any::<f64>();
    let short = (-1000_i64..1000, -6_i32..18)
        .prop_map(|(digits, power)| digits as f64 * 10_f64.powi(power));
    let float = prop_oneof![any, short];
    // -0.0 and 0.0 may or may not be one key of a map, which depends on the release.
    float.prop_filter_map("finite, and no zero with a sign", |float| {
        (float.is_finite() && (float != 0.0 || float.is_sign_positive()))
            .then_some(Value::Float(float.to_bits()))
    })
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<u8>().prop_map(i64::from),
        any::<i32>().prop_map(i64::from),
        any::<i64>()
    ]
}

fn big() -> impl Strategy<Value = Value> {
    let magnitude = prop_oneof![
        proptest::collection::vec(any::<u8>(), 9..20),
        proptest::collection::vec(any::<u8>(), 250..260),
    ];
    (any::<bool>(), magnitude).prop_map(|(negative, mut magnitude)| {
        // The sender of a number writes no leading zeros.
        *magnitude.last_mut().unwrap() |= 1;
        Value::Big(negative, magnitude)
    })
}

fn list_of(numbers: impl IntoIterator<Item = u32>) -> Value {
    let elements: Vec<_> = numbers
        .into_iter()
        .map(|number| Value::Integer(number.into()))
        .collect();
    match elements.len() {
        0 => Value::Nil,
        _ => Value::List(elements, Box::new(Value::Nil)),
    }
}

fn leaf() -> impl Strategy<Value = Value> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        3 => integer().prop_map(Value::Integer),
        1 => big(),
        2 => float(),
        3 => name().prop_map(Value::Atom),
        1 => (node(), 0..1_u32 << 28, any::<u32>(), 1..u32::MAX)
            .prop_map(|(node, id, serial, creation)| Value::Pid(node, id, serial, creation)),
        1 => (node(), any::<u64>(), 1..u32::MAX)
            .prop_map(|(node, id, creation)| Value::Port(node, id, creation)),
        1 => (node(), 1..u32::MAX, proptest::collection::vec(0..1_u32 << 18, 3))
            .prop_map(|(node, creation, words)| Value::Reference(node, creation, words)),
        2 => bytes.clone().prop_map(Value::Binary),
        2 => ".{0,10}".prop_map(|text| Value::Binary(text.into_bytes())),
        1 => "[ -~\n\t]{0,10}".prop_map(|text| Value::Binary(text.into_bytes())),
        1 => (proptest::collection::vec(any::<u8>(), 1..8), 1_u8..8)
            .prop_map(|(mut bytes, in_last)| {
                *bytes.last_mut().unwrap() &= 0xff << (8 - in_last);
                Value::Bits(bytes, in_last)
            }),
        2 => ".{0,10}".prop_map(|text| list_of(text.chars().map(u32::from))),
        1 => bytes.prop_map(|bytes| list_of(bytes.into_iter().map(u32::from))),
        1 => Just(Value::Nil),
        // OTP 25 prints bytes of UTF-8 here as if they were characters.
        1 => ("[a-z][a-z@]{0,4}|if|and", "[a-zA-Z_@ ]{1,5}|end", any::<u8>())
            .prop_map(|(module, function, arity)| Value::Export(module, function, arity)),
    ]
}

/// Strategy for any term except functions, which only their own module can create.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 8, |inner| {
        let several = proptest::collection::vec(inner.clone(), 0..8);
        prop_oneof![
            3 => several.clone().prop_map(Value::Tuple),
            3 => (proptest::collection::vec(inner.clone(), 1..8), Just(Value::Nil))
                .prop_map(|(elements, tail)| Value::List(elements, Box::new(tail))),
            1 => (proptest::collection::vec(inner.clone(), 1..4), inner.clone())
                .prop_map(|(elements, tail)| Value::List(elements, Box::new(tail)).joined()),
            2 => proptest::collection::btree_map(inner.clone(), inner, 0..6).prop_map(Value::Map),
        ]
    })
}
