//! Asking masters what they are, all of them at once: those that were told, each that stands behind
//! a name, and whom these call members.
//!
//! ```text
//!   told ──► a name? ─yes─► each address behind it ─┐
//!              └ no ────────────────────────────────┴─► asked once ──► what it says
//!                 ▲                                                        │
//!                 └─────────────────── its members ◄───────────────────────┘
//! ```
//! - MS1: each address is asked once, and nobody's silence delays what another is asked.
//! - MS2: of the group the primary's word counts; where none is, that of the latest term. A master
//!   without a cell, or of another one, has no say in it.

use cairn_client::{Error, ListMastersAnswer, Masters};
use cairn_env_os::behind_names;
use cairn_protocol::MasterRole;
use cairn_types::{Address, CellId};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread::Builder;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// A name that is looked up for longer is dialled as it is, by whoever has more patience.
const NAME_PATIENCE: Duration = Duration::from_secs(1);
/// How long the others are heard once one says that it is in charge: one of a later term may be.
const MOMENT: Duration = Duration::from_millis(200);
/// A group has few members: whoever names more and more of them is not followed.
const ADDRESSES_MAX: usize = 100;

/// A master that answers.
#[derive(Debug)]
pub(super) struct HeardMaster {
    /// Where it was asked.
    pub(super) at: Address,
    pub(super) said: ListMastersAnswer,
}

/// What masters said.
#[derive(Debug, Default)]
pub(super) struct MasterSurvey {
    /// In the order in which they answered; one that has several addresses stands here for each.
    pub(super) heard: Vec<HeardMaster>,
    /// Why the first that did not answer did not.
    pub(super) refusal: Option<Error>,
}

impl MasterSurvey {
    /// Hears everyone: each within the deadline that `masters` has.
    pub(super) async fn of_all(masters: &Masters, told: &[Address]) -> Self {
        Asking::begin(masters, told).finish(false).await
    }

    /// The same, until one says that it is in charge: the silent are waited for only where none is.
    pub(super) async fn until_primary(masters: &Masters, told: &[Address]) -> Self {
        Asking::begin(masters, told).finish(true).await
    }

    /// Whose word of the group counts (MS2); nobody's where none belongs to one.
    pub(super) fn view(&self) -> Option<&HeardMaster> {
        let rank = |it: &&HeardMaster| {
            let said = &it.said;
            // Where several cells answer, the one is meant to which most of them belong.
            let of_cell = self.count_of(said.cell);
            (of_cell, said.role == MasterRole::Primary, said.term, said.applied)
        };
        self.heard.iter().filter(|it| !it.said.cell.is_none()).max_by_key(rank)
    }

    /// The one in charge.
    pub(super) fn primary(&self) -> Option<&HeardMaster> {
        self.view().filter(|it| it.said.role == MasterRole::Primary)
    }

    /// The one that has most of what the cell has.
    pub(super) fn furthest(&self) -> Option<&HeardMaster> {
        let cell = self.view().map(|it| it.said.cell);
        self.heard.iter().max_by_key(|it| (Some(it.said.cell) == cell, it.said.applied))
    }

    fn count_of(&self, cell: CellId) -> usize {
        let all = self.heard.iter().filter(|it| it.said.cell == cell);
        all.map(|it| it.said.me).collect::<BTreeSet<_>>().len()
    }
}

/// What has come of a look-up or a question.
enum SurveyNews {
    LeadsTo(Address, Vec<Address>),
    Said(Address, Result<ListMastersAnswer, Error>),
}

/// A survey under way.
struct Asking<'a> {
    masters: &'a Masters,
    /// Names too.
    asked: BTreeSet<Address>,
    running: JoinSet<SurveyNews>,
    survey: MasterSurvey,
}

impl<'a> Asking<'a> {
    fn begin(masters: &'a Masters, told: &[Address]) -> Self {
        let (asked, running) = (BTreeSet::new(), JoinSet::new());
        let mut asking = Self { masters, asked, running, survey: MasterSurvey::default() };
        told.iter().for_each(|address| asking.ask_once(address));
        asking
    }

    async fn finish(mut self, seeks_primary: bool) -> MasterSurvey {
        let mut ends = None;
        loop {
            let next = self.running.join_next();
            let news = match ends {
                None => next.await,
                Some(at) => timeout_at(at, next).await.unwrap_or_default(),
            };
            let Some(news) = news else { return self.survey };
            self.take_in(news.expect("nobody ends it before it is done"));
            if seeks_primary && ends.is_none() && self.survey.primary().is_some() {
                ends = Some(Instant::now() + MOMENT);
            }
        }
    }

    /// Asks whoever is at that address, or at each that the name leads to (MS1).
    fn ask_once(&mut self, address: &Address) {
        if !self.asked.insert(address.clone()) {
            return;
        }
        let address = address.clone();
        if address.as_str().parse::<SocketAddr>().is_ok() {
            self.ask(address);
        } else {
            self.running.spawn(async move {
                let all = behind(address.clone()).await;
                SurveyNews::LeadsTo(address, all)
            });
        }
    }

    fn ask(&mut self, at: Address) {
        let masters = self.masters.clone();
        self.running.spawn(async move {
            let said = masters.list(&at).await;
            SurveyNews::Said(at, said)
        });
    }

    fn take_in(&mut self, news: SurveyNews) {
        match news {
            SurveyNews::LeadsTo(name, all) => match all.as_slice() {
                // People know the one by its name; whoever dials it says why it leads nowhere.
                [] => self.ask(name),
                several => several.iter().for_each(|one| self.ask_once(one)),
            },
            SurveyNews::Said(at, Ok(said)) => self.hear(at, said),
            SurveyNews::Said(_, Err(error)) => {
                self.survey.refusal.get_or_insert(error);
            }
        }
    }

    fn hear(&mut self, at: Address, mut said: ListMastersAnswer) {
        for member in said.members.iter_mut().map(|status| &mut status.member) {
            let is_untold = member.address.as_str().is_empty();
            // One that has always been alone never said where it is.
            if is_untold && member.id == said.me {
                member.address = at.clone();
            } else if !is_untold && self.asked.len() < ADDRESSES_MAX {
                self.ask_once(&member.address);
            }
        }
        self.survey.heard.push(HeardMaster { at, said });
    }
}

/// Where a name leads that leads to several; nowhere, too, where that takes too long. In a thread
/// that nobody waits for: a name server may take its time.
async fn behind(name: Address) -> Vec<Address> {
    let (tell, told) = oneshot::channel();
    let look = move || {
        // Where it took too long, nobody listens.
        let _ = tell.send(behind_names(&[name]));
    };
    // Where no thread can be had, `told` says so.
    let _ = Builder::new().name("cairn-names".to_owned()).spawn(look);
    timeout(NAME_PATIENCE, told).await.ok().and_then(Result::ok).unwrap_or_default()
}
