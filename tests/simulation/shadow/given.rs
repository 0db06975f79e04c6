//! What people give: answers, withdrawals, words that nobody asked for.

use super::{Given, Shadow, Stage, Verdict, rule};
use agent_roundtable::record::entry::{Answered, Door, InputAccepted, Withdrawn};
use agent_roundtable::record::model::{Id, InputResponse, Outcome, RequestKind, Response};
use std::rc::Rc;

impl Shadow {
    pub(super) fn answered(&mut self, answered: &Answered) -> Verdict {
        let said = match &answered.response {
            Response::Input(InputResponse::Said { content }) => Some(content.clone()),
            _ => None,
        };
        rule(said.is_some() == answered.message_id.is_some(), "a message id exactly where something is said")?;
        if let Some(id) = &answered.message_id {
            self.fresh(id)?;
        }
        let of_input = answered.via == Door::Resume || matches!(answered.response, Response::Input(_));
        rule(of_input, "`submitInput` answers only input requests")?;
        let by = self.close(&answered.request_id, &answered.response_id, &answered.response)?;
        let ask = self.requests.get_mut(&answered.request_id).ok_or("no such request")?;
        ask.message_id = answered.message_id.clone();
        let given = Given {
            by,
            request: Some(answered.request_id.clone()),
            response: answered.response.clone(),
            revision: self.revision,
            message_id: answered.message_id.clone(),
        };
        self.given.insert(answered.response_id.clone(), given);
        self.settle_selection_group(&answered.request_id, said);
        Ok(())
    }

    pub(super) fn withdrawn(&mut self, withdrawn: &Withdrawn) -> Verdict {
        let reason = Some(withdrawn.reason.clone());
        let response = match self.requests.get(&withdrawn.request_id).ok_or("no such request")?.request.kind {
            RequestKind::Approval => Response::Approval { approved: false, reason },
            _ => Response::Input(InputResponse::Declined { declined: true, reason }),
        };
        self.close(&withdrawn.request_id, &withdrawn.response_id, &response)?;
        self.settle_selection_group(&withdrawn.request_id, None);
        Ok(())
    }

    pub(super) fn close(&mut self, request: &Id, response_id: &Id, response: &Response) -> Result<Id, String> {
        self.fresh(response_id)?;
        let revision = self.revision;
        let ask = self.requests.get_mut(request).ok_or("no such request")?;
        rule(ask.answer.is_none(), "C28: a request is answered once")?;
        ask.answer = Some((response_id.clone(), response.clone()));
        ask.changed = revision;
        Ok(ask.request.participant_id.clone())
    }

    /// C30a: the answer to a selection's request is the result of its turn.
    pub(super) fn settle_selection_group(&mut self, request: &Id, said: Option<Rc<str>>) {
        if let Some(group) = self.group.as_mut().filter(|group| group.asks.as_ref() == Some(request)) {
            group.turns[0].stage = Stage::Prepared;
            group.turns[0].outcome = Some(said.map_or(Outcome::Yield, |content| Outcome::Speak { content }));
        }
    }

    pub(super) fn input_accepted(&mut self, input: &InputAccepted) -> Verdict {
        rule(self.group.is_none(), "C23: no unprompted input while a group is unfinished")?;
        rule(self.is_external(&input.participant_id), "C20: only an external participant")?;
        for id in [&input.input_id, &input.message_id, &input.group_id, &input.turn_id] {
            self.fresh(id)?;
        }
        let given = Given {
            by: input.participant_id.clone(),
            request: None,
            response: Response::Input(InputResponse::Said { content: input.content.clone() }),
            revision: self.revision,
            message_id: Some(input.message_id.clone()),
        };
        self.given.insert(input.input_id.clone(), given);
        let (id, content) = (input.message_id.clone(), input.content.clone());
        self.publish(id, &input.participant_id, content, &input.turn_id, &input.group_id)
    }
}
