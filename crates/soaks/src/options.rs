//! What a soak is told on its command line.

use anyhow::{Context, Result, bail};

pub(crate) const USAGE: &str = "\
soak tree|appends|kills|masters|upgrade|chaos|snapshots|streams|heals|recovery|stream-rates
     [--small-cell] [--chunk-size BYTES] [--keep]
     appends: [--records N] [--large-records N]      kills, masters: [--rounds N]
     masters: [--lab PATH | --disks], of masters that are cut off, or whose disks fail
     chaos: [--minutes N] [--seed N] [--lab PATH], and the records of each round
     snapshots: [--minutes N]
     streams: [--records N] [--record-size BYTES] [--seed N]
     upgrade: [--against BINARY] [--seed N], with an odd one chunkservers first
     heals: [NAME…] [--files N] [--lab PATH] [--against BINARY]
     stream-rates: --lab PATH [gfs] [tfs]
     recovery: --lab PATH [--gigabytes N] [--clone-rate BYTES] [--clients]";

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub(crate) struct SoakOptions {
    /// Found the cell with `--small-cell`: deaths are believed sooner.
    pub(crate) small_cell: bool,
    /// Bytes of a chunk, where not the usual 64 MiB.
    pub(crate) chunk_size: Option<u64>,
    /// Leave data and logs.
    pub(crate) keep: bool,
    /// Chunkservers.
    pub(crate) servers: usize,
    pub(crate) records: u64,
    /// Bytes of each record of a stream.
    pub(crate) record_size: usize,
    pub(crate) large_records: u64,
    pub(crate) rounds: u64,
    pub(crate) minutes: u64,
    pub(crate) seed: u64,
    /// The masters' disks are small, and fail.
    pub(crate) disks: bool,
    /// The laboratory's program.
    pub(crate) lab: Option<String>,
    pub(crate) gigabytes: u64,
    /// Bytes a second that a server takes for its clones; 0: no limit.
    pub(crate) clone_rate: u64,
    /// Clients read and append while it is copied.
    pub(crate) clients: bool,
    /// Which parts of it, where not all.
    pub(crate) names: Vec<String>,
    /// Files that are deleted at once, or that a master has.
    pub(crate) files: Option<u64>,
    /// An older binary to be measured beside.
    pub(crate) against: Option<String>,
}

impl Default for SoakOptions {
    fn default() -> Self {
        Self {
            small_cell: false,
            chunk_size: None,
            keep: false,
            servers: 4,
            records: 200_000,
            record_size: 32,
            large_records: 5_000,
            rounds: 20,
            minutes: 10,
            seed: 1,
            disks: false,
            lab: None,
            gigabytes: 2,
            clone_rate: 0,
            clients: false,
            names: Vec::new(),
            files: None,
            against: None,
        }
    }
}

impl SoakOptions {
    /// Reads the words after the soak's name, `what`.
    ///
    /// # Errors
    /// When they make no sense.
    pub(crate) fn parse(what: &str, words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        if what == "chaos" {
            // Many chunks, and servers that are taken for dead within the time that they are away.
            options.small_cell = true;
            options.chunk_size = Some(8 << 20);
            options.servers = 6;
        }
        if what == "snapshots" {
            options.small_cell = true;
            options.minutes = 3;
        }
        if what == "streams" {
            options.small_cell = true;
            options.servers = 5;
            options.chunk_size = Some(8 << 20);
            options.records = 10_000_000;
        }
        if what == "masters" {
            let is_other = |word: &&str| ["--lab", "--disks"].contains(word);
            options.rounds = if words.iter().any(is_other) { 12 } else { 50 };
        }
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64> {
                let text = words.next().with_context(|| format!("{word} wants a number"))?;
                text.parse().with_context(|| format!("{word} {text}"))
            };
            match *word {
                "--small-cell" => options.small_cell = true,
                "--keep" => options.keep = true,
                "--chunk-size" => options.chunk_size = Some(number()?),
                "--records" => options.records = number()?,
                "--record-size" => options.record_size = usize::try_from(number()?)?,
                "--large-records" => options.large_records = number()?,
                "--rounds" => options.rounds = number()?,
                "--minutes" => options.minutes = number()?,
                "--gigabytes" => options.gigabytes = number()?,
                "--clients" => options.clients = true,
                "--disks" => options.disks = true,
                "--clone-rate" => options.clone_rate = number()?,
                "--lab" | "--against" => {
                    let path = words.next().with_context(|| format!("{word} wants a path"))?;
                    let place =
                        if *word == "--lab" { &mut options.lab } else { &mut options.against };
                    *place = Some((*path).to_owned());
                }
                "--files" => options.files = Some(number()?),
                name if ["heals", "stream-rates"].contains(&what) && !name.starts_with('-') => {
                    options.names.push(name.to_owned());
                }
                "--seed" => options.seed = number()?,
                _ => bail!("{word}: {USAGE}"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::SoakOptions;

    #[test]
    fn options_are_read_and_what_is_none_is_refused() {
        let options = SoakOptions::parse("appends", &["--records", "9", "--keep"]).expect("good");
        assert_eq!((options.records, options.large_records, options.keep), (9, 5_000, true));
        let options = SoakOptions::parse("heals", &["purge", "--files", "9"]).expect("good");
        assert_eq!((options.names, options.files), (vec!["purge".to_owned()], Some(9)));
        let rounds = |words: &[&str]| SoakOptions::parse("masters", words).map(|it| it.rounds);
        assert_eq!(rounds(&[]).expect("good"), 50);
        assert_eq!(rounds(&["--rounds", "20"]).expect("good"), 20, "as it is said");
        assert_eq!(rounds(&["--disks"]).expect("good"), 12);
        for bad in [&["purge"][..], &["--records"][..], &["--records", "x"], &["--fast"]] {
            assert!(SoakOptions::parse("chaos", bad).is_err(), "{bad:?}");
        }
    }
}
