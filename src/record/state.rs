//! What a journal folds into: everything a scheduler must know to go on.

use super::entry::{Answered, Created, Door};
use super::execution::Records;
use super::model::{
    Checkpoint, CompletedTurn, Decision, Id, Limits, Message, Outcome, ParticipantRequest, ParticipantResponse,
    Request, RequestKind, Response, RunOutcome, Selection,
};
use super::usage::UsageRecord;
use crate::value::CanonicalJson;
use crate::value::hash::FixedState;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A map by id.
pub type IdMap<V> = HashMap<Id, V, FixedState>;
/// A set of ids.
pub type IdSet = HashSet<Id, FixedState>;

/// The fold of a journal. Built by [`State::create`] and [`State::apply`], and by snapshots of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The last batch folded in.
    pub revision: u64,
    /// How many entries were folded in.
    pub entries: u64,
    /// How many ids the entries brought: the counter that later ids derive from.
    pub issued: u64,
    /// How the conversation began.
    pub created: Rc<Created>,
    /// The caps in force.
    pub limits: Limits,
    /// One for each participant, in declared order.
    pub members: Vec<Member>,
    /// The published transcript.
    pub messages: Vec<Rc<Message>>,
    /// For each message, the member that consumed it before it was public.
    pub consumed_by: Vec<Option<usize>>,
    /// Turns of committed groups, in publication order.
    pub turns: Vec<Rc<CompletedTurn>>,
    /// The revision of the last published message; 0 before the first.
    pub messages_revision: u64,
    /// A saved decision whose group is not open yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Selection>,
    /// How many decisions were saved: the built-in policy's place in its round.
    pub decisions: u64,
    /// The last checkpoint of the host's selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector_checkpoint: Option<Checkpoint>,
    /// The asking of the host's selector that has no decision yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selecting: Option<Id>,
    /// The open group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// The run that was started and not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The latest run, ended or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Id>,
    /// The final outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunOutcome>,
    /// Inputs and answers by their ids.
    #[serde(with = "super::snapshot::map")]
    pub receipts: IdMap<Receipt>,
    /// The ledger.
    pub ledger: Ledger,
    #[serde(skip)]
    pub(super) positions: Rc<IdMap<usize>>,
    #[serde(with = "super::snapshot::set")]
    pub(super) used_ids: IdSet,
}

/// A participant's progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Messages before this position are consumed.
    pub cursor: usize,
    /// The last saved private state, every append joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Prepared results so far, waits included: tells whether a live session is up to date.
    pub prepared: u64,
    /// Admitted model calls so far.
    pub calls: u64,
}

/// An open group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Its id.
    pub id: Id,
    /// What its members see.
    pub base_revision: u64,
    /// How many messages they see.
    pub base_messages: usize,
    /// Whether an external participant was asked by the selection itself.
    pub external: bool,
    /// In selection order.
    pub turns: Vec<Turn>,
}

/// A member's turn in the open group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Kept across attempts.
    pub id: Id,
    /// Position in declared order.
    pub participant: usize,
    /// How far it has come.
    pub phase: Phase,
    /// The latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Id>,
    /// The attempts before it, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Id>,
    /// When the first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Rc<str>>,
    /// When the latest result was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Rc<str>>,
    /// The latest result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What it waits on, in request order; kept until the continued attempt settles.
    pub asks: Vec<Ask>,
    /// Replies to earlier waits, to be published before its own message.
    pub replies: Vec<Reply>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What an unsettled attempt returned or threw after all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Result<Outcome, Rc<str>>>,
    /// The revision of its last start, result or reconciliation.
    pub changed: u64,
    /// What a host decided of it since it was last started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<ReconciledTurn>,
    /// What its attempts recorded, until it is prepared with nothing to wait for, or fails.
    pub records: Records,
}

/// What a host decided of a turn, for whoever asks again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconciledTurn {
    /// The revision that took it.
    pub revision: u64,
    /// Who decided.
    pub by: Rc<str>,
    /// What.
    pub decision: Decision,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// For a person.
    pub message: Rc<str>,
    /// The stable code of the error the participant threw, where it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Rc<str>>,
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No attempt is under way.
    Pending,
    /// An attempt was announced and has no result.
    Running,
    /// It has a result whose private state is not saved.
    Settled,
    /// Ready for its group.
    Prepared,
    /// Waits on its asks, or, once all are answered, to be continued.
    Parked,
    /// The group fails.
    Failed,
    /// Signalled, and given up before it settled.
    Unsettled,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// As hosts see it.
    pub request: Request,
    /// The revision that opened it.
    pub revision: u64,
    /// The answer's id, the answer, and the id of its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// An accepted answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Its own id.
    pub response_id: Id,
    /// The answer.
    pub response: Response,
    /// The id its message will have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Id>,
}

/// A person's reply that waits for its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The message's id.
    pub message_id: Id,
    /// Who said it.
    pub participant_id: Id,
    /// The words.
    pub content: Rc<str>,
}

/// A run's counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: Id,
    /// Attempted member turns.
    pub turns: u64,
    /// Admitted model calls.
    pub calls: u64,
    /// Reported tokens.
    pub tokens: u64,
}

/// What an input or answer was given back.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The revision that accepted it.
    pub revision: u64,
    /// Through which call it came; absent for the engine's own declining answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Door>,
    /// Who spoke; the member for approvals and reconciliations.
    pub participant_id: Id,
    /// The request it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Id>,
    /// What was said.
    pub response: Response,
    /// Its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Id>,
}

/// All model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// By call id.
    #[serde(with = "super::snapshot::usage")]
    pub records: IdMap<Rc<UsageRecord>>,
    /// Call ids in the order they came.
    pub order: Vec<Id>,
    /// Admitted calls of the conversation.
    pub calls: u64,
    /// Who paid for each attempt.
    #[serde(with = "super::snapshot::map")]
    pub attempts: IdMap<Payer>,
}

/// On whose account an attempt runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payer {
    /// The run.
    pub run: Id,
    /// The member, its turn and its group; absent for the selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<(usize, Id, Id)>,
}

impl State {
    /// The position of a participant in declared order.
    #[must_use]
    pub fn position(&self, participant_id: &str) -> Option<usize> {
        self.positions.get(participant_id).copied()
    }

    /// The id of the participant at a position.
    #[must_use]
    pub fn participant_id(&self, position: usize) -> Option<&Id> {
        self.created.participants.get(position).map(|p| &p.id)
    }

    /// Whether the participant at a position is an agent.
    #[must_use]
    pub fn is_agent(&self, position: usize) -> bool {
        self.created.participants.get(position).is_some_and(|p| p.agent.is_some())
    }

    /// All open requests, in selection and request order.
    pub fn open_requests(&self) -> impl Iterator<Item = &Ask> {
        self.group.iter().flat_map(|g| &g.turns).filter(|t| t.phase == Phase::Parked).flat_map(Turn::open_asks)
    }

    /// The turn in the open group with this id.
    #[must_use]
    pub fn turn(&self, turn_id: &str) -> Option<&Turn> {
        self.group.as_ref()?.turns.iter().find(|t| &*t.id == turn_id)
    }

    /// Published messages up to the group's base that the member did not write and has not consumed.
    #[must_use]
    pub fn increment(&self, group: &Group, participant: usize) -> Rc<[usize]> {
        let Some((member, author)) = self.members.get(participant).zip(self.participant_id(participant)) else {
            return Rc::new([]);
        };
        let span = member.cursor..group.base_messages;
        let fresh = self.messages.get(span.clone()).unwrap_or_default().iter();
        let consumed = self.consumed_by.get(span.clone()).unwrap_or_default().iter();
        let fresh = span.zip(fresh.zip(consumed));
        fresh
            .filter(|(_, (message, by))| message.participant_id != *author && **by != Some(participant))
            .map(|(position, _)| position)
            .collect()
    }

    /// Whether an id was ever used for a turn, group, run, attempt, message or request.
    #[must_use]
    pub fn is_used(&self, id: &str) -> bool {
        self.used_ids.contains(id)
    }
}

impl Turn {
    /// Its unanswered asks, in request order.
    pub fn open_asks(&self) -> impl Iterator<Item = &Ask> {
        self.asks.iter().filter(|ask| ask.answer.is_none())
    }

    /// Whether an attempt can be started: it is pending, or all its asks are answered.
    #[must_use]
    pub fn is_dispatchable(&self) -> bool {
        match self.phase {
            Phase::Pending => true,
            Phase::Parked => self.open_asks().next().is_none(),
            _ => false,
        }
    }

    /// Its answers in request order, as a continued attempt is given them.
    #[must_use]
    pub fn responses(&self) -> Vec<ParticipantResponse> {
        let answered = self.asks.iter().filter_map(|ask| Some((ask, ask.answer.as_ref()?)));
        let response = |(ask, answer): (&Ask, &Answer)| ParticipantResponse {
            request: ask.request.clone(),
            response_id: answer.response_id.clone(),
            response: answer.response.clone(),
        };
        answered.map(response).collect()
    }
}

impl Ask {
    pub(super) fn of(request: &ParticipantRequest, turn: &Turn, group: &Id, member: &Id, revision: u64) -> Ask {
        let participant_id = request.participant_id.clone().unwrap_or_else(|| member.clone());
        let request = Request {
            id: request.id.clone(),
            reason: request.reason.clone(),
            kind: request.kind,
            participant_id,
            group_id: group.clone(),
            turn_id: turn.id.clone(),
            member_id: Some(member.clone()),
            data: request.data.clone(),
        };
        Ask { request, revision, answer: None }
    }
}

impl Answer {
    pub(super) fn of(answered: &Answered) -> Answer {
        Answer {
            response_id: answered.response_id.clone(),
            response: answered.response.clone(),
            message_id: answered.message_id.clone(),
        }
    }
}

impl Response {
    /// The kind of request it answers.
    #[must_use]
    pub fn kind(&self) -> RequestKind {
        match self {
            Response::Input(_) => RequestKind::Input,
            Response::Approval { .. } => RequestKind::Approval,
            Response::Reconciliation { .. } => RequestKind::Reconciliation,
        }
    }
}

impl Checkpoint {
    /// Puts `next` on top: its head replaces this one, what it appends is added.
    #[must_use]
    pub fn joined(previous: Option<Checkpoint>, next: &Checkpoint) -> Checkpoint {
        let mut append: Vec<CanonicalJson> = previous.and_then(|p| p.append).unwrap_or_default();
        append.extend(next.append.iter().flatten().cloned());
        let append = (!append.is_empty()).then_some(append);
        Checkpoint { version: next.version.clone(), data: next.data.clone(), append }
    }
}
