//! The cell heals before one's eyes: how many chunks lack replicas since a server was killed, until
//! none does.
//!
//! A chunk that was being appended to goes on with a smaller set and is copied at once; what else
//! the server held is missed only once it is given up.

use crate::cli_error::{CliError, Doing};
use crate::commands::demo::story::Storyteller;
use crate::commands::demo::verdict::failed;
use cairn_client::{Cell, Options};
use cairn_protocol::ReasonCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that it may take, from the kill.
const WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const SAY_EVERY: Duration = Duration::from_millis(500);

/// How long it took, from the kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Healed {
    /// Until the first copy began.
    pub(crate) first_copy: Duration,
    /// Until every chunk had all its replicas.
    pub(crate) whole: Duration,
}

/// Looks on from a thread of its own, with a connection of its own.
pub(crate) struct HealingWatch {
    thread: JoinHandle<Result<Healed, CliError>>,
}

impl HealingWatch {
    /// From the kill on.
    pub(crate) fn start(
        cell: &str,
        options: &Options,
        killed: Instant,
        teller: &Storyteller,
    ) -> Self {
        let (cell, options, teller) = (cell.to_owned(), options.clone(), *teller);
        let watch = move || {
            let runtime = crate::runtime::one_thread().doing(|| "starting".to_owned())?;
            runtime.block_on(watch(&cell, options, killed, teller))
        };
        Self { thread: std::thread::spawn(watch) }
    }

    /// Waits until the cell is whole.
    ///
    /// # Errors
    /// Where it does not get so in time.
    pub(crate) fn finish(self) -> Result<Healed, CliError> {
        self.thread.join().map_err(|_| failed("healing", "who looked on panicked"))?
    }
}

async fn watch(
    cell: &str,
    options: Options,
    killed: Instant,
    teller: Storyteller,
) -> Result<Healed, CliError> {
    let doing = || "asking the cell how far it has healed".to_owned();
    let cell = Cell::connect(cell, options).await.doing(doing)?;
    let replicas = cell.info().config.replication;
    let (mut first, mut lacked, mut told) = (None, false, (0, killed));
    loop {
        let (status, repair) = tokio::join!(cell.status(), cell.repair_status());
        let (status, repair) = (status.doing(doing)?, repair.doing(doing)?);
        let given_up = |reason: &String| reason.starts_with(ReasonCode::ServersDead.code());
        let is_dead = status.reasons.iter().any(given_up);
        let counts = status.now.counts;
        let since = killed.elapsed();
        if first.is_none()
            && let Some(age) = repair.clones.iter().map(|clone| clone.age_ms).max()
        {
            let first_copy = since.saturating_sub(Duration::from_millis(age));
            let seconds = first_copy.as_secs_f64();
            teller.say(format_args!("the first copy begins {seconds:.1} s after the kill"));
            first = Some(first_copy);
        }
        let (lacking, copied) = (counts.below_goal, counts.copied);
        lacked |= is_dead && lacking > 0;
        if lacking > 0 && lacking != told.0 && told.1.elapsed() >= SAY_EVERY {
            teller.say(format_args!("{lacking} chunks lack a replica, {copied} are being copied"));
            told = (lacking, Instant::now());
        }
        if lacked && lacking == 0 && repair.clone_count == 0 && !counts.counting {
            let seconds = since.as_secs_f64();
            teller.say(format_args!(
                "healed: every chunk has {replicas} replicas again, {seconds:.1} s after the kill"
            ));
            let first_copy = first.unwrap_or(since);
            return Ok(Healed { first_copy, whole: since });
        }
        if since > WITHIN {
            let why =
                format!("{lacking} chunks lack a replica {} s after the kill", WITHIN.as_secs());
            return Err(failed("healing", why));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
