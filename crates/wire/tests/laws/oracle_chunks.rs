//! Decodes the chunked transfer coding as RFC 9112, section 7.1 states it, strictly.

/// What a chunked body holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The data of each chunk, in order.
    pub(crate) chunks: Vec<Vec<u8>>,
    /// The last chunk came, and nothing after it.
    pub(crate) ended: bool,
}

impl Decoded {
    /// Returns the content: all chunks in one.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.chunks.concat()
    }
}

/// Decodes `input`, which must consist of whole chunks.
pub(crate) fn decode(mut input: &[u8]) -> Result<Decoded, String> {
    let mut chunks = Vec::new();
    while !input.is_empty() {
        let line = input
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .ok_or("no end of the size")?;
        let digits = std::str::from_utf8(&input[..line]).map_err(|error| error.to_string())?;
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("not a size: {digits:?}"));
        }
        let size = usize::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
        input = &input[line + 2..];
        if size == 0 {
            return match input {
                b"\r\n" => Ok(Decoded {
                    chunks,
                    ended: true,
                }),
                rest => Err(format!("after the last chunk: {rest:?}")),
            };
        }
        if input.len() < size + 2 || &input[size..size + 2] != b"\r\n" {
            return Err(format!("chunk of {size} bytes does not end where it says"));
        }
        chunks.push(input[..size].to_vec());
        input = &input[size + 2..];
    }
    Ok(Decoded {
        chunks,
        ended: false,
    })
}
