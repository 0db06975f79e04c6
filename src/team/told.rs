//! Events as observers are told of them.

use super::event::Event;
use super::state::{Message, State, Status};
use crate::record::model::Id;
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// What happened, for an observer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Told<'a> {
    /// A turn was dispatched.
    Dispatched {
        /// Whose.
        node_id: &'a Id,
        /// Which.
        position: &'a Id,
    },
    /// A turn came to a result that was accepted.
    Completed {
        /// Whose.
        node_id: &'a Id,
        /// Which.
        position: &'a Id,
        /// The result.
        result: &'a CanonicalJson,
        /// Its posts.
        messages: Vec<&'a Rc<Message>>,
    },
    /// A turn failed.
    Failed {
        /// Whose.
        node_id: &'a Id,
        /// Which.
        position: &'a Id,
        /// Why.
        code: &'a str,
    },
    /// A turn waits.
    Paused {
        /// Whose.
        node_id: &'a Id,
        /// Which.
        position: &'a Id,
        /// Why.
        reason: &'a str,
    },
    /// A turn goes on.
    Resumed {
        /// Whose.
        node_id: &'a Id,
        /// Which.
        position: &'a Id,
    },
}

impl State {
    /// What observers are told of a batch of this revision, which this state holds.
    #[must_use]
    pub fn told<'a>(&'a self, events: &'a [Event], revision: u64) -> Vec<Told<'a>> {
        events.iter().filter_map(|event| self.tell(event, revision)).collect()
    }

    fn tell<'a>(&'a self, event: &'a Event, revision: u64) -> Option<Told<'a>> {
        Some(match event {
            Event::Dispatched(at) => Told::Dispatched { node_id: &at.node_id, position: &at.position },
            Event::Completed(e) => {
                let (node_id, position) = (&e.node_id, &e.position);
                let member = self.definition.position(node_id).and_then(|at| self.members.get(at));
                if let Some(Status::Failed { code }) = member.map(|member| &member.status) {
                    return Some(Told::Failed { node_id, position, code });
                }
                let later = self.messages.iter().rev().skip_while(|message| message.revision > revision);
                let saved = later.take_while(|message| message.revision == revision);
                let mut messages: Vec<_> = saved.filter(|message| message.position == *position).collect();
                messages.reverse();
                Told::Completed { node_id, position, result: &e.result, messages }
            }
            Event::Failed(e) => Told::Failed { node_id: &e.node_id, position: &e.position, code: &e.code },
            Event::Paused(e) => Told::Paused { node_id: &e.node_id, position: &e.position, reason: &e.reason },
            Event::Resumed(at) => Told::Resumed { node_id: &at.node_id, position: &at.position },
            _ => return None,
        })
    }
}
