//! A client that does one thing again and again, and says how often and how fast when it is asked:
//! `look-up`, the same of a shadow master (`ask-shadow`), `read`, `append`, the same of records so
//! small that they fill no disk (`append-small`), `create`.
//!
//! ```text
//!   soak                                     soak load steady CELL WHAT PATH
//!     │ ── "go" ──────────────────────────────► it begins
//!     │ ── "mark" ────────────────────────────► what came of it since the last time
//!     │ ◄─────────── "since {…}" ──────────────
//! ```

use crate::load_process::appenders::open;
use crate::load_process::orders::{Orders, say};
use anyhow::{Context, Result, bail};
use cairn_client::{Cell, CellPath, File, Options, RecordWriter, ShadowReads};
use cairn_types::Random;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes of a read, and of a record.
const READ_SIZE: u64 = 1 << 20;
const RECORD_SIZE: usize = 64 << 10;
const SMALL_RECORD_SIZE: usize = 1 << 10;
/// Directories that are made at once, and bytes of their names.
const CREATES: u64 = 64;
const NAME_SIZE: usize = 220;

/// What came of it in some time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SteadyFigures {
    pub(crate) count: u64,
    pub(crate) a_second: f64,
    pub(crate) p99_ms: f64,
    pub(crate) longest_ms: f64,
}

enum Work {
    /// The names in a directory, one after the other.
    LookUp(Cell, Vec<CellPath>),
    Read(File, u64),
    Append(RecordWriter, Vec<u8>),
    /// Directories, many at once, with long names: nothing else fills a master's log as fast.
    Create(Cell, CellPath, u64),
}

impl Work {
    async fn begin(cell: &str, what: &str, path: &str) -> Result<Self> {
        let shadow_reads =
            if what == "ask-shadow" { ShadowReads::First } else { ShadowReads::Never };
        let options = Options { deadline: DEADLINE, shadow_reads, ..Options::default() };
        let cell = Cell::connect(cell, options).await?;
        let at = CellPath::parse(path)?;
        Ok(match what {
            "look-up" | "ask-shadow" => {
                let names = cell.list(&at).await?;
                let paths =
                    names.iter().map(|entry| at.join(&entry.name)).collect::<Result<_, _>>()?;
                Self::LookUp(cell, paths)
            }
            "read" => {
                let file = cell.open(&at).await?;
                let length = file.length().await?;
                Self::Read(file, length.saturating_sub(READ_SIZE).max(1))
            }
            "append" | "append-small" => {
                let writer = open(&cell, path).await?.record_writer("steady");
                let size = if what == "append" { RECORD_SIZE } else { SMALL_RECORD_SIZE };
                Self::Append(writer, vec![7; size])
            }
            "create" => Self::Create(cell, at, 0),
            _ => bail!("it takes CELL look-up|ask-shadow|read|append|append-small|create PATH"),
        })
    }

    async fn once(&mut self, random: &mut Random) -> Result<()> {
        match self {
            Self::LookUp(cell, paths) => {
                let path = random.pick(paths).context("a directory with names")?;
                cell.open(path).await.map(drop)?;
            }
            Self::Read(file, length) => {
                let bytes = file.read_at(random.below(*length), READ_SIZE).await?;
                if bytes.is_empty() {
                    bail!("nothing was read");
                }
            }
            Self::Append(writer, record) => drop(writer.append(record).await?),
            Self::Create(cell, at, made) => {
                let mut all = tokio::task::JoinSet::new();
                for number in *made..*made + CREATES {
                    let path = at.join(&format!("{number:0width$}", width = NAME_SIZE))?;
                    let cell = cell.clone();
                    all.spawn(async move { cell.make_directory(&path, false).await.map(drop) });
                }
                *made += CREATES;
                while let Some(done) = all.join_next().await {
                    done??;
                }
            }
        }
        Ok(())
    }
}

/// Runs one.
///
/// # Errors
/// When the words make no sense, or the cell refuses.
pub(crate) async fn run(words: &[&str]) -> Result<()> {
    let [cell, what, path] = words else {
        bail!("it takes CELL look-up|ask-shadow|read|append|append-small|create PATH")
    };
    let orders = Orders::listen();
    let mut work = Work::begin(cell, what, path).await?;
    let mut random = Random::new(1);
    say("ready");
    orders.expect("go")?;
    let (mut took, mut since) = (Vec::new(), Instant::now());
    loop {
        let begun = Instant::now();
        work.once(&mut random).await?;
        took.push(begun.elapsed());
        if orders.came("mark")?.is_some() {
            say(&format!("since {}", serde_json::to_string(&figures(&mut took, since.elapsed()))?));
            (took, since) = (Vec::new(), Instant::now());
        }
    }
}

fn figures(took: &mut [Duration], within: Duration) -> SteadyFigures {
    took.sort_unstable();
    let at = (took.len() * 99).div_ceil(100).max(1) - 1;
    let p99 = took.get(at).copied().unwrap_or_default();
    SteadyFigures {
        count: took.len() as u64,
        a_second: took.len() as f64 / within.as_secs_f64(),
        p99_ms: p99.as_secs_f64() * 1e3,
        longest_ms: took.last().copied().unwrap_or_default().as_secs_f64() * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::figures;
    use std::time::Duration;

    #[test]
    fn p99_is_what_one_in_a_hundred_exceeds() {
        let mut took: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        let told = figures(&mut took, Duration::from_secs(4));
        assert_eq!((told.count, told.a_second, told.p99_ms), (200, 50.0, 198.0));
        assert_eq!(told.longest_ms, 200.0);
        assert_eq!(figures(&mut [], Duration::from_secs(1)).count, 0);
    }
}
