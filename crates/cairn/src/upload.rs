//! One stream of bytes into one file of a cell.
//!
//! - U1: the bytes go to a name of their own beside the target and take the target's name only
//!   when all of them are there: a broken `put` leaves nothing under the name.
//! - U2: an existing file is replaced only where that was asked for.

use crate::cli_error::{Cause, CliError, Doing};
use crate::destination::look;
use crate::exit_codes::Exit;
use crate::progress::Progress;
use crate::session::Place;
use bytes::Bytes;
use cairn_client::{CreateOptions, File};
use cairn_types::{CellPath, NAME_SIZE_MAX};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// Bytes that are read and handed on at once.
pub(crate) const PIECE_SIZE: usize = 1 << 20;

/// Where bytes come from.
pub(crate) trait Source: Send {
    /// The next piece; none at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, CliError>> + Send;
}

/// A local file, or stdin.
pub(crate) struct LocalSource<R> {
    reader: R,
    shown: String,
}

impl<R: std::io::Read + Send> LocalSource<R> {
    /// `shown` names it where it fails.
    pub(crate) fn new(reader: R, shown: String) -> Self {
        Self { reader, shown }
    }
}

impl LocalSource<std::fs::File> {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let shown = path.display().to_string();
        let file = std::fs::File::open(path).doing(|| format!("reading {shown}"))?;
        Ok(Self::new(file, shown))
    }
}

impl<R: std::io::Read + Send> Source for LocalSource<R> {
    async fn next(&mut self) -> Result<Option<Bytes>, CliError> {
        let mut piece = vec![0; PIECE_SIZE];
        let mut filled = 0;
        while filled < PIECE_SIZE {
            match self.reader.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(size) => filled += size,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(CliError::new(format!("reading {}", self.shown), error));
                }
            }
        }
        piece.truncate(filled);
        Ok((filled > 0).then(|| Bytes::from(piece)))
    }
}

/// How a file is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadOptions {
    /// Take the place of a file that is there.
    pub(crate) replace: bool,
    /// Everything else.
    pub(crate) create: CreateOptions,
}

/// Stores all of `source` as the file `to`.
///
/// # Errors
/// Then nothing stands under the name that did not stand there before, unless the last step's
/// outcome is unknown.
pub(crate) async fn upload(
    source: &mut impl Source,
    to: &Place,
    options: &UploadOptions,
    progress: &Progress,
) -> Result<(), CliError> {
    let doing = || format!("storing {to}");
    if !options.replace && look(to).await?.is_some() {
        let cause = Cause::new(Exit::Exists, "it is there already", "-f replaces a file");
        return Err(CliError::new(doing(), cause));
    }
    let passing = passing_name(&to.path).doing(doing)?;
    let made = to.cell.create(&passing, options.create).await;
    let file = made.doing(doing)?;
    let mut done = fill(source, &file, to, progress).await;
    if done.is_ok() {
        let renamed = to.cell.rename(&passing, &to.path, options.replace).await;
        done = renamed.doing(doing);
    }
    if done.is_err() {
        // The failure that is told is the first one; what is left over has a telling name.
        let _ = to.cell.delete(&passing, false).await;
    }
    done
}

/// Writes all of `source` into `file` and closes it.
pub(crate) async fn fill(
    source: &mut impl Source,
    file: &File,
    to: &Place,
    progress: &Progress,
) -> Result<(), CliError> {
    let doing = || format!("storing {to}");
    let mut writer = file.writer(0);
    while let Some(piece) = source.next().await? {
        let size = piece.len() as u64;
        writer.write(piece).await.doing(doing)?;
        progress.add(size);
    }
    writer.finish().await.doing(doing)?;
    file.close().await.doing(doing)
}

/// `.name.put-1f3a…` beside the target.
pub(crate) fn passing_name(target: &CellPath) -> Result<CellPath, Cause> {
    let name = target.name().unwrap_or_default();
    let ending = format!(".put-{:016x}", RandomState::new().hash_one(name));
    let mut kept = name.len().min(NAME_SIZE_MAX - ending.len() - 1);
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    let directory = target.parent().unwrap_or_default();
    Ok(directory.join(&format!(".{}{ending}", &name[..kept]))?)
}

#[cfg(test)]
mod tests {
    use super::passing_name;
    use cairn_types::CellPath;

    #[test]
    fn the_passing_name_of_the_longest_name_is_no_longer_and_no_two_are_the_same() {
        let target = CellPath::parse(&format!("/d/{}", "ä".repeat(127))).expect("fits");
        let [one, two] = [(); 2].map(|()| passing_name(&target).expect("fits too"));
        assert_ne!(one, two);
        assert_eq!(one.parent(), target.parent());
    }
}
