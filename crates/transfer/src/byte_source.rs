//! Where the bytes of an upload come from.

use bytes::Bytes;
use cairn_client::Reader;
use std::io;
use std::path::Path;

/// Bytes that are read and handed on at once.
pub const PIECE_SIZE: usize = 1 << 20;

/// A stream of bytes.
pub trait ByteSource: Send {
    /// Why it cannot be read on.
    type Error;

    /// The next piece; none at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;
}

/// Is told how far things have come.
pub trait Progress: Send + Sync {
    /// So many bytes more are done.
    fn add(&self, bytes: u64);
}

/// Nobody is told.
impl Progress for () {
    fn add(&self, _bytes: u64) {}
}

/// A local file, or stdin.
#[derive(Debug)]
pub struct LocalSource<R> {
    reader: R,
}

impl<R: io::Read + Send> LocalSource<R> {
    /// All that `reader` gives.
    pub fn new(reader: R) -> Self {
        Self { reader }
    }
}

impl LocalSource<std::fs::File> {
    /// A file of this machine.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::File::open(path).map(Self::new)
    }
}

impl<R: io::Read + Send> ByteSource for LocalSource<R> {
    type Error = io::Error;

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut piece = vec![0; PIECE_SIZE];
        let mut filled = 0;
        while filled < PIECE_SIZE {
            match self.reader.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(size) => filled += size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        piece.truncate(filled);
        Ok((filled > 0).then(|| Bytes::from(piece)))
    }
}

/// Another file of a cell, as it is stored.
#[derive(Debug)]
pub struct CellSource(pub Reader);

impl ByteSource for CellSource {
    type Error = cairn_client::Error;

    async fn next(&mut self) -> Result<Option<Bytes>, cairn_client::Error> {
        self.0.next().await
    }
}
