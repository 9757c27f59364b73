//! Jobs on names: creations, renames, deletions, look-ups.

use super::caller::CallerId;
use super::tally::LoadTally;
use crate::meta::population::{Naming, Population};
use cairn_client::{Cell, CreateOptions, Error};
use cairn_types::{CellPath, Random};
use std::time::{Duration, Instant};

/// Files that a caller looks up in turn: to make up a name anew for each look-up would cost an
/// eighth of it.
const CHOSEN: u64 = 1024;

/// So many operations, or as many as fit into a time.
type Extent = (u64, Option<Duration>);

/// Names of callers' own files are those of directories that no population has.
const OWN_DIRECTORY: u64 = 1 << 24;

fn own_name(place: &CellPath, naming: Naming, number: u64) -> CellPath {
    place.join(&naming.name(OWN_DIRECTORY, number)).expect("made to be a name")
}

fn new_name(place: &CellPath, naming: Naming, number: u64) -> CellPath {
    place.join(&naming.name(OWN_DIRECTORY + 1, number)).expect("made to be a name")
}

fn is_over(begun: Instant, at_most: Option<Duration>) -> bool {
    at_most.is_some_and(|at_most| begun.elapsed() >= at_most)
}

/// Each latency is a whole batch's.
pub(super) async fn create(
    cell: &Cell,
    place: &CellPath,
    naming: Naming,
    (operations, at_most): Extent,
    batch: u64,
) -> Result<LoadTally, Error> {
    let mut tally = LoadTally::default();
    let begun = Instant::now();
    let mut next = 0;
    while next < operations && !is_over(begun, at_most) {
        let end = operations.min(next + batch);
        let names: Vec<CellPath> = (next..end).map(|n| own_name(place, naming, n)).collect();
        match names.as_slice() {
            [name] => drop(tally.timed(cell.create(name, CreateOptions::default())).await?),
            names => {
                let all = async {
                    let created = cell.create_many(names, CreateOptions::default()).await;
                    created.into_iter().collect::<Result<Vec<_>, Error>>()
                };
                tally.timed(all).await?;
            }
        }
        next = end;
    }
    tally.operations = next;
    Ok(tally)
}

pub(super) async fn rename(
    cell: &Cell,
    place: &CellPath,
    naming: Naming,
    operations: u64,
) -> Result<LoadTally, Error> {
    let mut tally = LoadTally::default();
    for number in 0..operations {
        let (from, to) = (own_name(place, naming, number), new_name(place, naming, number));
        tally.timed(cell.rename(&from, &to, false)).await?;
    }
    Ok(tally)
}

pub(super) async fn delete(
    cell: &Cell,
    place: &CellPath,
    naming: Naming,
    operations: u64,
) -> Result<LoadTally, Error> {
    let mut tally = LoadTally::default();
    for number in 0..operations {
        tally.timed(cell.delete(&new_name(place, naming, number), false)).await?;
    }
    Ok(tally)
}

pub(super) async fn look_up(
    cell: &Cell,
    population: Population,
    (operations, at_most): Extent,
    id: CallerId,
) -> Result<LoadTally, Error> {
    let mut tally = LoadTally::default();
    let mut random = Random::new(id.number);
    let chosen = (0..operations.min(CHOSEN)).map(|_| population.any_path(&mut random));
    let chosen: Vec<CellPath> = chosen.collect();
    let begun = Instant::now();
    for path in chosen.iter().cycle() {
        if tally.operations >= operations || is_over(begun, at_most) {
            break;
        }
        tally.timed(cell.open(path)).await?;
    }
    Ok(tally)
}

pub(super) async fn look_up_all(
    cell: &Cell,
    population: Population,
    id: CallerId,
) -> Result<LoadTally, Error> {
    let mut tally = LoadTally::default();
    let share = |number: u64| u128::from(population.files) * u128::from(number) / u128::from(id.of);
    let share = |number| u64::try_from(share(number)).unwrap_or(population.files);
    for file in share(id.number)..share(id.number + 1) {
        tally.timed(cell.open(&population.path(file))).await?;
    }
    Ok(tally)
}
