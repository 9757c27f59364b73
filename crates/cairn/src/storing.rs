//! What became of an upload, as a person is told.

use crate::cli_error::{Cause, CliError};
use crate::exit_codes::Exit;
use crate::session::RemotePath;
use cairn_transfer::UploadError;

/// Why `to` was not stored from what is shown as `from`.
pub(crate) fn not_stored<E: Into<Cause>>(
    error: UploadError<E>,
    from: &str,
    to: &RemotePath,
) -> CliError {
    let storing = format!("storing {to}");
    match error {
        UploadError::Source(error) => CliError::new(format!("reading {from}"), error),
        UploadError::Taken => {
            let cause = Cause::new(Exit::Exists, "it is there already", "-f replaces a file");
            CliError::new(storing, cause)
        }
        UploadError::Name(error) => CliError::new(storing, error),
        UploadError::Cell(error) => CliError::new(storing, error),
    }
}
