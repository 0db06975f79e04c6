//! The host of one session of the engine: performs what its machine asks for, as the shell does. A turn that is
//! stopped ends at once, or when the tools that must not run twice are done; what else is under way settles later.

use super::outside::{Outside, Planted, TOOLS};
use super::{model, order};
use crate::executor::{First, Promise, race};
use crate::host::{Attempt, SimHost, TicketResult};
use crate::member::thrown;
use agent_roundtable::conversation::effect::{ServiceRefusal, TurnView};
use agent_roundtable::conversation::error::{Code, Thrown};
use agent_roundtable::record::model::{
    Checkpoint, Id, Outcome, ParticipantRequest, ParticipantResponse, RequestKind, Response,
};
use agent_roundtable::runtime::agent::AgentLoop;
use agent_roundtable::runtime::message::ChatMessage;
use agent_roundtable::runtime::session::permission::Verdict;
use agent_roundtable::runtime::wire::{checkpoint_json, handle, open as open_agent};
use agent_roundtable::value::{CanonicalJson, Json};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// An open session.
pub struct Live {
    agent: RefCell<AgentLoop>,
    /// What the model is shown, coded.
    history: RefCell<Vec<Json>>,
    settled: Cell<usize>,
    /// An execution waits for answers.
    parked: Cell<bool>,
}

pub fn open(conversation_id: &str, participant_id: &str, checkpoint: Option<&Checkpoint>) -> Result<Live, Thrown> {
    let tool = |(name, idempotent): &(&str, bool)| json!({ "name": name, "description": "", "parameters": { "type": "object" }, "idempotent": idempotent });
    let tools: Vec<_> = TOOLS.iter().map(tool).collect();
    let session = json!({
        "conversationId": conversation_id, "participantId": participant_id, "environment": "", "forked": false,
    });
    let options =
        json!({ "providerName": "p", "providerHasCache": false, "model": "m", "tools": tools, "session": session });
    let checkpoint = checkpoint.map(|saved| serde_json::to_string(saved).unwrap());
    let opened = open_agent(&options.to_string(), checkpoint.as_deref()).map_err(|error| thrown(&error.to_string()))?;
    let history = list(&Json::parse(&opened.restored).unwrap(), "history");
    let (settled, parked) = (Cell::new(history.len()), Cell::new(opened.agent.pending().is_some()));
    Ok(Live { agent: RefCell::new(opened.agent), settled, parked, history: RefCell::new(history) })
}

pub fn checkpoint(live: &Live) -> Checkpoint {
    serde_json::from_str(&checkpoint_json(&live.agent.borrow_mut().take_checkpoint())).unwrap()
}

/// One attempt, from its start or from its answers.
pub async fn run(
    host: &SimHost,
    live: &Rc<Live>,
    turn: &TurnView,
    responses: Option<Vec<ParticipantResponse>>,
) -> Result<Outcome, Thrown> {
    let outside = host.world.outside().unwrap();
    let parked = live.agent.borrow().pending().cloned();
    let pending = parked.as_ref().map(|pending| Id::from(pending.execution_id.as_str()));
    let waits = parked.filter(|_| responses.is_some()).map(|pending| pending.request_ids).unwrap_or_default();
    // A first attempt that began no tool leaves nothing to continue from.
    let began = |id: &&Id| outside.order(id, order::Order::began_tools).unwrap_or(false);
    let stopped = turn.earlier.iter().find(began).filter(|_| responses.is_none()).cloned();
    let execution_id = pending.filter(|_| responses.is_some()).or(stopped.clone());
    let performance = Rc::new(Performance {
        host: host.clone(),
        attempt: host.attempt(&turn.attempt_id),
        turn_id: turn.turn_id.clone(),
        live: live.clone(),
        execution_id: execution_id.unwrap_or_else(|| turn.attempt_id.clone()),
        written: RefCell::default(),
        refused: RefCell::default(),
        outside: outside.clone(),
    });
    let is_uncertain = outside.order(&performance.execution_id, |order| order.is_uncertain(&waits)).unwrap_or(false);
    let is_forgotten = responses.is_some() && performance.records().is_empty();
    let input = performance.first_input(turn, responses, stopped.is_some());
    let result = performance.perform(input).await;
    // The conversation's own journal takes nothing once the attempt is over.
    performance.untold().await;
    performance.check_end(&result, is_uncertain && !outside.is_wanted(&turn.attempt_id), is_forgotten);
    performance.clear_records(&turn.earlier, &result);
    result
}

pub(super) struct Performance {
    pub(super) host: SimHost,
    pub(super) attempt: Rc<Attempt>,
    pub(super) turn_id: Id,
    live: Rc<Live>,
    pub(super) outside: Rc<Outside>,
    pub(super) execution_id: Id,
    /// Records on their way.
    pub(super) written: RefCell<Vec<Rc<Promise<TicketResult>>>>,
    /// What refused a record or an admission first.
    pub(super) refused: RefCell<Option<ServiceRefusal>>,
}

/// How a step went on.
pub(super) enum Next {
    Nothing,
    /// There is something to tell.
    Input(String),
    /// There is more to do.
    Effects(Vec<Json>),
    Ended(Result<Outcome, Thrown>),
}

pub(super) const ABORTED: &str = r#"{"kind":"aborted"}"#;

impl Performance {
    fn first_input(&self, turn: &TurnView, responses: Option<Vec<ParticipantResponse>>, continues: bool) -> String {
        let at = self.host.world.executor.wall_ms();
        let (turn_id, attempt_id, execution_id) = (&*turn.turn_id, &*turn.attempt_id, &*self.execution_id);
        let retried = match self.outside.planted {
            Some(Planted::UnknownRepeated) => true,
            Some(Planted::RetryForgotten) => false,
            _ => turn.retried,
        };
        if responses.is_none() && !continues {
            let mirror = self.host.mirror.borrow();
            let shown: Vec<&str> = turn.messages.iter().map(|at| &*mirror.messages[*at].content).collect();
            let input = format!("{} new: {}", shown.len(), shown.join(" | "));
            return json!({ "kind": "start", "turnId": turn_id, "attemptId": attempt_id, "input": input, "at": at })
                .to_string();
        }
        let records: Vec<String> = self.records().iter().map(|record| record.json.as_str().to_owned()).collect();
        let mut head =
            json!({ "turnId": turn_id, "attemptId": attempt_id, "retried": retried, "at": at, "kind": "continue" });
        match responses {
            None => {
                head["executionId"] = execution_id.into();
                self.note("continued after a stop");
            }
            Some(mut responses) => {
                if self.outside.planted == Some(Planted::DenialTurned) {
                    for given in &mut responses {
                        given.response = Response::Approval { approved: true, reason: None };
                    }
                }
                head["kind"] = "resume".into();
                head["conversationId"] = (*self.host.world.plan.conversation_id).into();
                head["participantId"] = (*self.host.world.plan.roles[turn.participant].id).into();
                head["groupId"] = (*turn.group_id).into();
                head["responses"] = json!(responses);
            }
        }
        let head = head.to_string();
        format!(r#"{},"records":[{}]}}"#, &head[..head.len() - 1], records.join(","))
    }

    async fn perform(self: &Rc<Self>, first: String) -> Result<Outcome, Thrown> {
        let mut effects = VecDeque::from(self.tell(&first));
        while let Some(effect) = effects.pop_front() {
            match self.effect(&effect).await {
                Next::Nothing => {}
                Next::Input(input) => effects.extend(self.tell(&input)),
                Next::Effects(more) => effects.extend(more),
                Next::Ended(result) => return result,
            }
        }
        // Nothing was asked for and nothing is over.
        std::future::pending().await
    }

    async fn effect(self: &Rc<Self>, effect: &Json) -> Next {
        let kind = text(effect, "kind");
        match kind.as_str() {
            "extend" => self.live.history.borrow_mut().extend(list(effect, "messages")),
            "record" => self.write(effect.get("record").unwrap()),
            "speak" | "yield" => {
                self.live.settled.set(self.live.history.borrow().len());
                let content = text(effect, "content");
                let said = if kind == "yield" { Outcome::Yield } else { Outcome::Speak { content: content.into() } };
                return Next::Ended(Ok(said));
            }
            "wait" => {
                self.revert();
                let requests = list(effect, "requests").iter().map(|asked| self.request(asked)).collect();
                return Next::Ended(Ok(Outcome::Wait { requests }));
            }
            "fail" => {
                self.revert();
                // A record that is refused meanwhile belongs to what went wrong.
                self.untold().await;
                return Next::Ended(Err(self.failure(effect)));
            }
            _ if self.is_stopped() && kind != "sync" => return Next::Input(ABORTED.to_owned()),
            "run-tools" => return self.run_tools(list(effect, "runs")).await,
            // What is on its way into the conversation's own journal is waited for.
            "append" | "sync" if !self.outside.forgets => {
                let input = self.write_and_wait(effect).await;
                if !self.is_stopped() {
                    return Next::Input(input);
                }
                let end = self.tell(ABORTED);
                self.tell_late(&input).await;
                return Next::Effects(end);
            }
            "flush" if self.outside.planted == Some(Planted::TurnStuck) => {}
            "flush" => return Next::Input(r#"{"kind":"flushed"}"#.to_owned()),
            _ => return self.work(effect.clone()).await,
        }
        Next::Nothing
    }

    /// What settles in its own time, be the turn over by then or not.
    async fn work(self: &Rc<Self>, effect: Json) -> Next {
        let (task, settling) = (self.clone(), Promise::new());
        let promise = settling.clone();
        let ready = match text(&effect, "kind").as_str() {
            "append" | "sync" => None,
            "permit" => Some(self.permit(&effect)),
            _ => Some(self.call_model(&effect)),
        };
        self.host.world.executor.spawn(async move {
            let world = &task.host.world;
            let input = match ready {
                None => task.write_and_wait(&effect).await,
                Some(input) => {
                    world.executor.sleep(world.pause_ms()).await;
                    input
                }
            };
            promise.set(input);
        });
        match race(settling.wait(), self.attempt.signal.wait()).await {
            First::Left(input) => Next::Input(input),
            First::Right(_) => {
                let end = self.tell(ABORTED);
                let late = self.clone();
                self.host.world.executor.spawn(async move {
                    let input = settling.wait().await;
                    late.tell_late(&input).await;
                });
                Next::Effects(end)
            }
        }
    }

    fn call_model(&self, effect: &Json) -> String {
        let (world, call_id) = (&self.host.world, text(effect, "callId"));
        let mut shown = self.live.history.borrow().clone();
        if self.outside.planted == Some(Planted::HistoryOpen) {
            shown.retain(|message| text(message, "role") != "tool");
        }
        world.demand(order::is_closed(&shown), || format!("S5: a model is shown {shown:?}"));
        let history: Vec<ChatMessage> =
            shown.iter().map(|message| ChatMessage::decode(message, "history").unwrap()).collect();
        if self.outside.seed % 4 != 3 || !world.rng.chance(80) {
            let reply = model::reply(self.outside.seed, &history);
            return format!(r#"{{"kind":"model-replied","callId":"{call_id}","reply":{reply}}}"#);
        }
        world.may_fail.set(true);
        json!({ "kind": "model-failed", "callId": call_id, "message": "no model today" }).to_string()
    }

    fn permit(&self, effect: &Json) -> String {
        let (at, call_id) = (self.host.world.executor.wall_ms(), text(effect, "callId"));
        let calls = list(effect, "calls");
        let verdicts: Vec<&str> = calls.iter().map(|call| self.verdict(&call_id, call).as_str()).collect();
        json!({ "kind": "permitted", "callId": call_id, "verdicts": verdicts, "at": at }).to_string()
    }

    fn verdict(&self, call_id: &str, call: &Json) -> Verdict {
        let id = text(call, "toolCallId");
        let history = self.live.history.borrow();
        let asked = history.iter().rev().map(|message| list(message, "toolCalls")).find(|calls| !calls.is_empty());
        let index = asked.and_then(|calls| calls.iter().position(|known| text(known, "id") == id)).unwrap();
        self.outside.verdict(call_id, index, &text(call, "toolName"))
    }

    /// S8: whatever a session asks for is the approval of a call.
    fn request(&self, request: &Json) -> ParticipantRequest {
        let forged = self.outside.planted == Some(Planted::AskedOtherwise);
        let kind = if forged { "reconciliation".to_owned() } else { text(request, "kind") };
        self.host.world.demand(kind == "approval", || format!("S8: a session asks for {kind:?}"));
        ParticipantRequest {
            id: text(request, "id").into(),
            reason: text(request, "reason").into(),
            kind: RequestKind::Approval,
            participant_id: None,
            data: request.get("data").map(CanonicalJson::of),
        }
    }

    /// S9: a turn is left to the operator exactly where nobody knows what a tool did that must not run twice; and
    /// goes no further where its journal is gone.
    fn check_end(&self, result: &Result<Outcome, Thrown>, is_uncertain: bool, is_forgotten: bool) {
        let world = &self.host.world;
        let left = result.as_ref().is_err_and(Thrown::is_outcome_unknown);
        world.demand(left == (is_uncertain && !is_forgotten), || {
            format!("S9: uncertain: {is_uncertain}, forgotten: {is_forgotten}, and the turn comes to {result:?}")
        });
        if is_forgotten {
            self.note("journal gone");
            world.may_fail.set(true);
            let refused = result.as_ref().is_err_and(|error| error.message.contains("journal-missing"));
            world.demand(refused || self.is_stopped(), || format!("S9: without records a turn comes to {result:?}"));
        }
    }

    /// What is over leaves nothing in the journal of the process.
    fn clear_records(&self, earlier: &[Id], result: &Result<Outcome, Thrown>) {
        let goes_on = match result {
            Ok(outcome) => {
                self.live.parked.set(matches!(outcome, Outcome::Wait { .. }));
                self.live.parked.get()
            }
            Err(error) => self.live.parked.get() || self.is_stopped() || error.is_outcome_unknown(),
        };
        if !goes_on {
            let own = [self.attempt.id.clone(), self.execution_id.clone()];
            self.outside.forget(&[&own[..], earlier].concat());
        }
    }

    /// Tells the loop of what came after the end of its turn, and writes down what it says.
    async fn tell_late(self: &Rc<Self>, input: &str) {
        for effect in self.tell(input) {
            match text(&effect, "kind").as_str() {
                "append" => drop(self.write_and_wait(&effect).await),
                "record" => self.write(effect.get("record").unwrap()),
                _ => {}
            }
        }
        self.untold().await;
    }

    pub(super) fn tell(&self, input: &str) -> Vec<Json> {
        self.host.world.log(|| format!("{} <~ {input}", self.attempt.id));
        let effects = handle(&mut self.live.agent.borrow_mut(), input).unwrap();
        self.host.world.log(|| format!("{} ~> {effects}", self.attempt.id));
        match Json::parse_enclosing(&effects) {
            Ok(Json::Array(effects)) => effects,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.attempt.signal.get().is_some()
    }

    pub(super) fn session_id(&self) -> String {
        self.live.agent.borrow().session_id().unwrap().to_owned()
    }

    pub(super) fn note(&self, what: &str) {
        self.host.world.coverage.borrow_mut().note(what);
    }

    fn revert(&self) {
        self.live.history.borrow_mut().truncate(self.live.settled.get());
    }

    fn failure(&self, effect: &Json) -> Thrown {
        let (code, message) = (text(effect, "code"), text(effect, "message"));
        let refused = self.refused.borrow();
        let journal = (code == "journal-failed").then_some(refused.as_ref()).flatten();
        let named = match code.as_str() {
            "recovery-required" => Some("EXECUTION_RECOVERY_REQUIRED".into()),
            "journal-failed" => Some("EXECUTION_JOURNAL_FAILED".into()),
            _ => None,
        };
        self.note(&format!("turn failed: {code}"));
        Thrown {
            code: named,
            is_abort: code == "aborted" || matches!(journal, Some(ServiceRefusal::Aborted)),
            is_refused_admission: matches!(
                journal,
                Some(ServiceRefusal::Refused(error)) if error.code == Code::ModelCallLimit
            ),
            ..thrown(&format!("{code}: {message}"))
        }
    }
}

pub(super) fn text(json: &Json, key: &str) -> String {
    json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn list(json: &Json, key: &str) -> Vec<Json> {
    match json.get(key) {
        Some(Json::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}
