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
    /// None while it is being read, and when that was given up.
    reader: Option<R>,
    /// Whoever opens or reads it may wait for another process: it is a pipe, or a device.
    waits: bool,
}

impl<R: io::Read + Send + 'static> LocalSource<R> {
    /// All that `reader` gives.
    pub fn new(reader: R) -> Self {
        Self { reader: Some(reader), waits: false }
    }
}

impl LocalSource<std::fs::File> {
    /// A file of this machine.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let waits = !std::fs::metadata(path)?.is_file();
        let file = if waits {
            let path = path.to_owned();
            off_the_loop(move || std::fs::File::open(path)).await?
        } else {
            std::fs::File::open(path)?
        };
        Ok(Self { reader: Some(file), waits })
    }
}

impl<R: io::Read + Send + 'static> ByteSource for LocalSource<R> {
    type Error = io::Error;

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(mut reader) = self.reader.take() else {
            return Err(io::Error::other("an earlier read of it was given up"));
        };
        let (reader, piece) = if self.waits {
            let read = move || {
                let piece = read_piece(&mut reader);
                Ok((reader, piece))
            };
            off_the_loop(read).await?
        } else {
            let piece = read_piece(&mut reader);
            (reader, piece)
        };
        self.reader = Some(reader);
        piece
    }
}

/// Does what may wait for another process where nothing else is done: signals and the cell's
/// answers are heard meanwhile.
pub(crate) async fn off_the_loop<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

/// The next piece; none at the end.
fn read_piece(reader: &mut impl io::Read) -> io::Result<Option<Bytes>> {
    let mut piece = vec![0; PIECE_SIZE];
    let mut filled = 0;
    while filled < PIECE_SIZE {
        match reader.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(size) => filled += size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(filled);
    Ok((filled > 0).then(|| Bytes::from(piece)))
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
