//! Loading of a copy of a graph that is in memory, for a node without a directory.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::disk::{Disk, Tracked};
use super::error::{OpenError, Refusal};
use super::{Store, directory, log, tables};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::LogPlaces;
use redb::ReadableDatabase;

/// Name of the copy in errors, instead of a path.
const NAME: &str = "a copy in memory";

/// File in memory.
#[derive(Debug)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn beyond() -> io::Error {
        io::Error::from(io::ErrorKind::UnexpectedEof)
    }
}

impl Disk for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.0.lock();
        let start = usize::try_from(offset).map_err(|_| Self::beyond())?;
        let end = start.checked_add(out.len()).ok_or_else(Self::beyond)?;
        out.copy_from_slice(content.get(start..end).ok_or_else(Self::beyond)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| Self::beyond())?;
        self.0.lock().resize(len, 0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock();
        let start = usize::try_from(offset).map_err(|_| Self::beyond())?;
        let end = start.checked_add(data.len()).ok_or_else(Self::beyond)?;
        let place = content.get_mut(start..end).ok_or_else(Self::beyond)?;
        place.copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn forget_cached(&self) {}

    fn has_room(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Loads a copy of a graph, which must have exactly these positions in a replicated log. The whole
/// copy is in memory until it is loaded.
///
/// # Errors
///
/// When the copy cannot be read, is not a graph, or has other positions.
pub(crate) fn load(
    copy: &mut impl io::Read,
    places: &LogPlaces,
) -> Result<(Store, Memory), OpenError> {
    let loaded = (|| {
        let mut content = Vec::new();
        copy.read_to_end(&mut content)?;
        let disk: Arc<dyn Disk> = Arc::new(MemoryFile(Mutex::new(content)));
        let database = tables::open(&Arc::new(Tracked::new(Arc::clone(&disk))))?;
        directory::check_places(log::read(&database.begin_read()?)?, places)?;
        drop(database);
        Store::open(disk, Limits::USUAL)
    })();
    loaded.map_err(|refusal: Refusal| refusal.of(NAME.into()))
}
