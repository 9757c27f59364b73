//! Keeping modes, times and owners on the way into the cell and out of it.

use crate::cli_error::{CliError, Doing};
use crate::commands::touch::wall_time;
use crate::session::RemotePath;
use cairn_client::AttributeChange;
use cairn_types::{Entry, MODE_BITS};
use std::fs::{File, FileTimes, Permissions, metadata, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// The mode of what is not whole yet and is to have another one: its owner's alone.
pub(crate) const CLOSED_MODE: u32 = 0o600;

/// Gives what was stored the mode and the time of the local file that it was made of; for the
/// superuser, its owner and group too.
///
/// # Errors
/// Where the local file cannot be looked at, or the cell refuses.
pub(crate) async fn give_to_cell(
    from: &Path,
    to: &RemotePath,
    superuser: bool,
) -> Result<(), CliError> {
    let local = metadata(from).doing(|| format!("looking at {}", from.display()))?;
    let modified = local.modified().map(wall_time).ok();
    let (owner, group) = (superuser.then(|| local.uid()), superuser.then(|| local.gid()));
    let mode = Some(local.mode() & MODE_BITS);
    let change = AttributeChange { owner, group, mode, modified };
    let doing = || format!("keeping the attributes of {} in {to}", from.display());
    to.cell.set_attributes(&to.path, change).await.doing(doing)?;
    Ok(())
}

/// Gives what was fetched the mode and the time that it has in the cell; where this process is the
/// superuser's, its owner and group too.
///
/// # Errors
/// Where this machine refuses.
pub(crate) fn give_to_local(entry: &Entry, to: &Path) -> Result<(), CliError> {
    let doing = || format!("keeping the attributes of {}", to.display());
    let attributes = entry.attributes();
    if cairn_env_os::process_identity().is_superuser() {
        chown(to, Some(attributes.owner), Some(attributes.group)).doing(doing)?;
    }
    // Times are set by whoever has it open for reading; afterwards, that may be nobody here.
    let modified = UNIX_EPOCH + Duration::from_millis(entry.modified.as_millis());
    let opened = File::open(to).doing(doing)?;
    opened.set_times(FileTimes::new().set_modified(modified)).doing(doing)?;
    set_permissions(to, Permissions::from_mode(attributes.mode & MODE_BITS)).doing(doing)
}
