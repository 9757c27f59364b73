//! A master core whose log the test holds in its hand.

use cairn_env::{Caller, Completion, ConnectionId, Effect, EffectId, Event, Now};
use cairn_master_core::{MasterCore, MasterEffect, ProposalId, Record, State};
use cairn_protocol::{
    Create, Delete, ErrorCode, Failure, List, MakeDirectory, Rename, Request, RequestId, Response,
    Stat,
};
use cairn_types::{
    CellConfig, CellId, CellPath, LogIndex, MutationName, MutationNumber, SessionId, Term, Time,
    WallTime,
};

const TERM: Term = Term::new(1);

/// A master whose log the test holds in its hand.
pub(crate) struct Cell {
    pub(crate) core: MasterCore,
    pub(crate) index: u64,
    pub(crate) time: u64,
    /// How far the wall clock was set forward.
    pub(crate) leap: u64,
    /// Proposed and not yet committed.
    pub(crate) proposed: Vec<(ProposalId, Record)>,
    pub(crate) answers: Vec<(u64, Result<Response, Failure>)>,
    pub(crate) asked: u64,
    pub(crate) mutations: u64,
    /// What is to be woken, and when.
    pub(crate) wakes: Vec<(EffectId, u64)>,
}

pub(crate) fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("a path")
}

impl Cell {
    pub(crate) fn unstarted() -> Self {
        Self {
            core: MasterCore::new(State::default(), TERM, 7),
            index: 0,
            time: 1000,
            leap: 0,
            proposed: Vec::new(),
            answers: Vec::new(),
            asked: 0,
            mutations: 0,
            wakes: Vec::new(),
        }
    }

    pub(crate) fn new() -> Self {
        let mut cell = Self::unstarted();
        cell.begin();
        cell.commit();
        cell
    }

    pub(crate) fn begin(&mut self) {
        let mut effects = Vec::new();
        self.core.begin(self.now(), (CellId::new(3), CellConfig::tiny()), &mut effects);
        self.collect(effects);
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            time: Time::from_nanos(self.time * 1_000_000),
            wall: WallTime::from_millis(self.time + self.leap),
        }
    }

    pub(crate) fn collect(&mut self, effects: Vec<MasterEffect>) {
        for effect in effects {
            match effect {
                MasterEffect::Propose(id, record) => self.proposed.push((id, record)),
                MasterEffect::Env(Effect::Reply { to, answer, .. }) => {
                    self.answers.push((to.request.0, answer));
                }
                MasterEffect::Env(Effect::Wake { id, at }) => {
                    self.wakes.push((id, at.as_nanos() / 1_000_000));
                }
                MasterEffect::Env(_) => {}
            }
        }
    }

    /// Sends a request; its number.
    pub(crate) fn send(&mut self, request: impl Into<Request>) -> u64 {
        self.asked += 1;
        let from = Caller { connection: ConnectionId(1), request: RequestId(self.asked) };
        let mut effects = Vec::new();
        let event = Event::Request { from, request: request.into() };
        self.core.step(self.now(), event, &mut effects);
        self.collect(effects);
        self.asked
    }

    /// Commits everything proposed, and what that leads to.
    pub(crate) fn commit(&mut self) {
        while !self.proposed.is_empty() {
            self.commit_first();
        }
    }

    pub(crate) fn commit_first(&mut self) {
        let (id, record) = self.proposed.remove(0);
        self.index += 1;
        let at = (LogIndex::new(self.index), TERM);
        let mut effects = Vec::new();
        self.core.applied(self.now(), at, id, &record, &mut effects);
        self.collect(effects);
    }

    /// So many milliseconds pass, in which what has to be woken is.
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.time + millis;
        while self.time < end {
            self.time += 5;
            let due: Vec<_> = self.wakes.extract_if(.., |(_, at)| *at <= self.time).collect();
            for (id, _) in due {
                let mut effects = Vec::new();
                let woken = Event::Completed { id, result: Completion::Woken };
                self.core.step(self.now(), woken, &mut effects);
                self.collect(effects);
                self.commit();
            }
        }
    }

    /// So many milliseconds pass, and nobody is woken.
    pub(crate) fn stand_still(&mut self, millis: u64) {
        self.time += millis;
    }

    pub(crate) fn answer(&self, asked: u64) -> Option<&Result<Response, Failure>> {
        self.answers.iter().find(|(number, _)| *number == asked).map(|(_, answer)| answer)
    }

    pub(crate) fn ask(&mut self, request: impl Into<Request>) -> Result<Response, Failure> {
        let asked = self.send(request);
        self.commit();
        self.answer(asked).cloned().expect("answered")
    }

    pub(crate) fn code(&mut self, request: impl Into<Request>) -> Option<ErrorCode> {
        self.ask(request).err().map(|failure| failure.code)
    }

    pub(crate) fn mutation(&mut self) -> MutationName {
        self.mutations += 1;
        MutationName { session: SessionId::new(8), number: MutationNumber::new(self.mutations) }
    }

    pub(crate) fn make(&mut self, at: &str, parents: bool) -> MakeDirectory {
        let (mutation, path) = (self.mutation(), path(at));
        MakeDirectory { mutation, path, parents, mode: None }
    }

    pub(crate) fn create(&mut self, at: &str) -> Create {
        Create { mutation: self.mutation(), path: path(at), ..Default::default() }
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, replace: bool) -> Rename {
        Rename { mutation: self.mutation(), from: path(from), to: path(to), replace }
    }

    pub(crate) fn delete(&mut self, at: &str, recursive: bool) -> Delete {
        Delete { mutation: self.mutation(), path: path(at), recursive }
    }

    pub(crate) fn exists(&mut self, at: &str) -> bool {
        self.ask(Stat { path: path(at) }).is_ok()
    }

    pub(crate) fn names(&mut self, at: &str, hidden: bool) -> Vec<String> {
        match self.ask(List { path: path(at), hidden, ..Default::default() }) {
            Ok(Response::List(list)) => list.entries.into_iter().map(|entry| entry.name).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// As `exists`, without committing anything.
    pub(crate) fn exists_now(&mut self, at: &str) -> bool {
        let asked = self.send(Stat { path: path(at) });
        self.answer(asked).is_some_and(Result::is_ok)
    }
}
