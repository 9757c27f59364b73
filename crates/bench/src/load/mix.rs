//! What the masters of two clusters were asked (GFS Table 6), as one client's sequence: the
//! workload of TFS §3.1.
//!
//! | of a thousand | X | Y | here |
//! |---|---|---|---|
//! | Open | 261 | 163 | a file of the population, with its locations |
//! | Delete | 7 | 15 | one of the files that the client made before the clock started |
//! | FindLocation | 643 | 658 | the chunks of a file that is open |
//! | FindLeaseHolder | 78 | 134 | of one of the files that are being appended to |
//! | FindMatchingFiles | 6 | 22 | a pattern over one directory |
//! | all other | 5 | 8 | a creation |
//!
//! Leases are asked for on a thousand files: who appends asks again and again for the same chunk.

use super::caller::{CallerId, JobError};
use super::tally::LoadTally;
use crate::meta::population::{Naming, Population};
use cairn_client::{Cell, CreateOptions, Error};
use cairn_protocol::{Create, Delete, Find, Lease, LeasePurpose, Locate, Open, Rpc};
use cairn_types::{CellPath, EntryId, Random};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Files that are appended to.
const LEASED_FILES: u64 = 1000;
/// Files that a client has open.
const OPEN_FILES: usize = 100;
/// Paths that a search answers at most.
const FOUND_MAX: u32 = 100;
/// Chunks that an open file is asked for at once, as the library does.
const LOCATE_COUNT: u32 = 16;

/// Whose requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum RequestMix {
    X,
    Y,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MixRequest {
    Open,
    Delete,
    FindLocation,
    FindLeaseHolder,
    FindMatchingFiles,
    Other,
}

impl RequestMix {
    /// Of a thousand requests, in the table's order.
    const fn parts(self) -> [(MixRequest, u64); 6] {
        let [open, delete, location, holder, find, other] = match self {
            Self::X => [261, 7, 643, 78, 6, 5],
            Self::Y => [163, 15, 658, 134, 22, 8],
        };
        [
            (MixRequest::Open, open),
            (MixRequest::Delete, delete),
            (MixRequest::FindLocation, location),
            (MixRequest::FindLeaseHolder, holder),
            (MixRequest::FindMatchingFiles, find),
            (MixRequest::Other, other),
        ]
    }

    fn draw(self, random: &mut Random) -> MixRequest {
        let mut left = random.below(1000);
        for (kind, part) in self.parts() {
            if left < part {
                return kind;
            }
            left -= part;
        }
        MixRequest::Other
    }

    /// Enough files for every deletion of so many operations.
    fn deletions_max(self, operations: u64) -> u64 {
        operations * 2 * self.parts()[1].1 / 1000 + 20
    }
}

fn doomed(place: &CellPath, number: u64) -> CellPath {
    place.join(&format!("doomed-{number:06}")).expect("made to be a name")
}

/// Makes what will be deleted.
pub(super) async fn prepare(
    cell: &Cell,
    place: &CellPath,
    mix: RequestMix,
    operations: u64,
) -> Result<(), JobError> {
    cell.make_directory(place, true).await?;
    let names: Vec<CellPath> =
        (0..mix.deletions_max(operations)).map(|n| doomed(place, n)).collect();
    for made in cell.create_many(&names, CreateOptions::default()).await {
        made?;
    }
    Ok(())
}

/// One client's state.
struct MixClient<'a> {
    cell: &'a Cell,
    place: &'a CellPath,
    population: Population,
    random: Random,
    /// What it has open; the oldest gives way.
    open: Vec<EntryId>,
    opened: usize,
    /// Of the files that are appended to, those whose ids it knows.
    appended: Vec<Option<EntryId>>,
    deleted: u64,
    deletions_max: u64,
    created: u64,
}

/// The sequence.
pub(super) async fn run(
    cell: &Cell,
    place: &CellPath,
    population: Population,
    mix: RequestMix,
    operations: u64,
    id: CallerId,
) -> Result<LoadTally, JobError> {
    let leased = LEASED_FILES.min(population.files);
    let mut client = MixClient {
        cell,
        place,
        population,
        random: Random::new(id.number),
        open: Vec::new(),
        opened: 0,
        appended: vec![None; usize::try_from(leased).expect("a thousand at most")],
        deleted: 0,
        deletions_max: mix.deletions_max(operations),
        created: 0,
    };
    let mut tally = LoadTally::default();
    for _ in 0..operations {
        let kind = mix.draw(&mut client.random);
        client.one(kind, &mut tally).await?;
    }
    Ok(tally)
}

impl MixClient<'_> {
    async fn one(&mut self, kind: MixRequest, tally: &mut LoadTally) -> Result<(), Error> {
        match kind {
            MixRequest::Delete if self.deleted < self.deletions_max => {
                let path = doomed(self.place, self.deleted);
                self.deleted += 1;
                self.ask(Delete { path, ..Delete::default() }, tally).await?;
            }
            MixRequest::FindLocation if !self.open.is_empty() => {
                let file = *self.random.pick(&self.open).unwrap_or(&EntryId::default());
                let locate = Locate { file, count: LOCATE_COUNT, ..Locate::default() };
                self.ask(locate, tally).await?;
            }
            MixRequest::FindLeaseHolder => self.lease(tally).await?,
            MixRequest::FindMatchingFiles => {
                let root = self.population.any_directory(&mut self.random);
                let (pattern, limit) = ("*7*".to_owned(), FOUND_MAX);
                self.ask(Find { root, pattern, limit, ..Find::default() }, tally).await?;
            }
            MixRequest::Other => {
                let name = Naming::C.name(u64::from(u32::MAX), self.created);
                self.created += 1;
                let path = self.place.join(&name).expect("made to be a name");
                self.ask(Create { path, ..Create::default() }, tally).await?;
            }
            MixRequest::Open | MixRequest::Delete | MixRequest::FindLocation => {
                let path = self.population.any_path(&mut self.random);
                let id = self.open(path, tally).await?;
                let slot = self.opened % OPEN_FILES;
                self.opened += 1;
                match self.open.get_mut(slot) {
                    Some(oldest) => *oldest = id,
                    None => self.open.push(id),
                }
            }
        }
        Ok(())
    }

    async fn ask<R: Rpc>(&self, request: R, tally: &mut LoadTally) -> Result<R::Answer, Error> {
        tally.timed(self.cell.ask(request)).await
    }

    async fn open(&self, path: CellPath, tally: &mut LoadTally) -> Result<EntryId, Error> {
        Ok(self.ask(Open { path, ..Open::default() }, tally).await?.entry.id)
    }

    /// A file that is appended to is opened once; that counts as the open that it is.
    async fn lease(&mut self, tally: &mut LoadTally) -> Result<(), Error> {
        let which = self.random.below(self.appended.len() as u64);
        let index = usize::try_from(which).expect("a thousand at most");
        let file = match self.appended[index] {
            Some(file) => file,
            None => {
                // Spread over the whole population.
                let number = which * (self.population.files / self.appended.len() as u64);
                let id = self.open(self.population.path(number), tally).await?;
                self.appended[index] = Some(id);
                return Ok(());
            }
        };
        let purpose = LeasePurpose::Append;
        self.ask(Lease { file, purpose, ..Lease::default() }, tally).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::RequestMix;

    #[test]
    fn the_parts_of_each_mix_are_a_whole() {
        for mix in [RequestMix::X, RequestMix::Y] {
            assert_eq!(mix.parts().iter().map(|(_, part)| part).sum::<u64>(), 1000);
        }
    }
}
