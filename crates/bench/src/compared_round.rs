//! One round of a comparison: who runs when, and what comes of it.
//!
//! ```text
//!   round 0   cell · floor · second floor     each of them as often first as the others: what a
//!   round 1   floor · second floor · cell     machine charges to whoever comes first, or to what
//!   round 2   second floor · cell · floor     comes later and later, is charged to all alike
//! ```
//! - CR1: a side is known here by nothing but its name: what it is measured by is the same for all
//!   three. So what the floor gives against itself tells what a ratio is worth.

use crate::pairs::{ComparedRound, FirstTurns, StreamRun};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Cell,
    Floor,
    SecondFloor,
}

/// Who goes first, and who after that: each goes first equally often.
pub(crate) fn turns(round: u64) -> [Side; 3] {
    let mut sides = [Side::Cell, Side::Floor, Side::SecondFloor];
    sides.rotate_left((round % 3) as usize);
    sides
}

/// Has each side run so many times, in turns.
pub(crate) fn compared<E>(
    round: u64,
    times: u64,
    mut measured: impl FnMut(Side) -> Result<StreamRun, E>,
) -> Result<ComparedRound, E> {
    assert!(times > 0, "a round measures something");
    let (mut runs, mut went_first) = (Vec::new(), FirstTurns::default());
    for turn in 0..times {
        let sides = turns(round + turn);
        for side in sides {
            runs.push((side, measured(side)?));
        }
        match sides[0] {
            Side::Cell => went_first.cell += 1,
            Side::Floor => went_first.floor += 1,
            Side::SecondFloor => went_first.second_floor += 1,
        }
    }
    let of = |side| {
        let its_own = runs.iter().filter(|(whose, _)| *whose == side);
        StreamRun::sum(its_own.map(|(_, run)| *run))
    };
    let (cell, floor, second_floor) = (of(Side::Cell), of(Side::Floor), of(Side::SecondFloor));
    Ok(ComparedRound { cell, floor, second_floor, went_first })
}

#[cfg(test)]
mod tests {
    use super::{Side, compared, turns};
    use crate::pairs::{Comparison, StreamRun};
    use std::convert::Infallible;

    #[test]
    fn each_side_goes_first_equally_often() {
        let first: Vec<Side> = (0..3).map(|round| turns(round)[0]).collect();
        assert_eq!(first, [Side::Cell, Side::Floor, Side::SecondFloor]);
    }

    /// A machine that needs so many seconds for its runs, one after the other; whose run it is
    /// makes no difference. How rounds on it compare.
    fn on_a_machine(rounds: u64, times: u64, seconds: impl Fn(u64) -> f64) -> Comparison {
        let (mut comparison, mut runs) = (Comparison::default(), 0);
        for round in 0..rounds {
            let measured = |_: Side| {
                runs += 1;
                let seconds = seconds(runs - 1);
                Ok::<_, Infallible>(StreamRun { bytes: 1 << 30, seconds, cpu_seconds: seconds })
            };
            comparison.push(compared(round, times, measured).expect("infallible"));
        }
        comparison
    }

    /// What is told is 1.0, within a spread that has 1.0 in it.
    fn is_level(comparison: &Comparison) {
        let told = comparison.to_json();
        for name in ["speed", "cpu", "floor_speed", "floor_cpu"] {
            let ratio = told[format!("{name}_ratio")].as_f64().expect("a ratio");
            assert!((0.97..1.03).contains(&ratio), "{name}: {told}");
        }
        for name in ["speed_spread", "floor_speed_spread"] {
            let end = |at: usize| told[name][at].as_f64().expect("an end");
            assert!(end(0) < 1.0 + 1e-9 && end(1) > 1.0 - 1e-9, "{name}: {told}");
        }
    }

    #[test]
    fn a_floor_beside_itself_is_told_as_level_whatever_the_machine_charges_to_whom() {
        // Reads run several times in a round, writes once.
        for times in [1, 6] {
            let runs = times * 3;
            is_level(&on_a_machine(9, times, |_| 2.0));
            // Whoever comes first in a round warms the machine up for the others (finding B1).
            is_level(&on_a_machine(9, times, |run| if run % runs == 0 { 8.0 } else { 2.0 }));
            // And whoever comes first in a turn.
            is_level(&on_a_machine(9, times, |run| if run % 3 == 0 { 8.0 } else { 2.0 }));
            // It gets slower and slower.
            is_level(&on_a_machine(9, times, |run| 2.0 + run as f64 / 100.0));
        }
    }

    #[test]
    fn a_side_that_costs_twice_as_much_is_told_so_on_such_a_machine() {
        let (mut comparison, mut runs) = (Comparison::default(), 0);
        for round in 0..9 {
            let measured = |side: Side| {
                runs += 1;
                let first = if runs % 3 == 1 { 1.5 } else { 1.0 };
                let seconds = if side == Side::Cell { 2.0 * first } else { first };
                Ok::<_, Infallible>(StreamRun { bytes: 1 << 30, seconds, cpu_seconds: seconds })
            };
            comparison.push(compared(round, 1, measured).expect("infallible"));
        }
        let told = comparison.to_json();
        let ratios = ["cpu_ratio", "floor_cpu_ratio"].map(|name| told[name].as_f64());
        assert_eq!(ratios, [Some(2.0), Some(1.0)], "{told}");
        assert_eq!(told["speed_ratio"].as_f64(), Some(0.5), "{told}");
        let first = ["cell", "floor", "second_floor"].map(|side| told["went_first"][side].as_u64());
        assert_eq!(first, [Some(3); 3], "{told}");
    }
}
