//! The bound on the buffers of all connections together (`buffer-bytes`).

use std::fmt;

use cli::units::human_size;
use machine::doctor::readings::MemoryLimit;

use super::reader::Reader;
use super::values::size_within;

/// Default bound as a share of the memory. The rest is for sessions, the history, the graph and
/// other programs.
const MEMORY_SHARE: u64 = 10;

/// Default bound if the kernel does not report the size of the memory.
const BYTES_OF_UNKNOWN: usize = 256 << 20;

/// The smallest bound. With less, buffers would be refused all the time.
const BYTES_MIN: usize = 1 << 20;

/// The bound on buffers, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferBound {
    pub(crate) bytes: usize,
    source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// It is configured.
    Set,
    /// It is a share of this memory.
    Memory(MemoryLimit),
    /// The size of the memory is not known.
    Unknown,
}

impl BufferBound {
    /// Returns the default bound for a machine with this memory.
    fn of_memory(memory: Option<MemoryLimit>) -> Self {
        let Some(memory) = memory else {
            return Self {
                bytes: BYTES_OF_UNKNOWN,
                source: Source::Unknown,
            };
        };
        let bytes = usize::try_from(memory.bytes / MEMORY_SHARE).unwrap_or(usize::MAX);
        Self {
            bytes: bytes.max(BYTES_MIN),
            source: Source::Memory(memory),
        }
    }
}

impl fmt::Display for BufferBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", human_size(self.bytes as u64))?;
        match &self.source {
            Source::Set => write!(f, "set with --buffer-bytes"),
            Source::Unknown => write!(
                f,
                "as the memory of the machine is not known; to change: --buffer-bytes"
            ),
            Source::Memory(MemoryLimit { bytes, group }) => {
                write!(f, "a tenth of {} ", human_size(*bytes))?;
                match group {
                    Some(file) => write!(f, "(control group, {})", file.display()),
                    None => write!(f, "(the memory of the machine)"),
                }?;
                write!(f, "; to change: --buffer-bytes")
            }
        }
    }
}

impl Reader<'_> {
    /// Returns the bound on buffers: the configured one, or a share of the memory.
    pub(super) fn buffers(&mut self) -> BufferBound {
        match self.find("buffer-bytes", bytes) {
            Some(bytes) => BufferBound {
                bytes,
                source: Source::Set,
            },
            None => BufferBound::of_memory(MemoryLimit::of_process()),
        }
    }
}

fn bytes(text: &str) -> Result<usize, String> {
    let least = human_size(BYTES_MIN as u64);
    let expected = format!("at least {least}, as all connections share it");
    size_within(BYTES_MIN.., text, &expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_bound_is_a_tenth_of_the_memory_and_names_its_source() {
        let bound = |bytes, group: Option<&str>| {
            let group = group.map(Into::into);
            BufferBound::of_memory(Some(MemoryLimit { bytes, group }))
        };
        let machine = bound(8 << 30, None);
        assert_eq!(machine.bytes, (8 << 30) / 10);
        let text = machine.to_string();
        assert!(
            text.contains("a tenth of 8 GiB (the memory of the machine)"),
            "{text}"
        );
        let group = bound(300 << 20, Some("/sys/fs/cgroup/memory.max"));
        assert_eq!(group.bytes, 30 << 20);
        let text = group.to_string();
        assert!(
            text.contains("30 MiB, a tenth of 300 MiB (control group, /sys/fs/"),
            "{text}"
        );
        assert_eq!(bound(1 << 20, None).bytes, BYTES_MIN);
        let unknown = BufferBound::of_memory(None);
        assert_eq!(unknown.bytes, BYTES_OF_UNKNOWN);
        assert!(unknown.to_string().contains("not known"));
    }

    #[test]
    fn a_bound_that_would_refuse_everything_is_an_error() {
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        for text in ["0", "1023KiB", "much"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
