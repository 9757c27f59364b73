//! Shipping at work: the table says what is to be done, and the sources do it.

use super::failed_turns::{FailedTurns, PAUSE_MAX_MS, PAUSE_MS, TurnFailure};
use super::open_source::{
    CommittedLines, OpenSource, ShipTarget, SourceTurn, start_of, tell_begun_anew, unknown_start,
};
use super::source_cursor::{FileKey, FileSeen, SourceStart};
use super::source_table::{SourceNews, SourceTable};
use super::watched_directory::{LOOK_EVERY, WatchedDirectory};
use crate::cli_error::{CliError, Doing, one_line, warn};
use crate::exit_codes::Exit;
use crate::stderr;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// From one look at what is under way to the next, where nothing else is to be done.
const UNDER_WAY_EVERY: Duration = Duration::from_millis(5);

/// Tells on stderr what is going on.
pub(super) fn say(text: &str) {
    stderr::say(format_args!("cairn: {}", one_line(text)));
}

/// Lets others have their turn, signals among them.
async fn wait(pause: Duration) {
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(pause).await;
    }
}

/// What was shipped.
#[derive(Debug, Default)]
pub(super) struct ShipCount {
    pub(super) files: BTreeSet<FileKey>,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// Files that are gone, and were read to their end.
    pub(super) finished: u64,
    /// Bytes that wait for their newline, at the end.
    pub(super) unfinished: BTreeMap<String, usize>,
}

/// What a look at a new file has shown.
enum SourceLook {
    /// It goes on there.
    At(u64),
    NotOurs,
    /// The stream has lines of that one under its inode's number, and it is there, too.
    OwnedBy(FileKey),
    /// Its name has gone to another since the last list; the next one knows more.
    Moved,
}

/// What failed; `is_in_vain` where a producer had been opened for it.
fn failure_of(error: &CliError, is_in_vain: bool) -> TurnFailure {
    let is_of_file = matches!(error.exit(), Exit::Local | Exit::Usage);
    TurnFailure { is_of_file, is_in_vain }
}

pub(super) struct ShipRun {
    directory: WatchedDirectory,
    table: SourceTable,
    target: ShipTarget,
    open: BTreeMap<FileKey, OpenSource>,
    is_once: bool,
    is_verbose: bool,
    count: ShipCount,
    started: Instant,
    failed_turns: FailedTurns,
    /// The cell does not take what it is given; told once.
    trouble: Option<CliError>,
    /// Files that were told of as unreadable.
    told: BTreeSet<FileKey>,
    /// The first failure of a file; the others are shipped all the same.
    failed: Option<CliError>,
    was_waiting: bool,
}

impl ShipRun {
    pub(super) fn new(
        directory: WatchedDirectory,
        target: ShipTarget,
        open_max: usize,
        is_once: bool,
        is_verbose: bool,
    ) -> Self {
        Self {
            directory,
            table: SourceTable::new(open_max, is_once),
            target,
            open: BTreeMap::new(),
            is_once,
            is_verbose,
            count: ShipCount::default(),
            started: Instant::now(),
            failed_turns: FailedTurns::default(),
            trouble: None,
            told: BTreeSet::new(),
            failed: None,
            was_waiting: false,
        }
    }

    /// Where lines go.
    pub(super) fn target(&self) -> &ShipTarget {
        &self.target
    }

    /// What was shipped, and the first failure of a file, told already.
    pub(super) fn into_count(self) -> (ShipCount, Option<CliError>) {
        (self.count, self.failed)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Ships, without an end unless it is for once.
    ///
    /// # Errors
    /// What can never go well (SI2); with once, whatever fails.
    pub(super) async fn follow(&mut self) -> Result<(), CliError> {
        let mut listed_at = None::<Instant>;
        loop {
            if listed_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                listed_at = Some(Instant::now());
                self.look().await?;
            }
            let all = self.open.keys().copied().collect();
            let pause = self.turns(all).await?;
            let is_finished = self.finish_some().await?;
            self.end_trouble();
            if let Some(error) = self.directory.gone().filter(|_| self.open.is_empty()) {
                return Err(error);
            }
            if self.is_once && self.table.is_done() {
                return Ok(());
            }
            if is_finished && self.is_once {
                listed_at = None;
            } else {
                wait(pause).await;
            }
        }
    }

    /// The turns of these; how long nothing is to be done then. Never again and again without a
    /// pause: signals are listened for while this waits.
    async fn turns(&mut self, keys: Vec<FileKey>) -> Result<Duration, CliError> {
        let mut pause = LOOK_EVERY;
        for key in keys {
            pause = pause.min(match self.turn(key).await? {
                Some(SourceTurn { is_reading: true, .. }) => Duration::ZERO,
                Some(SourceTurn { is_busy: true, .. }) => UNDER_WAY_EVERY,
                _ => LOOK_EVERY,
            });
        }
        Ok(pause)
    }

    /// Sees what the directory has now, and gives its files their places.
    async fn look(&mut self) -> Result<(), CliError> {
        self.list()?;
        self.look_at_new().await?;
        self.change_slots().await?;
        // What has its place now, or none, is not held any more (LD4).
        let open = self.open.keys().copied().collect();
        self.directory.settle(open, |key| self.table.is_to_be_held(key));
        Ok(())
    }

    fn list(&mut self) -> Result<(), CliError> {
        let Some(all) = self.directory.list()? else { return Ok(()) };
        for news in self.table.listed(all) {
            self.tell_news(news);
        }
        self.failed_turns.keep(|key| self.table.is_followed(key));
        Ok(())
    }

    fn tell_news(&self, news: SourceNews) {
        match news {
            SourceNews::Renamed { from, to } => {
                self.tell(|| format!("{from} is {to} now, and is read to its end"));
            }
            SourceNews::Lost { name, unread } => warn(&format!(
                "{name} is gone, and its last {unread} bytes were not shipped: they are lost"
            )),
            SourceNews::InodeTwice { name, other } => warn(&format!(
                "{name} is on another device than {other}, and has the same inode: it is not \
                 shipped while {other} is there; ship one of them from another directory"
            )),
            SourceNews::InodeFree { name } => {
                say(&format!("{name} is shipped now: no other file with its inode is any more"))
            }
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.is_verbose {
            say(&text());
        }
    }

    /// Finds out, of each file that is new, how far it is shipped.
    async fn look_at_new(&mut self) -> Result<(), CliError> {
        let now_ms = self.now_ms();
        while let Some((seen, is_wanted)) = self.table.to_look_at(now_ms) {
            let looked = self.look_at(&seen, is_wanted).await;
            if looked.is_ok() {
                self.failed_turns.well(seen.key);
            }
            match looked {
                Ok(SourceLook::At(offset)) => self.table.looked(seen.key, Some(offset)),
                Ok(SourceLook::NotOurs) => self.table.looked(seen.key, None),
                Ok(SourceLook::OwnedBy(owner)) => {
                    let news = self.table.yield_to(seen.key, owner);
                    self.tell_news(news.expect("it is there, and barred"));
                }
                Ok(SourceLook::Moved) => {
                    let every_ms = u64::try_from(LOOK_EVERY.as_millis()).unwrap_or(u64::MAX);
                    self.table.look_later(seen.key, now_ms.saturating_add(every_ms));
                }
                Err(error) => {
                    let failure = failure_of(&error, false);
                    self.failed_turns.add(seen.key, failure, self.now_ms());
                    self.take_failure(seen.key, error)?;
                    self.table.look_later(seen.key, now_ms.saturating_add(PAUSE_MS));
                    // Of what is gone nothing else will be known.
                    if self.is_once || failure.is_of_file && self.table.is_gone(seen.key) {
                        self.table.looked(seen.key, None);
                    }
                }
            }
        }
        Ok(())
    }

    /// Where a file goes on.
    async fn look_at(&self, seen: &FileSeen, is_wanted: bool) -> Result<SourceLook, CliError> {
        let name = &seen.name;
        let so_far = self.target.so_far(seen.key).await?;
        // What was begun is read to its end, under whatever name.
        if !is_wanted && so_far.number == 0 {
            return Ok(SourceLook::NotOurs);
        }
        if let Some(owner) = so_far.owner()
            && self.table.is_barred(owner)
        {
            return Ok(SourceLook::OwnedBy(owner));
        }
        let reading = || format!("reading {name}");
        let Some(file) = self.directory.open(seen.key).doing(reading)? else {
            return Ok(SourceLook::Moved);
        };
        let (seen, _, start) = start_of(&so_far, &file, name).doing(reading)?;
        match start {
            Ok(SourceStart::Behind(offset)) => Ok(SourceLook::At(offset)),
            // Where there is something to read, the opening tells. Also under a name that is not
            // asked for: what was begun may lack lines in the stream (SC4).
            Ok(start @ (SourceStart::Truncated { .. } | SourceStart::Replaced { .. })) => {
                if seen.size == 0 {
                    tell_begun_anew(name, start, seen.size);
                }
                Ok(SourceLook::At(0))
            }
            _ if !is_wanted => Ok(SourceLook::NotOurs),
            Ok(SourceStart::New | SourceStart::InodeUsedAgain) => Ok(SourceLook::At(0)),
            Err(why) => Err(unknown_start(&why, name, &self.target, seen.key)),
        }
    }

    async fn change_slots(&mut self) -> Result<(), CliError> {
        let now_ms = self.now_ms();
        let change = self.table.change_slots(now_ms);
        if change.waiting > 0 && !self.was_waiting && !self.is_once {
            warn(&format!(
                "{} files wait: {} are open, and more may not be at once (--open-max); each gets \
                 its turn when another is quiet for some seconds",
                change.waiting,
                self.open.len() + change.open.len() - change.close.len()
            ));
        }
        self.was_waiting = change.waiting > 0;
        for key in change.close {
            // All that it was given is committed (ST2).
            self.failed_turns.well(key);
            if let Some(mut source) = self.open.remove(&key) {
                self.table.closed(key, source.waiting() as u64);
                let _ = source.close(&self.target, "").await;
                self.count_lines(key, source.take_committed());
            }
        }
        for key in change.open {
            let name = self.table.name(key);
            let offset = self.table.offset(key);
            let opened = self.directory.open(key).and_then(|file| {
                file.map(|file| OpenSource::new(key, file, offset, &self.target)).transpose()
            });
            match opened.doing(|| format!("reading {name}")) {
                Ok(Some(source)) => {
                    self.tell(|| format!("{name}: from byte {offset} on"));
                    self.open.insert(key, source);
                    self.table.opened(key, now_ms);
                }
                // The next list knows more.
                Ok(None) => {}
                Err(error) => {
                    self.take_failure(key, error)?;
                    self.table.look_later(key, now_ms.saturating_add(PAUSE_MS));
                    if self.is_once {
                        self.table.looked(key, None);
                    }
                }
            }
        }
        Ok(())
    }

    /// One file's turn, where it had one that did not fail.
    async fn turn(&mut self, key: FileKey) -> Result<Option<SourceTurn>, CliError> {
        let now_ms = self.now_ms();
        if !self.failed_turns.is_due(key, now_ms) {
            return Ok(None);
        }
        let (name, limit) = (self.table.name(key), self.table.limit(key));
        let Some(source) = self.open.get_mut(&key) else { return Ok(None) };
        match source.turn(&self.target, &name, limit).await {
            Ok(turn) => {
                // Of what is gone the last line is still to come, without its newline.
                let is_all_there = source.waiting() == 0 || !self.table.is_gone(key);
                if turn.is_committed || !turn.is_busy && is_all_there {
                    self.failed_turns.well(key);
                }
                self.take_turn(key, turn);
                Ok(Some(turn))
            }
            Err(error) => {
                self.failed_turn(key, error)?;
                Ok(None)
            }
        }
    }

    fn failed_turn(&mut self, key: FileKey, error: CliError) -> Result<(), CliError> {
        let Some(source) = self.open.get_mut(&key) else { return self.take_failure(key, error) };
        let failure = failure_of(&error, source.fail());
        let is_forgotten = error.exit() == Exit::NotFound && failure.is_in_vain;
        // A file that cannot be read would keep its place for ever.
        if source.is_unsure() || !failure.is_of_file {
            self.table.failed(key);
        }
        self.failed_turns.add(key, failure, self.now_ms());
        if is_forgotten && !self.is_once {
            // The next opening tells, also whether it is the stream itself that is gone.
            return Ok(());
        }
        self.take_failure(key, error)?;
        // Of what is shipped once, nothing is tried again.
        if self.is_once {
            self.open.remove(&key);
            self.table.looked(key, None);
        }
        Ok(())
    }

    fn take_turn(&mut self, key: FileKey, turn: SourceTurn) {
        let SourceTurn { offset, size, is_busy, .. } = turn;
        self.table.was_read(key, (offset, size), is_busy, self.now_ms());
        let committed = self.open.get_mut(&key).map(OpenSource::take_committed);
        self.count_lines(key, committed.unwrap_or_default());
    }

    fn count_lines(&mut self, key: FileKey, committed: CommittedLines) {
        self.count.lines += committed.count;
        self.count.bytes += committed.bytes;
        if committed.count > 0 {
            self.count.files.insert(key);
        }
    }

    /// Tells that the cell takes what it is given again (FT2).
    fn end_trouble(&mut self) {
        if self.trouble.is_some() && self.failed_turns.is_cell_well() {
            self.trouble = None;
            warn("shipping goes on");
        }
    }

    /// Tells of what may go well later, and ends the command for what never will (SI2).
    fn take_failure(&mut self, key: FileKey, mut error: CliError) -> Result<(), CliError> {
        let is_passing = matches!(
            error.exit(),
            Exit::Unreachable | Exit::NotNow | Exit::Unknown | Exit::Full | Exit::Quota
        );
        if failure_of(&error, false).is_of_file {
            if self.told.insert(key) {
                error.tell();
            }
            self.failed.get_or_insert(error);
            return Ok(());
        }
        if !is_passing || self.is_once {
            return Err(error);
        }
        if self.trouble.is_none() {
            let most = PAUSE_MAX_MS / 1_000;
            warn(&format!(
                "{error}; tried again, at the latest after {most} seconds, and nothing is lost \
                 meanwhile, unless more files are removed than may be open (--open-max)"
            ));
            self.trouble = Some(error);
        }
        Ok(())
    }

    /// Closes what is at its end for good; whether anything was.
    async fn finish_some(&mut self) -> Result<bool, CliError> {
        let mut is_any = false;
        for (key, is_gone) in self.table.finished(self.now_ms()) {
            if !self.failed_turns.is_due(key, self.now_ms()) {
                continue;
            }
            is_any = true;
            let (name, limit) = (self.table.name(key), self.table.limit(key));
            let Some(source) = self.open.get_mut(&key) else { continue };
            if is_gone && source.waiting() > 0 {
                match source.send_rest(&self.target, &name, limit).await {
                    Ok(turn) => self.take_turn(key, turn),
                    Err(error) => self.failed_turn(key, error)?,
                }
                continue;
            }
            let mut source = self.open.remove(&key).expect("found above");
            if !is_gone && source.waiting() > 0 {
                self.count.unfinished.insert(name.clone(), source.waiting());
            }
            self.failed_turns.well(key);
            self.table.forget(key, is_gone);
            if is_gone {
                self.count.finished += 1;
                self.tell(|| format!("{name} is gone, and was read to its end"));
            }
            let closed = source.close(&self.target, &name).await;
            self.count_lines(key, source.take_committed());
            // Of what is followed, all is committed (ST3).
            if self.is_once {
                closed?;
            }
        }
        Ok(is_any)
    }

    /// Ends shipping: reads what is gone to its end (`is_well`; after a failure it only tells what
    /// is lost of it), waits until all that was sent is committed, and ends all openings.
    ///
    /// # Errors
    /// The first failure; lines that are not in the stream are still in their files, or told of as
    /// lost.
    pub(super) async fn close_all(&mut self, is_well: bool) -> Result<(), CliError> {
        let drained = if is_well { self.drain_gone().await } else { Ok(()) };
        let mut first = drained.and(self.trouble.take().map_or(Ok(()), Err));
        while let Some(key) = self.open.keys().next().copied() {
            first = first.and(self.close_one(key).await);
        }
        self.tell_all_unshipped();
        first
    }

    /// Ends one opening at the end of all.
    async fn close_one(&mut self, key: FileKey) -> Result<(), CliError> {
        let name = self.table.name(key);
        let source = self.open.get_mut(&key).expect("its key was just found");
        if source.unfinished() > 0 && !self.table.is_gone(key) {
            self.count.unfinished.insert(name.clone(), source.unfinished());
        }
        let closed = source.close(&self.target, &name).await;
        let (committed, waiting) = (source.take_committed(), source.waiting() as u64);
        self.count_lines(key, committed);
        self.tell_unshipped(key);
        self.open.remove(&key);
        self.table.closed(key, waiting);
        closed
    }

    /// Reads what is gone to its end, for nobody can open it again (ST3).
    async fn drain_gone(&mut self) -> Result<(), CliError> {
        if self.open.is_empty() && !self.directory.is_any_held() {
            return Ok(());
        }
        // What was removed since the last list is gone too.
        self.list()?;
        let size = |(key, source): (&FileKey, &OpenSource)| Some((*key, source.size().ok()?));
        self.table.end(&self.open.iter().filter_map(size).collect());
        let mut closed = Ok(());
        if !self.table.lost_if_held().is_empty() {
            // Those that are there still can be opened again: they make room.
            let is_there = |key: &FileKey| !self.table.is_gone(*key);
            for key in self.open.keys().copied().filter(is_there).collect::<Vec<_>>() {
                closed = closed.and(self.close_one(key).await);
            }
        }
        let mut is_told = false;
        loop {
            if !self.table.lost_if_held().is_empty() {
                self.look().await?;
            }
            let gone = self.table.all_gone();
            let Some(first) = gone.first() else { return closed };
            if !is_told {
                let name = self.table.name(*first);
                let others = if gone.len() > 1 { " (and others)" } else { "" };
                say(&format!(
                    "{name}{others} is gone, and is read to its end first; a second signal ends \
                     at once, and what is not in the stream then is lost"
                ));
                is_told = true;
            }
            let pause = self.turns(gone).await?;
            if !self.finish_some().await? {
                wait(pause).await;
            }
        }
    }

    /// Tells of what is open, is gone, and was not read to its end.
    pub(super) fn tell_all_unshipped(&mut self) {
        for key in self.open.keys().copied().collect::<Vec<_>>() {
            self.tell_unshipped(key);
        }
        self.table.lost_if_held().into_iter().for_each(|news| self.tell_news(news));
    }

    fn tell_unshipped(&mut self, key: FileKey) {
        let Some(source) = self.open.get_mut(&key).filter(|_| self.table.is_gone(key)) else {
            return;
        };
        let unread = source.unshipped().unwrap_or_default();
        if unread > 0 {
            self.tell_news(SourceNews::Lost { name: self.table.name(key), unread });
        }
    }
}
