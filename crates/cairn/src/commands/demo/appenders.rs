//! Clients that append records to one file at once, each with a connection and a thread of its
//! own, and remember what was acknowledged.

use crate::cli_error::{CliError, Doing};
use crate::commands::demo::verdict::failed;
use cairn_client::{Cell, Options};
use cairn_types::CellPath;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What one client did.
struct ClientTally {
    /// Numbers `0..acknowledged` were acknowledged, in this order.
    acknowledged: u64,
    /// The longest time between two acknowledgements.
    pause: Duration,
}

/// The clients.
pub(crate) struct DemoClients {
    threads: Vec<JoinHandle<Result<ClientTally, CliError>>>,
    shared: Arc<AllClients>,
}

#[derive(Default)]
struct AllClients {
    stop: AtomicBool,
    acknowledged: AtomicU64,
    ended: AtomicU64,
}

/// What all clients did together.
pub(crate) struct DemoAppended {
    /// How many numbers of each client were acknowledged.
    clients: Vec<u64>,
    /// The longest time that any client waited for an acknowledgement.
    pub(crate) pause: Duration,
}

impl DemoClients {
    /// Starts `count` clients that append to `path`.
    pub(crate) fn start(count: u64, cell: &str, options: &Options, path: &CellPath) -> Self {
        let shared = Arc::new(AllClients::default());
        let start = |client| {
            let (cell, path, shared) = (cell.to_owned(), path.clone(), shared.clone());
            let options = options.clone();
            std::thread::spawn(move || {
                let done = append_until_told(client, (&cell, options), &path, &shared);
                shared.ended.fetch_add(1, Ordering::Relaxed);
                done
            })
        };
        Self { threads: (0..count).map(start).collect(), shared: shared.clone() }
    }

    /// Records acknowledged so far, by all.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether a client has given up.
    pub(crate) fn one_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed) > 0
    }

    /// Lets them finish what they are at.
    ///
    /// # Errors
    /// The first failure of one.
    pub(crate) fn stop(self) -> Result<DemoAppended, CliError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut all = DemoAppended { clients: Vec::new(), pause: Duration::ZERO };
        for thread in self.threads {
            let done = thread
                .join()
                .map_err(|_| failed("appending", "a client panicked"))
                .and_then(|done| done)?;
            all.clients.push(done.acknowledged);
            all.pause = all.pause.max(done.pause);
        }
        Ok(all)
    }
}

fn append_until_told(
    client: u64,
    (cell, options): (&str, Options),
    path: &CellPath,
    shared: &AllClients,
) -> Result<ClientTally, CliError> {
    let doing = || format!("appending as client {client}");
    let runtime = crate::runtime::one_thread().doing(|| "starting".to_owned())?;
    runtime.block_on(async {
        let cell = Cell::connect(cell, options).await.doing(doing)?;
        let file = cell.open(path).await.doing(doing)?;
        let writer = file.record_writer(&format!("demo-{client}"));
        let mut done = ClientTally { acknowledged: 0, pause: Duration::ZERO };
        while !shared.stop.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let record = record(client, done.acknowledged);
            writer.append(record.as_bytes()).await.doing(doing)?;
            done.pause = done.pause.max(sent.elapsed());
            done.acknowledged += 1;
            shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    })
}

/// `client 3 record 17 ···`, of varying length.
fn record(client: u64, number: u64) -> String {
    format!("client {client} record {number} {}", "·".repeat(20 + (number % 60) as usize))
}

/// Counts the records that a reader was given against those that were acknowledged.
pub(crate) struct RecordCount {
    seen: BTreeMap<(u64, u64), u64>,
    foreign: u64,
}

impl RecordCount {
    /// Nothing seen yet.
    pub(crate) fn new() -> Self {
        Self { seen: BTreeMap::new(), foreign: 0 }
    }

    /// One more record.
    pub(crate) fn see(&mut self, payload: &[u8]) {
        match parse(payload) {
            Some(id) => *self.seen.entry(id).or_default() += 1,
            None => self.foreign += 1,
        }
    }

    /// How many acknowledged records came exactly once; no other may have come.
    ///
    /// # Errors
    /// With the first that did not.
    pub(crate) fn judge(&self, appended: &DemoAppended) -> Result<u64, CliError> {
        let doing = "counting every record";
        let mut total = 0;
        for (client, acknowledged) in (0..).zip(&appended.clients) {
            for number in 0..*acknowledged {
                match self.seen.get(&(client, number)) {
                    Some(1) => total += 1,
                    Some(times) => {
                        let why = format!("client {client}'s record {number} came {times} times");
                        return Err(failed(doing, why));
                    }
                    None => {
                        let why = format!("client {client}'s record {number} is lost");
                        return Err(failed(doing, why));
                    }
                }
            }
        }
        if self.foreign > 0 || total != self.seen.len() as u64 {
            return Err(failed(doing, "records came that nobody wrote"));
        }
        Ok(total)
    }
}

fn parse(payload: &[u8]) -> Option<(u64, u64)> {
    let text = str::from_utf8(payload).ok()?;
    let mut words = text.strip_prefix("client ")?.split(' ');
    let client = words.next()?.parse().ok()?;
    let number = (words.next()? == "record").then(|| words.next())??.parse().ok()?;
    (text == record(client, number)).then_some((client, number))
}

#[cfg(test)]
mod tests {
    use super::{DemoAppended, RecordCount, record};
    use std::time::Duration;

    fn appended() -> DemoAppended {
        DemoAppended { clients: vec![2, 1], pause: Duration::ZERO }
    }

    fn judge(records: &[(u64, u64)]) -> Result<u64, String> {
        let mut count = RecordCount::new();
        records.iter().for_each(|(client, number)| count.see(record(*client, *number).as_bytes()));
        count.judge(&appended()).map_err(|complaint| complaint.to_string())
    }

    #[test]
    fn a_record_lost_doubled_or_invented_fails_the_demo() {
        assert_eq!(judge(&[(0, 0), (1, 0), (0, 1)]), Ok(3));
        assert!(judge(&[(0, 0), (1, 0)]).is_err_and(|why| why.contains("record 1 is lost")));
        let doubled = judge(&[(0, 0), (0, 0), (1, 0), (0, 1)]);
        assert!(doubled.is_err_and(|why| why.contains("came 2 times")));
        assert!(judge(&[(0, 0), (1, 0), (0, 1), (0, 2)]).is_err());
        let mut count = RecordCount::new();
        count.see(b"client 0 record 0 x");
        assert!(count.judge(&appended()).is_err(), "a payload that was changed");
    }
}
