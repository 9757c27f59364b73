//! This member's place in the group: what is agreed on, the talk with the others, and what it says
//! of the group to whoever asks.
//!
//! - GM1: what is said of who is in charge is what this member believes; nothing is safe because
//!   of it.
//! - GM2: whoever was taken out may not hear of it by the log: others tell it when it stands for
//!   election. It believes only those who know of later members than itself. Who knows it by the
//!   log asks, and votes until it is told: those who are left may need it yet (MS3). For a while it
//!   sends on whoever asks it, and knows nobody else.
//! - GM3: whoever is asked to stop while it is in charge hands over, and ends when another is in
//!   charge; nobody waits for its silence.
//! - GM4: whoever hands over because its disk is full or hangs cannot know whose is not: it tries
//!   those first whom it has not tried, nor found in charge before it.

use crate::group_link::GroupLink;
use crate::member_change::{BegunStep, EndedStep, MemberChanges};
use crate::role::Role;
use crate::shadow::Shadow;
use cairn_consensus::{Consensus, ConsensusError};
use cairn_env::{Answer, Caller, Effect, EffectId, Event, LogEvent, Now, Payload};
use cairn_master_core::{Callers, LogJob, LogResult, State, check_member_request};
use cairn_protocol::{
    ConsensusKind, ConsensusMessage, ConsensusMessages, ConsensusMessagesAnswer, ErrorCode,
    Failure, FindPrimaryAnswer, Hello, JoinGroup, JoinGroupAnswer, ListMastersAnswer, MasterRole,
    MasterStatus, Request, Response,
};
use cairn_types::{Address, EntryId, LogIndex, MemberStanding, Members, ServerId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long another member has to give a piece of a checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the process of a member ends that was asked to.
pub const STOPPED: &str = "it was asked to stop";

/// How long that takes at most.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// For how long one who was taken out sends on whoever asks it, at the least (GM2).
const SENDS_ON_FOR: Duration = Duration::from_secs(5);

/// How often it asks whether it is needed yet.
const ASKS_EVERY: Duration = Duration::from_millis(500);

/// Who never votes and hears nobody for so long may have been taken out.
const UNHEARD_MAX: Duration = Duration::from_secs(3);

/// Why the process of a member ends that is one no more.
pub const TAKEN_OUT: &str =
    "this master was taken out of its group; its directory is of no more use";

/// Why a primary is not taken out that nobody else can take over from.
const LAST_VOTER: &str = "no other master votes, so nobody can take over from the one that is to \
                          go: 'cairn masters replace' puts another in its place";

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum GroupAnswer {
    /// It was about the group.
    Answered(Result<Response, Failure>),
    /// It was about the group, and is answered when the group has changed.
    Waits,
    /// It is for who is in charge.
    NotOfGroup(Request),
}

/// Consensus, and the calls to other members.
#[derive(Debug)]
pub(crate) struct GroupMember {
    consensus: Consensus,
    link: GroupLink,
    changes: MemberChanges,
    hello: Hello,
    callers: Callers,
    shadow: Shadow,
    /// How others reach this member, where it is told.
    address: Address,
    /// Others said that it is none of them, as of this record of the group's; zero: nobody did.
    told_out_as_of: LogIndex,
    /// It is a member no more, and has known that since then.
    out_since: Option<Time>,
    /// Before then it does not ask again.
    asks_next: Time,
    /// The last other member that was in charge, as far as is known here.
    former: Option<ServerId>,
    /// To whom it has handed over for want of room, or from whom it took over so (GM4).
    tried: Vec<ServerId>,
    /// It is asked to stop, and does by then.
    stops_until: Option<Time>,
}

impl GroupMember {
    pub(crate) fn new(consensus: Consensus, hello: Hello) -> Self {
        let (link, changes) = (GroupLink::default(), MemberChanges::default());
        let (address, told_out_as_of) = (Address::default(), LogIndex::default());
        let (out_since, stops_until) = (None, None);
        let (shadow, former, tried) = (Shadow::default(), None, Vec::new());
        Self {
            consensus,
            link,
            changes,
            hello,
            callers: Callers::default(),
            shadow,
            address,
            told_out_as_of,
            out_since,
            asks_next: Time::default(),
            former,
            tried,
            stops_until,
        }
    }

    /// Others reach this member there.
    pub(crate) fn reach_at(&mut self, address: Address) {
        self.address = address;
    }

    /// Why its process ends, if it does: it was taken out of its group, or asked to stop. Within
    /// `silence` everyone asks it who takes it for the one in charge.
    pub(crate) fn end(&mut self, now: Time, silence: Duration) -> Option<&'static str> {
        let me = self.hello.server;
        if self.is_out() {
            let since = *self.out_since.get_or_insert(now);
            let is_over = self.is_told_out() && now >= since + SENDS_ON_FOR.max(silence);
            return (is_over || self.stops_until.is_some()).then_some(TAKEN_OUT);
        }
        self.out_since = None;
        // GM3
        let until = self.stops_until?;
        let other = self.consensus.primary().is_some_and(|primary| primary != me);
        let may_stop = self.consensus.is_alone() || other || now >= until;
        may_stop.then_some(STOPPED)
    }

    /// Whether it is a member no more (GM2).
    fn is_out(&self) -> bool {
        self.is_told_out() || self.consensus.members().get(self.hello.server).is_none()
    }

    /// Whether the others' word that it is out holds.
    fn is_told_out(&self) -> bool {
        let members = self.consensus.members();
        let is_member = members.get(self.hello.server).is_some();
        holds(self.told_out_as_of, (members.as_of, is_member))
    }

    /// It is asked to stop (GM3).
    pub(crate) fn stop(&mut self, now: Time) -> Result<(), ConsensusError> {
        self.stops_until.get_or_insert(now + STOPS_WITHIN);
        self.leave_charge_if(true)
    }

    /// Has another member take charge, for this reason, where this one is in charge and there is
    /// another.
    pub(crate) fn leave_charge_if(&mut self, reason: bool) -> Result<(), ConsensusError> {
        let in_charge = self.consensus.leads().is_some() && !self.consensus.is_alone();
        if reason && in_charge {
            self.tried.extend(self.former.take());
            let next = self.consensus.hand_over(&self.tried)?;
            if next.is_some_and(|next| self.tried.contains(&next)) {
                // All were: from the beginning.
                self.tried.clear();
            }
            self.tried.extend(next);
        }
        Ok(())
    }

    /// Where nothing is wrong with its disk any more, nobody has been tried (GM4).
    pub(crate) fn begin_anew_if(&mut self, is_well: bool) {
        self.tried.retain(|_| !is_well);
    }

    /// Whether another member may be in charge.
    pub(crate) fn has_company(&self) -> bool {
        self.consensus.members().voters_to_be().len() > 1
    }

    /// Who is connected to this member.
    pub(crate) fn callers(&self) -> &Callers {
        &self.callers
    }

    /// Somebody who asks came, or went.
    pub(crate) fn note_caller(&mut self, event: &Event<(), LogResult>) {
        match event {
            Event::Identified { connection, credentials } => {
                self.callers.identified(*connection, credentials);
            }
            Event::Disconnected { connection } => self.callers.disconnected(*connection),
            _ => {}
        }
    }

    /// Whether the caller may ask this of a member at all.
    pub(crate) fn check(
        &self,
        from: Caller,
        request: &Request,
        state: &State,
    ) -> Result<(), Failure> {
        check_member_request(state, self.callers.who(from), request)
    }

    /// The level of records that all members can apply, as far as is known here.
    pub(crate) fn record_level(&self) -> u32 {
        self.link.level(self.consensus.members(), self.hello.server)
    }

    pub(crate) fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    pub(crate) fn consensus_mut(&mut self) -> &mut Consensus {
        &mut self.consensus
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether this is the tick.
    pub(crate) fn is_tick(&mut self, id: EffectId) -> bool {
        self.link.is_tick(id)
    }

    /// A call is over: whom it did not reach may lack what it carried.
    pub(crate) fn end_call(
        &mut self,
        id: EffectId,
        result: Result<Answer, Failure>,
    ) -> Result<(), ConsensusError> {
        let Some(member) = self.link.end_call(id) else { return Ok(()) };
        match result {
            Ok(Answer { response: Response::ConsensusMessages(answer), .. }) => {
                // GM2
                self.told_out_as_of = self.told_out_as_of.max(answer.out_as_of);
                Ok(())
            }
            _ => self.consensus.unreachable(member),
        }
    }

    /// A stream is longer: who waited for that at this shadow is told.
    pub(crate) fn grown(
        &mut self,
        now: Now,
        state: &State,
        file: EntryId,
    ) -> impl Iterator<Item = Effect<LogJob>> + use<> {
        replies(self.shadow.grown(now, state, file))
    }

    /// The calls that carry what there is to say to others, the next tick where one is needed, and
    /// the answer for whoever has changed the group, once that is over. Where this member is in
    /// charge, and no other can be, the calls tell what is applied: all that anybody was told.
    pub(crate) fn talk(
        &mut self,
        now: Now,
        role: &Role,
        mut fresh: impl FnMut() -> EffectId,
    ) -> Result<Vec<Effect<LogJob>>, ConsensusError> {
        let mut effects: Vec<Effect<LogJob>> = match role {
            Role::Shadow(state) => replies(self.shadow.over(now, state)).collect(),
            // What chunkservers told it as a shadow is forgotten, and told the primary anew.
            Role::Primary(_) => replies(self.shadow.end()).collect(),
        };
        let other = self.consensus.primary().filter(|primary| *primary != self.hello.server);
        self.former = other.or(self.former);
        if let Some((to, ended)) = self.changes.end(&self.consensus) {
            let answer = match ended {
                EndedStep::Answered(answer) => answer,
                EndedStep::HandsOver(going) => Err(self.send_to_next(&going)?),
            };
            effects.push(Effect::Reply { to, answer, payload: Payload::default() });
        }
        // Nobody else needs one that is alone; who is left alone may not be in charge yet.
        let rests = self.consensus.is_alone() && self.consensus.leads().is_some();
        if !rests && !self.link.has_tick() {
            effects.push(self.link.set_tick(now.time, fresh()));
        }
        let mut messages = self.consensus.messages();
        messages.extend(self.questions(now.time));
        if !messages.is_empty() {
            let (state, term) = (role.state(), self.consensus.term());
            let is_sure = matches!(role, Role::Primary(_))
                && self.consensus.is_confirmed(now.time, state.config().drift_permille);
            let applied = is_sure.then(|| (state.applied(), term));
            let members = self.consensus.members();
            effects.extend(self.link.send((now, applied), messages, members, fresh));
        }
        Ok(effects)
    }

    /// Who is out, or never votes and hears nobody, asks the others, whom its words mean nothing
    /// to, and who tell it whether it is one of them (GM2).
    fn questions(&mut self, now: Time) -> Vec<ConsensusMessage> {
        let (me, members) = (self.hello.server, self.consensus.members());
        let others = members.all.iter().filter(|it| it.id != me);
        let may_be_out = match members.get(me).map(|it| it.standing) {
            None => true,
            Some(MemberStanding::Learner) => {
                let heard = others.clone().filter_map(|it| self.consensus.heard(it.id)).max();
                heard.is_none_or(|at| now >= at + UNHEARD_MAX)
            }
            // It stands for election, and is told.
            Some(_) => false,
        };
        if !may_be_out || now < self.asks_next {
            return Vec::new();
        }
        self.asks_next = now + ASKS_EVERY;
        let (kind, term) = (ConsensusKind::HeartbeatAnswer, self.consensus.term());
        let question = |to: ServerId| {
            let (from, empty) = (me, ConsensusMessage::default());
            ConsensusMessage { kind, from, to, term, ..empty }
        };
        others.map(|it| question(it.id)).collect()
    }

    /// A call to another member; none where it is no member.
    pub(crate) fn ask(
        &self,
        now: Time,
        id: EffectId,
        (server, request): (ServerId, Request),
    ) -> Option<Effect<LogJob>> {
        let to = self.link.address_of(server, self.consensus.members())?;
        let (payload, deadline) = (bytes::Bytes::new(), now + PATIENCE);
        Some(Effect::Call { id, to, server, request, payload, deadline })
    }

    /// Takes what other members say, and answers what is asked about the group.
    pub(crate) fn on_request(
        &mut self,
        now: Now,
        (from, request): (Caller, Request),
        role: &Role,
    ) -> Result<GroupAnswer, ConsensusError> {
        let shadow_state = match role {
            Role::Shadow(state) => Some(&**state),
            Role::Primary(_) => None,
        };
        let answer = match request {
            Request::ConsensusMessages(them) => {
                let here = role.state().applied();
                Ok(self.hear((now.time, here), them)?)
            }
            Request::TellShadow(tell) => self.shadow.told(now, shadow_state, &tell),
            Request::AskShadow(ask) => {
                let asked = (self.callers.who(from), from, &ask);
                match self.shadow.asked(now, (shadow_state, self.consensus.term()), asked) {
                    Ok(None) => return Ok(GroupAnswer::Waits),
                    Ok(Some(word)) => Ok(word),
                    Err(failure) => Err(failure),
                }
            }
            Request::ListMasters(_) => Ok(self.list_masters(role)),
            Request::JoinGroup(join) => self.is_member_of(&join),
            Request::ChangeMasters(asked) if matches!(role, Role::Primary(_)) => {
                let group = (&mut self.consensus, self.hello.server, &self.address);
                match self.changes.begin(now.time, (from, asked), group) {
                    BegunStep::Answered(answer) => answer,
                    BegunStep::HandsOver(going) => Err(self.send_to_next(&going)?),
                    BegunStep::Waits => return Ok(GroupAnswer::Waits),
                }
            }
            Request::FindPrimary(_) if !self.consensus.is_alone() => Ok(self.find_primary(role)),
            other => return Ok(GroupAnswer::NotOfGroup(other)),
        };
        Ok(GroupAnswer::Answered(answer))
    }

    /// An event of what it has become, in a group of several.
    pub(crate) fn role_event(&self, what: &'static str) -> Option<Effect<LogJob>> {
        let event = || LogEvent::info(what).with_number("term", self.consensus.term().get());
        (!self.consensus.is_alone()).then(|| Effect::Log(event()))
    }

    /// Another member speaks.
    fn hear(
        &mut self,
        (now, here): (Time, LogIndex),
        them: ConsensusMessages,
    ) -> Result<Response, ConsensusError> {
        if let Some(from) = them.messages.first().map(|message| message.from)
            && self.consensus.members().get(from).is_some()
        {
            self.link.note(from, (them.stamp, them.record_level));
        }
        let members = self.consensus.members();
        let is_to_me = |it: &&ConsensusMessage| it.to == self.hello.server;
        if let Some(stranger) = them.messages.iter().find(is_to_me).map(|it| it.from)
            && members.get(stranger).is_none()
        {
            self.link.meet(stranger, &them.address);
        }
        // GM2
        let is_out = them.messages.iter().any(|it| members.get(it.from).is_none());
        // Nobody ends for a step that this disk may forget (MS3).
        let is_told = is_out && self.consensus.remembers_members();
        let out_as_of = if is_told { members.as_of } else { LogIndex::default() };
        for message in them.messages {
            match self.consensus.receive(now, message) {
                // What no member sends changes nothing.
                Ok(()) | Err(ConsensusError::Malformed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // A stamp of an earlier life of this machine may lie ahead.
        let is_echo = them.echo > 0 && them.echo <= now.as_nanos();
        if is_echo && them.term == self.consensus.term() && them.applied > LogIndex::default() {
            self.shadow.primary_applied((Time::from_nanos(them.echo), them.applied), here);
        }
        Ok(Response::ConsensusMessages(ConsensusMessagesAnswer { out_as_of }))
    }

    /// The address of who is in charge, as far as this member knows.
    fn primary_address(&self) -> Option<Address> {
        let primary = self.consensus.primary().filter(|id| *id != self.hello.server);
        // Nobody tells one who is out of a later one.
        let primary = primary.or(self.former.filter(|_| self.is_out()))?;
        Some(self.consensus.members().get(primary)?.address.clone())
    }

    pub(crate) fn not_in_charge(&self) -> Failure {
        let primary = self.primary_address();
        let line = match &primary {
            Some(address) => format!("this master is not in charge; {address} is"),
            None => "this master is not in charge, and knows of none that is".to_owned(),
        };
        Failure::not_primary_master(line, primary)
    }

    /// Hands over, to none of these if it can; what is answered to whoever asked for what the next
    /// one has to do (MC3).
    fn send_to_next(&mut self, going: &[ServerId]) -> Result<Failure, ConsensusError> {
        Ok(match self.consensus.hand_over(going)? {
            Some(_) => self.not_in_charge(),
            None => Failure::refused(ErrorCode::Invalid, LAST_VOTER),
        })
    }

    fn list_masters(&self, role: &Role) -> Response {
        let applied = role.state().applied();
        let role = match role {
            Role::Primary(_) => MasterRole::Primary,
            Role::Shadow(_) => self.shadow_role(),
        };
        let (consensus, me) = (&self.consensus, self.hello.server);
        let members = consensus.members().all.iter().map(|member| {
            let matched = consensus.matched(member.id);
            MasterStatus { member: member.clone(), matched }
        });
        Response::ListMasters(ListMastersAnswer {
            me,
            cell: self.hello.cell,
            role,
            term: consensus.term(),
            primary: consensus.primary().unwrap_or_default(),
            applied,
            members: members.collect(),
        })
    }

    /// Somebody makes a group, not for the first time.
    fn is_member_of(&self, join: &JoinGroup) -> Result<Response, Failure> {
        let ids = |members: &Members| -> BTreeSet<_> {
            members.all.iter().map(|member| (member.id, member.address.clone())).collect()
        };
        let is_this = ids(&join.members) == ids(self.consensus.members());
        if join.cell == self.hello.cell && is_this {
            return Ok(Response::JoinGroup(JoinGroupAnswer {}));
        }
        let line = format!("this master belongs to cell {} already", self.hello.cell);
        Err(Failure::refused(ErrorCode::Invalid, line))
    }

    fn shadow_role(&self) -> MasterRole {
        let is_elected = self.consensus.leads().is_some();
        if is_elected { MasterRole::Starting } else { MasterRole::Shadow }
    }

    fn find_primary(&self, role: &Role) -> Response {
        let role = match role {
            Role::Primary(primary) if primary.core().is_serving() => MasterRole::Primary,
            Role::Primary(_) => MasterRole::Starting,
            Role::Shadow(_) => self.shadow_role(),
        };
        let term = self.consensus.term();
        let primary = self.primary_address().unwrap_or_default();
        let masters = self.consensus.members().all.iter().map(|member| member.address.clone());
        let masters = masters.collect();
        Response::FindPrimary(FindPrimaryAnswer { role, term, primary, masters })
    }
}

fn replies(
    told: Vec<(Caller, Result<Response, Failure>)>,
) -> impl Iterator<Item = Effect<LogJob>> + use<> {
    let payload = Payload::default;
    told.into_iter().map(move |(to, answer)| Effect::Reply { to, answer, payload: payload() })
}

/// Whether the word that a member is out, as of that record, holds beside what its own log says:
/// which may know of a later record, by which it was taken in again.
fn holds(told_as_of: LogIndex, (own_as_of, is_member): (LogIndex, bool)) -> bool {
    let is_told = told_as_of > LogIndex::default();
    is_told && (told_as_of > own_as_of || told_as_of == own_as_of && !is_member)
}

#[cfg(test)]
mod tests {
    use super::holds;
    use cairn_types::LogIndex;

    #[test]
    fn who_was_taken_in_again_after_others_said_that_it_is_out_stays() {
        let at = LogIndex::new;
        assert!(!holds(at(0), (at(0), false)), "nobody said so");
        assert!(holds(at(7), (at(3), true)), "its own log is behind");
        assert!(holds(at(7), (at(7), false)));
        assert!(!holds(at(7), (at(9), true)), "it was taken in again");
        assert!(!holds(at(7), (at(9), false)), "its own log says so by itself");
    }
}
