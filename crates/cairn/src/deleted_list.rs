//! `cairn ls --deleted`: what was removed, until when it is kept, and by what names it can be read
//! and brought back.

use crate::cli_error::{CliError, Doing, Tally};
use crate::many_paths::places;
use crate::output::{Output, Table, size_text, span_text, time_text};
use crate::session::{RemotePath, Session};
use cairn_client::Cell;
use cairn_protocol::DeletedEntry;
use cairn_types::{CellPath, EntryKind};
use serde_json::json;

/// Where deleted names lie.
const DELETED: &str = "/.deleted";
/// When it was removed, how long it is kept, length, hidden path, where it was.
const COLUMNS: &[bool] = &[false, true, true, false, false];

/// How it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletedForm {
    /// Long lines.
    pub(crate) long: bool,
    /// Sizes for people.
    pub(crate) human: bool,
}

impl DeletedForm {
    /// Shows what was removed from these directories, or all of it.
    ///
    /// # Errors
    /// Where one of them is none, or the cell does not answer.
    pub(crate) async fn show(
        self,
        texts: &[String],
        session: &Session,
        output: &Output,
    ) -> Result<(), CliError> {
        if texts.is_empty() {
            return self.pages(&session.cell().await?, None, output).await;
        }
        let mut tally = Tally::default();
        for place in places(session, texts).await {
            let done = match place {
                Ok(RemotePath { cell, path, .. }) if path.as_str() == DELETED => {
                    self.pages(&cell, None, output).await
                }
                Ok(place) => self.pages(&place.cell, Some(&place.path), output).await,
                Err(complaint) => Err(complaint),
            };
            tally.note(done)?;
        }
        tally.finish()
    }

    /// All pages; the columns of a table need all of them.
    async fn pages(
        self,
        cell: &Cell,
        directory: Option<&CellPath>,
        output: &Output,
    ) -> Result<(), CliError> {
        let doing = || match directory {
            Some(directory) => format!("listing what was removed from {directory}"),
            None => "listing what was removed".to_owned(),
        };
        let (mut after, mut table) = (None, Table::new(COLUMNS));
        loop {
            let (entries, resume) = cell.deleted(directory, after).await.doing(doing)?;
            for entry in entries {
                if output.json() {
                    output.value(&value(&entry))?;
                } else if self.long {
                    table.row(self.cells(&entry, output));
                } else {
                    output.line(&output.name(&entry.hidden))?;
                }
            }
            after = match resume {
                Some(resume) => Some(resume),
                None => break,
            };
        }
        table.lines().iter().try_for_each(|line| output.line(line))
    }

    fn cells(self, entry: &DeletedEntry, output: &Output) -> [String; 5] {
        let is_file = entry.entry.kind == EntryKind::File;
        let length = is_file.then(|| size_text(entry.entry.length, self.human));
        [
            time_text(entry.deleted),
            left(entry).map_or_else(|| "forever".to_owned(), span_text),
            length.unwrap_or_else(|| "-".to_owned()),
            output.name(&entry.hidden).into_owned(),
            output.name(&entry.path).into_owned(),
        ]
    }
}

/// How long something is kept yet, in milliseconds: for a century is for ever, and none.
fn left(entry: &DeletedEntry) -> Option<u64> {
    const CENTURY_MS: u64 = 100 * 366 * 86_400_000;
    Some(entry.left_ms).filter(|left| *left <= CENTURY_MS)
}

fn value(entry: &DeletedEntry) -> serde_json::Value {
    json!({
        "hidden": entry.hidden,
        "path": entry.path,
        "kind": if entry.entry.kind == EntryKind::File { "file" } else { "directory" },
        "length": entry.entry.length,
        "deleted_ms": entry.deleted.as_millis(),
        "left_ms": left(entry),
    })
}

#[cfg(test)]
mod tests {
    use super::{left, value};
    use cairn_protocol::DeletedEntry;

    #[test]
    fn what_is_kept_for_ever_has_no_number_of_milliseconds_left() {
        let [week, for_ever] = [7 * 86_400_000, u64::MAX - 32_000]
            .map(|left_ms| DeletedEntry { left_ms, ..DeletedEntry::default() });
        assert_eq!((left(&week), left(&for_ever)), (Some(604_800_000), None));
        assert_eq!(value(&week)["left_ms"], 604_800_000);
        assert!(value(&for_ever)["left_ms"].is_null(), "as 'policy' tells it");
    }
}
