//! Forks: a new conversation that goes on from a revision of another. Its first batch holds a copy of what
//! was published and of everybody's private state, so that it needs its origin no more.

use super::codec::{MAX_BATCH_LEN, MAX_ENTRY_LEN, encode};
use super::entry::{CheckpointCopied, CopiedMember, Created, Entry, MessageCopied, Origin, TurnCopied};
use super::fold::{Refusal, refuse};
use super::fold_turns::check_version;
use super::model::{Checkpoint, Id, Message, Selector};
use super::state::{Member, State};
use crate::value::text::utf16_len;
use crate::value::{CanonicalJson, Json};
use sha2::{Digest, Sha256};
use std::rc::Rc;

/// How long the appended part of one copied checkpoint may get before it is cut, in bytes.
const PART_LEN: usize = 1024 * 1024;

/// The lines of a fork's first batch, made at an instant, ISO 8601. Copied are messages, turns, checkpoints
/// and cursors; receipts, requests and the ledger are not. Refused while a group is open, and where the copy
/// is longer than a batch may be.
pub fn lines(state: &State, conversation_id: Id, at: Rc<str>) -> Result<Vec<String>, Refusal> {
    if state.group.is_some() {
        return Err(format!("a group is open at revision {}", state.revision));
    }
    let copied = copies(state);
    let member = |m: &Member| CopiedMember { cursor: m.cursor as u64, prepared: m.prepared };
    let origin = Origin {
        conversation_id: state.created.conversation_id.clone(),
        revision: state.revision,
        entries: copied.len() as u64,
        messages: state.messages.len() as u64,
        decisions: state.decisions,
        decision: state.decision.clone(),
        members: state.members.iter().map(member).collect(),
    };
    let created = Created {
        seed: seed(state, &conversation_id),
        conversation_id,
        at,
        limits: state.limits,
        origin: Some(origin),
        ..(*state.created).clone()
    };
    let entries = [Entry::Created(Rc::new(created))].into_iter().chain(copied);
    let lines = entries.map(|entry| encode(&entry)).collect::<Result<Vec<_>, _>>()?;
    let lengths = || lines.iter().map(|line| utf16_len(line));
    if lengths().any(|len| len > MAX_ENTRY_LEN) || lengths().sum::<usize>() > MAX_BATCH_LEN {
        return Err(format!("its copy is longer than a batch may be, {MAX_BATCH_LEN} UTF-16 units"));
    }
    Ok(lines)
}

/// Another for each fork, so that no fork makes an id of its origin again; the same for the same fork.
fn seed(state: &State, conversation_id: &str) -> Rc<str> {
    let mut hash = Sha256::new();
    hash.update(state.revision.to_le_bytes());
    hash.update((conversation_id.len() as u64).to_le_bytes());
    hash.update(conversation_id.as_bytes());
    hash.update(state.created.seed.as_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn copies(state: &State) -> Vec<Entry> {
    let mut entries: Vec<_> = state.turns.iter().map(|t| Entry::TurnCopied(TurnCopied { turn: t.clone() })).collect();
    for (message, consumed_by) in state.messages.iter().zip(&state.consumed_by) {
        entries.push(Entry::MessageCopied(MessageCopied {
            message_id: message.id.clone(),
            participant_id: message.participant_id.clone(),
            content: message.content.clone(),
            turn_id: message.turn_id.clone(),
            group_id: message.group_id.clone(),
            consumed_by: consumed_by.and_then(|position| state.participant_id(position).cloned()),
        }));
    }
    for (position, member) in state.members.iter().enumerate() {
        if let Some(checkpoint) = &member.checkpoint {
            copy_checkpoint(state.participant_id(position).cloned(), checkpoint, &mut entries);
        }
    }
    if let Some(checkpoint) = &state.selector_checkpoint {
        copy_checkpoint(None, checkpoint, &mut entries);
    }
    entries
}

/// In as many parts as keep each entry within its bound; parts before the last have no head of their own.
fn copy_checkpoint(participant_id: Option<Id>, checkpoint: &Checkpoint, entries: &mut Vec<Entry>) {
    let Checkpoint { version, data, append } = checkpoint;
    let mut push = |data: CanonicalJson, append: Vec<CanonicalJson>| {
        let append = (!append.is_empty()).then_some(append);
        let checkpoint = Checkpoint { version: version.clone(), data, append };
        entries.push(Entry::CheckpointCopied(CheckpointCopied { participant_id: participant_id.clone(), checkpoint }));
    };
    let (mut part, mut len) = (Vec::new(), 0);
    for value in append.iter().flatten() {
        len += value.as_str().len();
        if len > PART_LEN && !part.is_empty() {
            push(CanonicalJson::of(&Json::Null), std::mem::take(&mut part));
            len = value.as_str().len();
        }
        part.push(value.clone());
    }
    push(data.clone(), part);
}

/// Takes over what the first entry says of the origin.
pub(super) fn begin(state: &mut State) -> Result<(), Refusal> {
    let created = state.created.clone();
    let Some(origin) = &created.origin else { return Ok(()) };
    if origin.members.len() != state.members.len() {
        return refuse("the origin has other participants");
    }
    for (position, (member, copied)) in state.members.iter_mut().zip(origin.members.iter()).enumerate() {
        let is_agent = created.participants.get(position).is_some_and(|p| p.agent.is_some());
        if copied.cursor > origin.messages || (!is_agent && copied != &CopiedMember { cursor: 0, prepared: 0 }) {
            return refuse("a participant has read or said what there is not");
        }
        member.cursor = usize::try_from(copied.cursor).map_err(|_| "a cursor is too large".to_owned())?;
        member.prepared = copied.prepared;
    }
    if origin.conversation_id == created.conversation_id || origin.revision == 0 {
        return refuse("a fork has an origin, and not itself");
    }
    if origin.entries < origin.messages {
        return refuse("there are more messages than entries");
    }
    if let Some(decision) = &origin.decision {
        if origin.decisions == 0 {
            return refuse("a decision is not counted");
        }
        state.check_selection(decision)?;
    }
    state.decision = origin.decision.clone();
    state.decisions = origin.decisions;
    Ok(())
}

/// Copies stand in the first batch of a fork, before everything else and as many as were announced.
pub(super) fn check_place(state: &State, entry: &Entry, revision: u64) -> Result<(), Refusal> {
    let is_copy = matches!(entry, Entry::TurnCopied(_) | Entry::MessageCopied(_) | Entry::CheckpointCopied(_));
    let Some(origin) = &state.created.origin else {
        return if is_copy { refuse("the conversation is no fork") } else { Ok(()) };
    };
    // The first entry is counted too.
    let is_due = state.entries <= origin.entries;
    if is_due != is_copy || (is_copy && revision != 1) {
        return refuse("a fork's first batch copies its origin, and nothing else does");
    }
    if !is_copy && (state.messages.len() as u64) < origin.messages {
        return refuse("a message of the origin was not copied");
    }
    Ok(())
}

/// Refuses a first batch that ends before the copy does.
pub(super) fn check_whole(state: &State) -> Result<(), Refusal> {
    match &state.created.origin {
        Some(origin) if state.entries <= origin.entries => refuse("the copy of the origin is not whole"),
        _ => Ok(()),
    }
}

pub(super) fn turn(state: &mut State, entry: &TurnCopied) -> Result<(), Refusal> {
    if state.position(&entry.turn.participant_id).is_none() {
        return refuse("a copied turn is of no participant");
    }
    if !state.messages.is_empty() {
        return refuse("turns are copied before messages");
    }
    state.use_id(&entry.turn.id)?;
    state.used_ids.insert(entry.turn.group_id.clone());
    state.turns.push(entry.turn.clone());
    Ok(())
}

pub(super) fn message(state: &mut State, entry: &MessageCopied, revision: u64) -> Result<(), Refusal> {
    if state.created.origin.as_ref().is_none_or(|origin| state.messages.len() as u64 >= origin.messages) {
        return refuse("there is one message more than the origin had");
    }
    if state.position(&entry.participant_id).is_none() {
        return refuse("a copied message is of no participant");
    }
    let consumed_by = match &entry.consumed_by {
        None => None,
        Some(id) => Some(state.position(id).filter(|p| state.is_agent(*p)).ok_or("no agent consumed the message")?),
    };
    state.use_id(&entry.message_id)?;
    // Several messages share a turn and a group.
    state.used_ids.extend([entry.turn_id.clone(), entry.group_id.clone()]);
    state.messages.push(Rc::new(Message {
        id: entry.message_id.clone(),
        participant_id: entry.participant_id.clone(),
        content: entry.content.clone(),
        revision,
        turn_id: entry.turn_id.clone(),
        group_id: entry.group_id.clone(),
    }));
    state.consumed_by.push(consumed_by);
    state.messages_revision = revision;
    Ok(())
}

pub(super) fn checkpoint(state: &mut State, entry: &CheckpointCopied) -> Result<(), Refusal> {
    let copied = &entry.checkpoint;
    let Some(id) = &entry.participant_id else {
        if matches!(state.created.selector, Selector::RoundRobin) {
            return refuse("the built-in policy has no checkpoint");
        }
        state.selector_checkpoint = Some(Checkpoint::joined(state.selector_checkpoint.take(), copied));
        return Ok(());
    };
    let Some(position) = state.position(id) else {
        return refuse("a copied checkpoint is of no participant");
    };
    check_version(state, position, copied)?;
    if let Some(member) = state.members.get_mut(position) {
        member.checkpoint = Some(Checkpoint::joined(member.checkpoint.take(), copied));
    }
    Ok(())
}
