//! What follows from a state. Pure, and asked only of settled states.

use super::event::Order;
use super::state::{State, Status};
use crate::record::model::Id;
use std::rc::Rc;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: turns are in flight.
    Wait,
    /// Members failed; by position, with their codes.
    Fail(Vec<(Id, Rc<str>)>),
    /// A member is paused; the first one's reason.
    Pause(Rc<str>),
    /// A member wants a turn beyond its cap.
    TurnLimit(Id),
    /// These members have the next turns.
    Dispatch(Vec<usize>),
    /// Nobody wants a turn.
    Complete,
}

impl State {
    /// The decision of this state.
    #[must_use]
    pub fn decide(&self) -> Decision {
        if self.all(|member| member.status == Status::InFlight).next().is_some() {
            return Decision::Wait;
        }
        let failed = self.members.iter().enumerate().filter_map(|(at, member)| match &member.status {
            Status::Failed { code } => Some((self.id(at), code.clone())),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            return Decision::Fail(failed);
        }
        let paused = self.members.iter().find_map(|member| match &member.status {
            Status::Paused { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        if let Some(reason) = paused {
            return Decision::Pause(reason);
        }
        if let Some((at, _)) = self.all(|member| member.queued && member.turns >= self.definition.cap).next() {
            return Decision::TurnLimit(self.id(at));
        }
        let mut queued: Vec<(usize, usize)> = self
            .all(|member| member.queued)
            // A turn that no message asked for has waited since the beginning.
            .map(|(at, member)| {
                (
                    member
                        .triggers
                        .first()
                        .filter(|_| member.turns > 0 || !self.starts(at))
                        .map_or(0, |first| first + 1),
                    at,
                )
            })
            .collect();
        if queued.is_empty() {
            return Decision::Complete;
        }
        if self.created.options.order == Order::OldestTrigger {
            queued.sort_unstable();
        }
        let slots = usize::try_from(self.definition.concurrency).unwrap_or(usize::MAX);
        Decision::Dispatch(queued.into_iter().take(slots).map(|(_, at)| at).collect())
    }

    /// Whether a member has a turn from the beginning.
    fn starts(&self, member: usize) -> bool {
        self.definition.members.get(member).is_some_and(|member| member.initial_turn)
    }
}
