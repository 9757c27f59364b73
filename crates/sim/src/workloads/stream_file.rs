//! A stream and its oracle: what producers have sent, what they were told of it, and what may be
//! true of it then (R38, R39).
//!
//! ```text
//!   sent ──► committed (where), or never, or unknown until the next opening tells
//! ```
//! - SF1: what was told as committed is in the log, whole, as it was sent, and where it was told.
//! - SF2: what was told as not done, or lies behind the number of a later opening, never is.
//! - SF3: an opening goes on behind all that was committed before it, with the newest cursor.

use crate::simulation::Simulation;
use bytes::Bytes;
use cairn_client_core::OpenedProducer;
use cairn_env_sim::WorldTime;
use cairn_format::RecordSource;
use cairn_protocol::{Failure, Outcome};
use cairn_types::{EntryId, Epoch, SessionId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a producer knows of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BundleEnd {
    /// It is on its way, or nobody was told.
    Unknown,
    Committed(WorldTime),
    Never,
}

/// One bundle that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentBundle {
    pub(crate) epoch: Epoch,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bytes: Bytes,
    pub(crate) cursor: Option<Bytes>,
    pub(crate) sync: bool,
    pub(crate) ended: BundleEnd,
}

/// A producer as its application knows it: whoever runs under its name.
#[derive(Debug, Default)]
struct NamedProducer {
    sent: Vec<SentBundle>,
    /// Epochs that its openings were given.
    epochs: Vec<Epoch>,
}

/// Which of a producer's bundles.
pub(crate) type BundleIndex = usize;

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamFile {
    pub(crate) name: String,
    pub(crate) id: Option<EntryId>,
    producers: BTreeMap<String, NamedProducer>,
}

/// As its records name a producer.
pub(crate) fn producer_id(name: &str) -> RecordSource {
    RecordSource::of(name, SessionId::default())
}

impl StreamFile {
    pub(crate) fn named(name: &str) -> Rc<RefCell<Self>> {
        let (name, id, producers) = (name.to_owned(), None, BTreeMap::new());
        Rc::new(RefCell::new(Self { name, id, producers }))
    }

    /// A producer sends a bundle.
    pub(crate) fn send(&mut self, name: &str, bundle: SentBundle) -> BundleIndex {
        let sent = &mut self.producers.entry(name.to_owned()).or_default().sent;
        sent.push(bundle);
        sent.len() - 1
    }

    /// The bundle that is committed under these names.
    pub(crate) fn sent(&self, name: &str, epoch: Epoch, first: u64) -> Option<&SentBundle> {
        let sent = &self.producers.get(name)?.sent;
        sent.iter().find(|it| (it.epoch, it.first) == (epoch, first))
    }

    /// The name of a producer that a record tells of.
    pub(crate) fn name_of(&self, id: RecordSource) -> Option<&str> {
        self.producers.keys().map(String::as_str).find(|name| producer_id(name) == id)
    }

    /// Whether of some bundle of that name it is not known what became of it.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        let sent = self.producers.get(name).map(|it| it.sent.as_slice()).unwrap_or_default();
        sent.iter().any(|sent| sent.ended == BundleEnd::Unknown)
    }

    /// A bundle was committed, as its producer is told.
    pub(crate) fn committed(
        &mut self,
        sim: &Simulation,
        (name, bundle): (&str, BundleIndex),
        offset: Option<u64>,
    ) -> Result<(), String> {
        let (now, file) = (sim.now(), self.id.expect("it is sent to"));
        let sent = &mut self.producers.get_mut(name).expect("it has sent something").sent[bundle];
        let told = format!("{}: records {} to {} of {name}", self.name, sent.first, sent.last);
        if sent.ended == BundleEnd::Never {
            return Err(format!("{told} are told as committed, and could not be any more (SF2)"));
        }
        sent.ended = BundleEnd::Committed(now);
        let mut observer = sim.observer.borrow_mut();
        let Some(note) = observer.ledger.streams.bundle(file, name, sent.first).cloned() else {
            return Err(format!("{told} are told as committed, and the log has none (SF1)"));
        };
        let last = note.first + note.count - 1;
        let is_it = (note.epoch, last) == (sent.epoch, sent.last)
            && note.size == sent.bytes.len() as u64
            && offset.is_none_or(|offset| offset == note.offset);
        if !is_it {
            return Err(format!(
                "{told} are told as committed at {offset:?}; it is {note:?} (SF1)"
            ));
        }
        if sent.sync {
            observer.ledger.bundle_synced(&note);
        }
        Ok(())
    }

    /// A bundle failed, as its producer is told.
    pub(crate) fn failed(
        &mut self,
        sim: &Simulation,
        (name, bundle): (&str, BundleIndex),
        failure: &Failure,
    ) -> Result<(), String> {
        if failure.outcome == Outcome::Unknown {
            return Ok(());
        }
        let file = self.id.expect("it is sent to");
        let sent = &mut self.producers.get_mut(name).expect("it has sent something").sent[bundle];
        sent.ended = BundleEnd::Never;
        let observer = sim.observer.borrow();
        match observer.ledger.streams.bundle(file, name, sent.first) {
            Some(note) if note.epoch == sent.epoch => {
                let told = format!("{:?} ({})", failure.code, failure.message);
                Err(format!("{}: {note:?} is committed, and told as {told} (SF2)", self.name))
            }
            _ => Ok(()),
        }
    }

    /// A producer was opened: what earlier openings have sent is resolved (R39).
    pub(crate) fn opened(
        &mut self,
        sim: &Simulation,
        name: &str,
        opened: &OpenedProducer,
    ) -> Result<(), String> {
        let (observer, file) = (sim.observer.borrow(), self.id.expect("it is opened"));
        // Another opening may have used the same numbers for other records.
        let in_log = |sent: &SentBundle| {
            let note = observer.ledger.streams.bundle(file, name, sent.first);
            note.is_some_and(|note| note.epoch == sent.epoch)
        };
        let producer = self.producers.entry(name.to_owned()).or_default();
        let (epoch, number) = (opened.epoch, opened.number.get());
        let wrong = |why: String| {
            Err(format!("{}: {name} is opened behind {number}, epoch {epoch}: {why}", self.name))
        };
        if producer.epochs.contains(&epoch) {
            return wrong("another opening has the same epoch".to_owned());
        }
        producer.epochs.push(epoch);
        let mut cursor = None;
        for sent in producer.sent.iter_mut().filter(|sent| sent.epoch < epoch) {
            let is_in = sent.last <= number;
            match sent.ended {
                BundleEnd::Committed(_) if !is_in => {
                    return wrong(format!("it was told that {} is committed (SF3)", sent.last));
                }
                BundleEnd::Unknown if is_in && in_log(sent) => {
                    sent.ended = BundleEnd::Committed(sim.now());
                }
                BundleEnd::Unknown => sent.ended = BundleEnd::Never,
                _ => {}
            }
            if sent.first <= number && number < sent.last && sent.ended != BundleEnd::Never {
                return wrong(format!("bundle {} to {} is cut", sent.first, sent.last));
            }
            let is_newer = cursor.as_ref().is_none_or(|(last, _)| *last < sent.last);
            if let (BundleEnd::Committed(_), Some(text), true) =
                (sent.ended, &sent.cursor, is_newer)
            {
                cursor = Some((sent.last, text.clone()));
            }
        }
        let given = opened.cursor.as_ref().map(|it| (it.number.get(), it.text.clone()));
        match (given, cursor) {
            (Some((at, _)), Some((least, _))) if at < least => {
                wrong(format!("its cursor is of {at}, and one of {least} is committed (SF3)"))
            }
            (None, Some((at, _))) if !opened.cursor_gone => {
                wrong(format!("its cursor is gone, and one of {at} is committed (SF3)"))
            }
            (Some((at, _)), _) if at > number => {
                wrong(format!("its cursor is of {at}, ahead of its records"))
            }
            (Some((at, text)), _) => {
                let is_sent = producer.sent.iter().any(|sent| {
                    let is_it = sent.last == at && sent.cursor.as_ref() == Some(&text);
                    is_it && sent.ended != BundleEnd::Never
                });
                if is_sent { Ok(()) } else { wrong(format!("nobody sent its cursor of {at}")) }
            }
            _ => Ok(()),
        }
    }
}
