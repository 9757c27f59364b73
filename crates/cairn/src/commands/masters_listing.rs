//! `cairn masters`: who belongs to the group, what each says of itself, and who else answers.
//!
//! - ML1: who belongs to the group is what the one says whose word counts (MS2); nobody is shown as
//!   a voter on his own word.
//! - ML2: each master is shown once, by its id; a member that is silent is shown all the same.

use super::master_survey::{HeardMaster, MasterSurvey};
use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use crate::session::Session;
use cairn_client::{ListMastersAnswer, Masters, Options};
use cairn_types::{CellId, Member, MemberStanding};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long each is waited for, where the deadline is no shorter: a master answers at once, or is
/// in no state that is worth waiting for.
const PATIENCE: Duration = Duration::from_secs(1);

/// As people are told.
pub(super) fn standing_name(standing: MemberStanding) -> &'static str {
    match standing {
        MemberStanding::Voter => "voter",
        MemberStanding::Learner => "learner",
        MemberStanding::Entering => "entering",
        MemberStanding::Leaving => "leaving",
    }
}

/// A member, for whoever reads JSON.
pub(super) fn member_row(member: &Member) -> Value {
    json!({
        "id": member.id.to_string(),
        "address": member.address.as_str(),
        "standing": standing_name(member.standing),
    })
}

/// A master as it is shown.
#[derive(Debug)]
struct ShownMaster<'a> {
    member: Member,
    standing: &'static str,
    /// None where it does not answer.
    said: Option<&'a ListMastersAnswer>,
    /// It does not answer, but another one does where it should be.
    is_displaced: bool,
}

/// Shows them.
pub(super) async fn list(session: &Session, output: &Output) -> Result<(), CliError> {
    let doing = || "listing the masters".to_owned();
    let told = session.address().addresses();
    let options = session.options().clone();
    let options = Options { deadline: options.deadline.min(PATIENCE), ..options };
    let masters = Masters::new(&told, &options).doing(doing)?;
    let survey = MasterSurvey::of_all(&masters, &told).await;
    if survey.heard.is_empty() {
        return Err(survey.refusal.expect("a cell has an address")).doing(doing);
    }
    let shown = shown(&survey);
    if output.json() {
        let rows: Vec<Value> = shown.iter().map(ShownMaster::row).collect();
        return output.value(&json!({ "masters": rows }));
    }
    shown.iter().try_for_each(|master| output.line(&master.line()))
}

/// The members, as the group has them; then whoever else answers, by address.
fn shown(survey: &MasterSurvey) -> Vec<ShownMaster<'_>> {
    let view = survey.view().map(|it| &it.said);
    let members = view.map(|said| said.members.as_slice()).unwrap_or_default();
    let mut shown: Vec<ShownMaster<'_>> =
        members.iter().map(|status| shown_member(survey, &status.member)).collect();
    // The only one is where it answers, wherever it was when it had company.
    if let [ShownMaster { member, said: Some(_), .. }] = shown.as_mut_slice()
        && let Some(heard) = survey.heard.iter().find(|it| it.said.me == member.id)
    {
        member.address = heard.at.clone();
    }
    let mut known: BTreeSet<_> = shown.iter().map(|master| master.member.id).collect();
    let mut others: Vec<&HeardMaster> = survey.heard.iter().collect();
    others.sort_by(|one, other| one.at.cmp(&other.at));
    others.retain(|it| known.insert(it.said.me));
    shown.extend(others.iter().map(|HeardMaster { at, said }| ShownMaster {
        member: Member { id: said.me, address: at.clone(), ..Member::default() },
        standing: standing_of_another(said.cell, view.map(|it| it.cell)),
        said: Some(said),
        is_displaced: false,
    }));
    shown
}

fn shown_member<'a>(survey: &'a MasterSurvey, member: &Member) -> ShownMaster<'a> {
    let heard = survey.heard.iter().find(|it| it.said.me == member.id);
    ShownMaster {
        member: member.clone(),
        standing: standing_name(member.standing),
        said: heard.map(|it| &it.said),
        is_displaced: heard.is_none() && survey.heard.iter().any(|it| it.at == member.address),
    }
}

/// As people are told of one that is no member.
fn standing_of_another(its: CellId, cell: Option<CellId>) -> &'static str {
    if its.is_none() {
        "waiting"
    } else if Some(its) == cell {
        "outside"
    } else {
        "stranger"
    }
}

impl ShownMaster<'_> {
    /// For whoever reads JSON: one without a cell has no role in it.
    fn row(&self) -> Value {
        let mut row = member_row(&self.member);
        row["standing"] = json!(self.standing);
        let in_cell = self.said.filter(|it| !it.cell.is_none());
        row["role"] = json!(in_cell.map(|it| it.role.name()));
        row["term"] = json!(self.said.map(|it| it.term.get()));
        row["applied"] = json!(self.said.map(|it| it.applied.get()));
        row
    }

    fn line(&self) -> String {
        let state = match self.said {
            None if self.is_displaced => "does not answer; another one does there".to_owned(),
            None => "does not answer".to_owned(),
            Some(said) if said.cell.is_none() => "has no cell".to_owned(),
            Some(said) => {
                let of = match self.standing {
                    "stranger" => format!("  of cell {}", said.cell),
                    _ => String::new(),
                };
                format!("{:<8}  term {}  record {}{of}", said.role.name(), said.term, said.applied)
            }
        };
        format!("{:<22}  {:<8}  {state}", self.member.address.as_str(), self.standing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::master_survey::{HeardMaster, MasterSurvey};
    use super::{ShownMaster, shown};
    use cairn_client::ListMastersAnswer;
    use cairn_protocol::{MasterRole, MasterStatus};
    use cairn_types::{Address, CellId, LogIndex, Member, ServerId, Term};

    const PRIMARY: MasterRole = MasterRole::Primary;
    const SHADOW: MasterRole = MasterRole::Shadow;

    /// What master `me` of cell `cell` says, which knows of these members; each is at `m<id>:1`.
    fn heard(
        (me, cell): (u64, u128),
        role: MasterRole,
        (term, applied): (u64, u64),
        members: &[u64],
    ) -> HeardMaster {
        let at = |id: u64| Address::new(format!("m{id}:1"));
        let status = |id: &u64| MasterStatus {
            member: Member { id: ServerId::new(*id), address: at(*id), ..Member::default() },
            ..MasterStatus::default()
        };
        let said = ListMastersAnswer {
            me: ServerId::new(me),
            cell: CellId::new(cell),
            role,
            term: Term::new(term),
            applied: LogIndex::new(applied),
            members: members.iter().map(status).collect(),
            ..ListMastersAnswer::default()
        };
        HeardMaster { at: at(me), said }
    }

    /// Address, standing and role of each.
    fn rows(heard: Vec<HeardMaster>) -> Vec<String> {
        let survey = MasterSurvey { heard, refusal: None };
        let word = |it: &serde_json::Value| it.as_str().unwrap_or("-").to_owned();
        let text = |master: &ShownMaster<'_>| {
            let row = master.row();
            ["address", "standing", "role"].map(|key| word(&row[key])).join(" ")
        };
        shown(&survey).iter().map(text).collect()
    }

    #[test]
    fn the_old_view_of_one_that_was_taken_out_counts_for_nothing_beside_the_primarys() {
        let old = heard((1, 7), SHADOW, (2, 10), &[1, 2, 3]);
        let now = heard((2, 7), PRIMARY, (2, 30), &[2]);
        let told = rows(vec![old, now]);
        assert_eq!(told, ["m2:1 voter primary", "m1:1 outside shadow"]);
    }

    #[test]
    fn where_none_is_in_charge_the_latest_term_counts_and_within_it_the_latest_record() {
        let views = || {
            vec![
                heard((1, 7), SHADOW, (2, 90), &[1, 2, 3]),
                heard((4, 7), SHADOW, (3, 40), &[4, 5, 6]),
                heard((5, 7), SHADOW, (3, 30), &[1, 2, 4]),
            ]
        };
        let wanted =
            ["m4:1 voter shadow", "m5:1 voter shadow", "m6:1 voter -", "m1:1 outside shadow"];
        assert_eq!(rows(views()), wanted);
        assert_eq!(rows(views().into_iter().rev().collect()), wanted, "whoever answers first");
    }

    #[test]
    fn one_without_a_cell_or_of_another_is_no_voter_though_it_answers_first_and_is_in_charge() {
        let all = vec![
            heard((9, 0), SHADOW, (0, 0), &[]),
            heard((8, 5), PRIMARY, (99, 99), &[8]),
            heard((1, 7), SHADOW, (2, 10), &[1, 2, 3]),
            heard((2, 7), SHADOW, (2, 10), &[1, 2, 3]),
        ];
        let wanted = [
            "m1:1 voter shadow",
            "m2:1 voter shadow",
            "m3:1 voter -",
            "m8:1 stranger primary",
            "m9:1 waiting -",
        ];
        assert_eq!(rows(all), wanted);
        assert_eq!(rows(vec![heard((9, 0), SHADOW, (0, 0), &[])]), ["m9:1 waiting -"]);
    }

    #[test]
    fn a_member_that_is_heard_at_two_addresses_is_shown_once() {
        let again = || heard((1, 7), PRIMARY, (2, 10), &[1, 2]);
        let elsewhere = HeardMaster { at: Address::new("name:1"), ..again() };
        assert_eq!(rows(vec![elsewhere, again()]), ["m1:1 voter primary", "m2:1 voter -"]);
    }
}
