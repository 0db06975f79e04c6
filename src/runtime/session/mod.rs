//! What a permission-gated session adds to the agent loop: who it is, what it waits for, which calls it
//! may make, and the checkpoint that brings it back. The loop itself is [`super::agent::AgentLoop`].

pub mod approval;
pub mod checkpoint;
pub mod permission;
pub mod records;
pub mod wire;

use crate::value::Json;
use crate::value::bounds::MAX_ID;
use crate::value::hash::sha256_hex;
use crate::value::text::utf16_len;

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionIdentity {
    /// The conversation.
    pub conversation_id: String,
    /// The participant it speaks for.
    pub participant_id: String,
    /// What a checkpoint must match, such as a working directory; may be empty.
    pub environment: String,
    /// Whether it may take over the history of a session of another conversation.
    pub forked: bool,
    /// Whether it is a conversation's, which is forked only where none of it waits.
    pub placed: bool,
}

/// An execution that waits for answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The attempt that parked it first.
    pub execution_id: String,
    /// The open requests, in the order they were made.
    pub request_ids: Vec<String>,
}

/// A session beside its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whose it is.
    pub identity: SessionIdentity,
    /// Derived from the conversation and the participant.
    pub id: String,
    /// What it waits for.
    pub pending: Option<Pending>,
}

impl Session {
    /// A session that waits for nothing.
    #[must_use]
    pub fn new(identity: SessionIdentity) -> Self {
        let id = session_id(&identity.conversation_id, &identity.participant_id);
        Session { identity, id, pending: None }
    }
}

/// The JSON of both ids, which no other two share; its hash where that is longer than an id may be.
fn session_id(conversation_id: &str, participant_id: &str) -> String {
    let text = |text: &str| Json::String(text.to_owned());
    let id = Json::Array(vec![text(conversation_id), text(participant_id)]).canonical();
    if utf16_len(&id) <= MAX_ID { id } else { sha256_hex(&id) }
}
