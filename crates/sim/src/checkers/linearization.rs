//! One order of operations that overlapped, true to time, in which each answer is right; an
//! *unknown* operation happened or not, once.
//!
//! Just-in-time linearization: a configuration is a state of what is operated on and the set of
//! operations under way that have happened already in it. At each answer every configuration is
//! carried on by operations under way until the answered one has happened as answered; those in
//! which it cannot are dropped. None left: no order explains what was seen.
//!
//! Knows nothing of what is operated on: that is whoever is [`Sequential`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// More configurations than these are not pursued; the history is left undecided.
const CONFIGURATIONS_MAX: usize = 20_000;

/// What operations do, one at a time, and which answers are right.
pub(crate) trait Sequential {
    type State: Clone + Ord;
    type Op: Clone + Debug;
    /// What an operation saw or did where it happened.
    type Effect: Clone + Ord;
    type Answer: Debug;

    /// Lets an operation happen.
    fn happen(state: &mut Self::State, id: usize, op: &Self::Op) -> Self::Effect;
    /// Whether this is a change.
    fn changes(effect: &Self::Effect) -> bool;
    /// An answer has come.
    fn told(&mut self, _id: usize, _op: &Self::Op, _answer: &Self::Answer) {}
    /// Whether somebody to whom this happened is answered so, when this is the state.
    fn is_right(&self, effect: &Self::Effect, answer: &Self::Answer, state: &Self::State) -> bool;
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryEnd<A> {
    Answered(A),
    /// Nothing happened, and nothing is said about the state.
    NotDone,
    /// It may happen at any time from its start on.
    Unknown,
}

/// Start or end of operation `id`, in true order.
#[derive(Clone, Debug)]
pub(crate) enum HistoryEvent<O, A> {
    Began(usize, O),
    Ended(usize, HistoryEnd<A>),
}

/// What the search says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Linearizable,
    Not(String),
    Undecided,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Configuration<S, E> {
    state: S,
    /// Under way, and happened already, with what came of it.
    happened: BTreeMap<usize, E>,
}

type Configurations<M> =
    BTreeSet<Configuration<<M as Sequential>::State, <M as Sequential>::Effect>>;

/// The search over one history.
struct LinearizationSearch<M: Sequential> {
    model: M,
    under_way: BTreeMap<usize, M::Op>,
    /// Those that ended as unknown: nobody will ever say what they saw.
    unknown: BTreeSet<usize>,
}

impl<M: Sequential> LinearizationSearch<M> {
    /// All configurations in which operation `id` has happened as answered.
    fn answered(
        &self,
        from: Configurations<M>,
        id: usize,
        answer: &M::Answer,
    ) -> Option<Configurations<M>> {
        let mut seen = from.clone();
        let mut frontier: Vec<_> = from.into_iter().collect();
        let mut reached = BTreeSet::new();
        while let Some(mut configuration) = frontier.pop() {
            if let Some(effect) = configuration.happened.remove(&id) {
                if self.model.is_right(&effect, answer, &configuration.state) {
                    reached.insert(configuration);
                }
                continue;
            }
            for (other, op) in &self.under_way {
                if configuration.happened.contains_key(other) {
                    continue;
                }
                let mut next = configuration.clone();
                let effect = M::happen(&mut next.state, *other, op);
                if self.unknown.contains(other) && !M::changes(&effect) {
                    continue;
                }
                next.happened.insert(*other, effect);
                if seen.insert(next.clone()) {
                    frontier.push(next);
                }
            }
            if seen.len() > CONFIGURATIONS_MAX {
                return None;
            }
        }
        Some(reached)
    }
}

fn forget<S: Ord, E: Ord>(
    configurations: BTreeSet<Configuration<S, E>>,
    id: usize,
) -> BTreeSet<Configuration<S, E>> {
    let without = |mut it: Configuration<S, E>| {
        it.happened.remove(&id);
        it
    };
    configurations.into_iter().map(without).collect()
}

/// Judges a whole history, which began with this state.
pub(crate) fn judge<M: Sequential>(
    model: M,
    first: M::State,
    history: &[HistoryEvent<M::Op, M::Answer>],
) -> Judgement {
    let (under_way, unknown) = (BTreeMap::new(), BTreeSet::new());
    let mut search = LinearizationSearch { model, under_way, unknown };
    let first = Configuration { state: first, happened: BTreeMap::new() };
    let mut configurations = BTreeSet::from([first]);
    for event in history {
        match event {
            HistoryEvent::Began(id, op) => {
                search.under_way.insert(*id, op.clone());
            }
            HistoryEvent::Ended(id, HistoryEnd::NotDone) => {
                search.under_way.remove(id);
                // Where it did something, or was let happen at all, the answer says otherwise.
                configurations.retain(|it| !it.happened.get(id).is_some_and(M::changes));
                configurations = forget(configurations, *id);
            }
            HistoryEvent::Ended(id, HistoryEnd::Unknown) => {
                search.unknown.insert(*id);
            }
            HistoryEvent::Ended(id, HistoryEnd::Answered(answer)) => {
                search.model.told(*id, &search.under_way[id], answer);
                let Some(next) = search.answered(configurations, *id, answer) else {
                    return Judgement::Undecided;
                };
                let op = search.under_way.remove(id);
                if next.is_empty() {
                    return Judgement::Not(format!("nothing explains {answer:?} of {op:?}"));
                }
                configurations = next;
            }
        }
    }
    Judgement::Linearizable
}
