//! `cairn masters add`, `remove` and `replace`: a step from one group of masters to another.
//!
//! ```text
//!   add:  a learner ──► its disk is told of the group ──► it gets what there is ──► it votes
//!   replace:  the same, and with its vote the other one goes: one step, both groups agree
//! ```
//! - GS1: each part is safe to repeat; what holds already is no change.
//! - GS2: nothing is begun where somebody is to go who is no member, unless all who are to come
//!   vote: then it has been done before.
//! - GS3: who comes may be at the address of who goes, whose disk was lost: they differ by their
//!   ids, and who votes is the one that goes.
//! - GS4: a step after which two or four would vote is refused before anything of it is done: who
//!   was to come would be left a learner.

use super::master_survey::MasterSurvey;
use super::masters_listing::{member_row, standing_name};
use crate::cell_address::CellAddress;
use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use cairn_client::{ListMastersAnswer, Masters};
use cairn_protocol::{ErrorCode, JoinGroup};
use cairn_types::{Address, Member, MemberChange, MemberStanding, Members, ServerId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Records that a new member may lack when it gets its vote; the primary asks for fewer.
const LAG_MAX: u64 = 500;
/// Advice where a master that is named as an argument does not answer.
pub(super) const START_ONE: &str =
    "check the address, and that 'cairn master --peers …' runs there";
/// How often it is asked how far they are.
const PAUSE: Duration = Duration::from_millis(200);
/// A master that is told of its group starts with it within this.
const BECOMES_WITHIN: Duration = Duration::from_secs(10);
/// How often a person is told.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// Who comes and who goes: addresses, with commas between; or nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupStep<'a> {
    pub(super) comes: &'a str,
    pub(super) goes: &'a str,
    /// Who comes never votes.
    pub(super) learns_only: bool,
}

impl GroupStep<'_> {
    fn doing(&self) -> String {
        match (self.comes, self.goes) {
            ("", goes) => format!("taking {goes} out of the group of masters"),
            (comes, "") => format!("taking {comes} into the group of masters"),
            (comes, goes) => format!("putting {comes} in the place of {goes}"),
        }
    }

    /// Takes it.
    pub(super) async fn take(self, session: &Session, output: &Output) -> Result<(), CliError> {
        let doing = || self.doing();
        let addresses = |text: &str| -> Result<Vec<Address>, CliError> {
            match text {
                "" => Ok(Vec::new()),
                text => Ok(CellAddress::parse(text).doing(doing)?.addresses()),
            }
        };
        let (comes, goes) = (addresses(self.comes)?, addresses(self.goes)?);
        let told = session.address().addresses();
        let masters = Masters::new(&told, session.options()).doing(doing)?;
        let group = primary(&masters, &told).await.doing(doing)?;
        let mut leaving = leaving(&group, &comes, &goes).doing(doing)?;
        if !self.learns_only {
            self.check_votes(&masters, (&group, &leaving), &comes).await?;
        }
        let mut coming = Vec::new();
        for address in &comes {
            coming.push(self.learner(&masters, address, &group).await?);
        }
        // GS3: it has taken the place of who was there.
        leaving.retain(|member| !coming.iter().any(|it: &Member| it.id == member.id));
        let mut changes = Vec::new();
        if !self.learns_only {
            self.await_records(&masters, &coming, &told).await?;
            let votes = |member: &Member| {
                let standing = MemberStanding::Voter;
                MemberChange { member: Member { standing, ..member.clone() }, goes: false }
            };
            changes.extend(coming.iter().map(votes));
        }
        changes.extend(leaving.into_iter().map(|member| MemberChange { member, goes: true }));
        let members = masters.change(changes).await.doing(doing)?;
        show(&members, output)
    }

    /// GS4, by the ids of those who come: one may have several addresses, or vote already.
    async fn check_votes(
        &self,
        masters: &Masters,
        (group, leaving): (&ListMastersAnswer, &[Member]),
        comes: &[Address],
    ) -> Result<(), CliError> {
        let votes =
            |it: &&Member| matches!(it.standing, MemberStanding::Voter | MemberStanding::Entering);
        let members = group.members.iter().map(|status| &status.member).filter(votes);
        let stay = members.filter(|member| !leaving.iter().any(|it| it.id == member.id));
        let mut voters: BTreeSet<ServerId> = stay.map(|member| member.id).collect();
        for address in comes {
            let answer = masters.list(address).await;
            let answer = answer.doing(|| format!("asking the master at {address}"));
            let answer = answer.map_err(|error| error.advising(Exit::Unreachable, START_ONE))?;
            voters.insert(answer.me);
        }
        if cairn_master::VOTERS.contains(&voters.len()) {
            return Ok(());
        }
        let why = format!("{} masters would vote; a group has one, three or five", voters.len());
        let advice = "change two at once, with a comma between, or 'cairn masters replace' one";
        Err(CliError::usage(self.doing(), why, advice))
    }

    /// Has a master that waits learn what the group has.
    async fn learner(
        &self,
        masters: &Masters,
        address: &Address,
        group: &ListMastersAnswer,
    ) -> Result<Member, CliError> {
        let doing = || self.doing();
        let asking = || format!("asking the master at {address}");
        let answer = masters.list(address).await.doing(asking);
        let answer = answer.map_err(|error| error.advising(Exit::Unreachable, START_ONE))?;
        if !answer.cell.is_none() && answer.cell != group.cell {
            let why = format!("{address} belongs to the cell {}", answer.cell);
            let advice = "start a master with --peers on an empty directory";
            return Err(CliError::new(doing(), Cause::new(Exit::Stranger, why, advice)));
        }
        let known = group.members.iter().find(|it| it.member.id == answer.me);
        let standing = MemberStanding::Learner;
        let member = match known {
            Some(status) => status.member.clone(),
            None => Member { id: answer.me, address: address.clone(), standing },
        };
        if known.is_none() || answer.cell.is_none() {
            // What holds already is no change: the answer says who belongs to the group, and as of
            // which record, without which the new one would take earlier changes for later ones.
            let change = MemberChange { member: member.clone(), goes: false };
            let members = masters.change(vec![change]).await.doing(doing)?;
            if answer.cell.is_none() {
                let join = JoinGroup { cell: group.cell, members };
                self.tell(masters, address, join).await?;
            }
        }
        Ok(member)
    }

    /// Tells a master that waits of its group; one that is becoming a member just now is one soon.
    async fn tell(
        &self,
        masters: &Masters,
        address: &Address,
        join: JoinGroup,
    ) -> Result<(), CliError> {
        let telling = || format!("telling the master at {address} of its group");
        let began = Instant::now();
        loop {
            match masters.join(address, join.clone()).await {
                Err(error)
                    if error.code() == ErrorCode::Busy && began.elapsed() < BECOMES_WITHIN =>
                {
                    tokio::time::sleep(PAUSE).await;
                    let now = masters.list(address).await;
                    if now.is_ok_and(|answer| answer.cell == join.cell) {
                        return Ok(());
                    }
                }
                told => return told.doing(telling),
            }
        }
    }

    /// Waits until those who come have nearly all records, for as long as each answers: a
    /// checkpoint of a large cell takes its time.
    async fn await_records(
        &self,
        masters: &Masters,
        coming: &[Member],
        told: &[Address],
    ) -> Result<(), CliError> {
        let mut told_at = Instant::now();
        for member in coming {
            loop {
                let group = primary(masters, told).await.doing(|| self.doing())?;
                let status = group.members.iter().find(|it| it.member.id == member.id);
                let has = status.map(|it| it.matched.get()).unwrap_or_default();
                if has + LAG_MAX >= group.applied.get() {
                    break;
                }
                if told_at.elapsed() >= TOLD_EVERY {
                    told_at = Instant::now();
                    let all = group.applied.get();
                    warn(&format!("{} has {has} of {all} records", member.address));
                }
                let asking = || format!("waiting for {} to have its records", member.address);
                masters.list(&member.address).await.doing(asking)?;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

/// The members that are to go (GS2).
fn leaving(
    group: &ListMastersAnswer,
    comes: &[Address],
    goes: &[Address],
) -> Result<Vec<Member>, Cause> {
    let member = |address: &Address| {
        let known = group.members.iter().map(|status| &status.member);
        let there = known.filter(|member| member.address == *address);
        // GS3
        there.max_by_key(|member| member.standing == MemberStanding::Voter)
    };
    let votes = |address: &Address| {
        member(address).is_some_and(|member| member.standing == MemberStanding::Voter)
    };
    let is_done = !comes.is_empty() && comes.iter().all(votes);
    match goes.iter().find(|address| member(address).is_none()) {
        Some(stranger) if !is_done => {
            let why = format!("{stranger} is no member");
            Err(Cause::new(Exit::NotFound, why, "'cairn masters' shows who is"))
        }
        _ => Ok(goes.iter().filter_map(member).cloned().collect()),
    }
}

/// What the one in charge says of the group.
async fn primary(masters: &Masters, told: &[Address]) -> Result<ListMastersAnswer, Cause> {
    let survey = MasterSurvey::until_primary(masters, told).await;
    if let Some(primary) = survey.primary() {
        return Ok(primary.said.clone());
    }
    match survey.refusal {
        Some(error) => Err(error.into()),
        None => {
            let why = "no master is in charge of the group just now";
            Err(Cause::new(Exit::NotNow, why, "try again; 'cairn masters' shows who answers"))
        }
    }
}

fn show(members: &Members, output: &Output) -> Result<(), CliError> {
    if output.json() {
        let rows: Vec<Value> = members.all.iter().map(member_row).collect();
        return output.value(&json!({ "masters": rows }));
    }
    for member in &members.all {
        let (address, standing) = (member.address.as_str(), standing_name(member.standing));
        output.line(&format!("{address:<22}  {standing}"))?;
    }
    Ok(())
}
