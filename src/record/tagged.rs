//! How shapes are read that name their kind in one of their members: all members first, then whether they
//! are exactly those of the kind. The derived way, which keeps a copy of the whole value for each kind it
//! might be, takes several times the code.

use super::model::{
    Checkpoint, Decision, Id, InputResponse, LimitReason, Outcome, ParticipantRequest, Response, RunOutcome, Selection,
};
use crate::value::CanonicalJson;
use std::rc::Rc;

const MISFIT: &str = "members that are not those of the kind";

pub(super) struct AnyDecision {
    pub(super) kind: Rc<str>,
    pub(super) outcome: Option<Outcome>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) message: Option<Rc<str>>,
}

impl TryFrom<AnyDecision> for Decision {
    type Error = &'static str;

    fn try_from(any: AnyDecision) -> Result<Self, Self::Error> {
        Ok(match (&*any.kind, any.outcome, any.checkpoint, any.message) {
            ("retry", None, None, None) => Decision::Retry,
            ("settle", Some(outcome), checkpoint, None) => Decision::Settle { outcome, checkpoint },
            ("fail", None, None, Some(message)) => Decision::Fail { message },
            _ => return Err(MISFIT),
        })
    }
}

pub(super) struct AnySelection {
    pub(super) kind: Rc<str>,
    pub(super) participant_id: Option<Id>,
    pub(super) participant_ids: Option<Rc<[Id]>>,
    pub(super) reason: Option<Rc<str>>,
}

impl TryFrom<AnySelection> for Selection {
    type Error = &'static str;

    fn try_from(any: AnySelection) -> Result<Self, Self::Error> {
        Ok(match (&*any.kind, any.participant_id, any.participant_ids, any.reason) {
            ("speak", Some(participant_id), None, None) => Selection::Speak { participant_id },
            ("parallel", None, Some(participant_ids), None) => Selection::Parallel { participant_ids },
            ("wait", Some(participant_id), None, Some(reason)) => Selection::Wait { participant_id, reason },
            ("finish", None, None, Some(reason)) => Selection::Finish { reason },
            _ => return Err(MISFIT),
        })
    }
}

pub(super) struct AnyOutcome {
    pub(super) kind: Rc<str>,
    pub(super) content: Option<Rc<str>>,
    pub(super) requests: Option<Vec<ParticipantRequest>>,
    pub(super) message: Option<Rc<str>>,
}

impl TryFrom<AnyOutcome> for Outcome {
    type Error = &'static str;

    fn try_from(any: AnyOutcome) -> Result<Self, Self::Error> {
        Ok(match (&*any.kind, any.content, any.requests, any.message) {
            ("speak", Some(content), None, None) => Outcome::Speak { content },
            ("yield", None, None, None) => Outcome::Yield,
            ("wait", None, Some(requests), None) => Outcome::Wait { requests },
            ("failed", None, None, Some(message)) => Outcome::Failed { message },
            _ => return Err(MISFIT),
        })
    }
}

pub(super) struct AnyResponse {
    pub(super) kind: Rc<str>,
    pub(super) content: Option<Rc<str>>,
    pub(super) declined: Option<bool>,
    pub(super) approved: Option<bool>,
    pub(super) reason: Option<Rc<str>>,
    pub(super) data: Option<CanonicalJson>,
}

impl TryFrom<AnyResponse> for Response {
    type Error = &'static str;

    fn try_from(any: AnyResponse) -> Result<Self, Self::Error> {
        let AnyResponse { kind, content, declined, approved, reason, data } = any;
        Ok(match (&*kind, content, declined, approved, reason, data) {
            ("input", Some(content), None, None, None, None) => Response::Input(InputResponse::Said { content }),
            ("input", None, Some(declined), None, reason, None) => {
                Response::Input(InputResponse::Declined { declined, reason })
            }
            ("approval", None, None, Some(approved), reason, None) => Response::Approval { approved, reason },
            ("reconciliation", None, None, None, None, Some(data)) => Response::Reconciliation { data },
            _ => return Err(MISFIT),
        })
    }
}

pub(super) struct AnyRunOutcome {
    pub(super) kind: Rc<str>,
    pub(super) reason: Option<Rc<str>>,
    pub(super) message: Option<Rc<str>>,
    pub(super) code: Option<Rc<str>>,
}

impl TryFrom<AnyRunOutcome> for RunOutcome {
    type Error = &'static str;

    fn try_from(any: AnyRunOutcome) -> Result<Self, Self::Error> {
        Ok(match (&*any.kind, any.reason, any.message, any.code) {
            ("completed", Some(reason), None, None) => RunOutcome::Completed { reason },
            ("failed", None, Some(message), code) => RunOutcome::Failed { message, code },
            ("limited", Some(reason), None, None) => RunOutcome::Limited { reason: limit(&reason)? },
            ("cancelled", None, None, None) => RunOutcome::Cancelled,
            ("waiting", None, None, None) => RunOutcome::Waiting,
            _ => return Err(MISFIT),
        })
    }
}

fn limit(reason: &str) -> Result<LimitReason, &'static str> {
    Ok(match reason {
        "turns" => LimitReason::Turns,
        "time" => LimitReason::Time,
        "model-calls" => LimitReason::ModelCalls,
        "tokens" => LimitReason::Tokens,
        _ => return Err("a limit there is not"),
    })
}
