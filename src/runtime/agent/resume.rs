//! Continuing a turn that waited or was stopped: its rounds, rebuilt from the records of its execution alone,
//! and the answers, each held against the action on record.

use super::AgentLoop;
use super::coded::CodedMessage;
use super::protocol::{Effect, ExecutionRecord, RecordBody, ToolOutcome, TurnContinue, TurnFailure, TurnResume};
use super::round::{Stage, ToolRound};
use super::turn::{Phase, Turn, id_base, input_message};
use crate::runtime::codec::Value;
use crate::runtime::config::AgentConfig;
use crate::runtime::outcome::outcome_of;
use crate::runtime::session::Session;
use crate::runtime::session::approval::{Answer, read_answers, request_id};
use crate::runtime::session::records::{Recorded, RecordedAnswer, read_records};
use crate::runtime::tool::{IdempotencyKeys, ToolFault};
use crate::value::Json;

impl AgentLoop {
    pub(super) fn resume(&mut self, resume: &TurnResume) -> Vec<Effect> {
        let rebuilt = self.rebuild_waiting(resume);
        self.begin(rebuilt)
    }

    /// Goes on with a turn that was stopped.
    pub(super) fn continue_turn(&mut self, stopped: &TurnContinue) -> Vec<Effect> {
        if let Err(failure) = self.check_not_waiting() {
            return vec![Effect::Fail(failure)];
        }
        let rebuilt = self.rebuild_stopped(stopped);
        self.begin(rebuilt)
    }

    fn rebuild_waiting(&self, resume: &TurnResume) -> Result<(Turn, Vec<Effect>), TurnFailure> {
        let nothing = || TurnFailure::IdentityMismatch("nothing waits for an answer".to_owned());
        let session = self.session.as_ref().ok_or_else(nothing)?;
        let pending = session.pending.as_ref().ok_or_else(nothing)?;
        let answers = read_answers(session, pending, resume)?;
        if resume.records.is_empty() {
            return Err(TurnFailure::JournalMissing);
        }
        let source = Source {
            turn_id: &resume.turn_id,
            attempt_id: &resume.attempt_id,
            execution_id: &pending.execution_id,
            records: &resume.records,
            asked: &pending.request_ids,
            retried: resume.retried,
            at: resume.at,
        };
        let mut execution = Execution::read(&self.config, session, &source)?;
        execution.reopen_asked();
        let new_answers = execution.take_answers(answers)?;
        execution.ask_again();
        execution.restart_unfinished()?;
        execution.into_turn(new_answers)
    }

    /// What cannot be continued is for the host to decide: effects are on record, and no other attempt may
    /// make them again.
    fn rebuild_stopped(&self, stopped: &TurnContinue) -> Result<(Turn, Vec<Effect>), TurnFailure> {
        let unwritten = || TurnFailure::IdentityMismatch("only a session writes its turns down".to_owned());
        let session = self.session.as_ref().ok_or_else(unwritten)?;
        let source = Source {
            turn_id: &stopped.turn_id,
            attempt_id: &stopped.attempt_id,
            execution_id: &stopped.execution_id,
            records: &stopped.records,
            asked: &[],
            retried: stopped.retried,
            at: stopped.at,
        };
        let rebuild = || {
            let mut execution = Execution::read(&self.config, session, &source)?;
            execution.restart_unfinished()?;
            execution.into_turn(Vec::new())
        };
        rebuild().map_err(|failure| match failure {
            TurnFailure::RecoveryInvalid(_) | TurnFailure::IdentityMismatch(_) => {
                TurnFailure::RecoveryRequired(format!("tools of this turn were started, and {failure}"))
            }
            failure => failure,
        })
    }
}

/// An execution that goes on, and where its records are from.
struct Source<'a> {
    turn_id: &'a str,
    attempt_id: &'a str,
    execution_id: &'a str,
    records: &'a [Json],
    /// The requests that wait, in the order they were made.
    asked: &'a [String],
    retried: bool,
    at: f64,
}

/// An execution as its records tell it.
struct Execution<'a> {
    config: &'a AgentConfig,
    source: &'a Source<'a>,
    messages: Vec<CodedMessage>,
    rounds: u32,
    calls: u32,
    keys: IdempotencyKeys,
    /// The call whose reply is due.
    calling: Option<String>,
    /// Rounds whose calls all have their results.
    closed: Vec<ToolRound>,
    current: Option<Current>,
    answers: Vec<RecordedAnswer>,
}

/// The last reply.
struct Current {
    call_id: String,
    reply: CodedMessage,
    /// Its tool calls; none where it is the last word.
    round: Option<ToolRound>,
    /// As they were before it.
    keys: IdempotencyKeys,
}

impl<'a> Execution<'a> {
    fn read(config: &'a AgentConfig, session: &Session, source: &'a Source<'a>) -> Result<Self, TurnFailure> {
        let records =
            read_records(&session.id, source.execution_id, source.records).map_err(TurnFailure::RecoveryInvalid)?;
        let mut records = records.into_iter();
        let Some(Recorded::Start { turn_id, input }) = records.next() else {
            return invalid("they do not begin with the start of the execution");
        };
        if turn_id != source.turn_id {
            return Err(TurnFailure::IdentityMismatch("the execution is of another turn".to_owned()));
        }
        let input = input_message(source.execution_id, input, source.at)?;
        let mut execution = Execution {
            config,
            source,
            messages: vec![input],
            rounds: 0,
            calls: 0,
            keys: IdempotencyKeys::default(),
            calling: None,
            closed: Vec::new(),
            current: None,
            answers: Vec::new(),
        };
        for record in records {
            execution.apply(record)?;
        }
        match source.asked.iter().all(|id| execution.find(id).is_some()) {
            true => Ok(execution),
            false => invalid("they do not hold what the checkpoint says is waiting"),
        }
    }

    fn apply(&mut self, record: Recorded) -> Result<(), TurnFailure> {
        match record {
            Recorded::Start { .. } => invalid("the execution starts twice"),
            Recorded::Request { call_id, provider_id, model_id } => {
                if provider_id != self.config.provider_name || model_id != self.config.model {
                    return invalid("a model call went to another provider or model");
                }
                self.close_reply()?;
                self.calls += 1;
                self.calling = Some(call_id);
                Ok(())
            }
            Recorded::Failure => Ok(()),
            Recorded::Reply { call_id, response, cached } => {
                if cached {
                    self.close_reply()?;
                    self.calls += 1;
                } else if self.calling.as_deref() != Some(call_id.as_str()) {
                    // The late reply to a call that another has taken the place of.
                    return Ok(());
                }
                self.calling = None;
                self.take_reply(call_id, &response)
            }
            Recorded::Intent { tool_call_id, tool_name, arguments, idempotency_key } => {
                let (round, index) = self.open_call(&tool_call_id)?;
                let same = round.run(index).is_some_and(|(run, name)| {
                    name == tool_name
                        && run.idempotency_key == idempotency_key
                        && run.arguments.canonical() == arguments.canonical()
                });
                if !same {
                    return invalid("a tool was run with something else than the model asked for");
                }
                if !matches!(round.stage(index), Some(Stage::Open | Stage::Approved)) {
                    return invalid("a tool was begun whose call was denied, was begun already, or has its result");
                }
                round.begin_before(index);
                Ok(())
            }
            Recorded::Result { tool_call_id, result } => {
                let at = self.source.at;
                let (round, index) = self.open_call(&tool_call_id)?;
                if matches!(round.stage(index), Some(Stage::Done(_))) {
                    return invalid("a tool call has two results");
                }
                if !round.was_begun(index) && round.run(index).is_some() && !ToolFault::is_refusal(&result) {
                    return invalid("a tool has a result and was not begun");
                }
                round.settle(index, ToolOutcome::Returned(result), at);
                Ok(())
            }
            Recorded::Answer(answer) => {
                if self.answers.contains(&answer) {
                    return Ok(());
                }
                if self.answers.iter().any(|known| known.excludes(&answer)) {
                    return invalid("a request has two answers, or two requests have one");
                }
                let open = self.current.as_mut().and_then(|current| current.round.as_mut());
                let found = open.and_then(|round| Some((round.position_of_request(&answer.request_id)?, round)));
                let Some((index, round)) = found.filter(|(index, round)| round.run(*index).is_some()) else {
                    return invalid("an answer is to no request");
                };
                // A tool that was begun before the answer may have run again since.
                if !(answer.approved && matches!(round.stage(index), Some(Stage::Running))) {
                    round.set_stage(index, answered(answer.approved, answer.reason.as_deref()));
                }
                self.answers.push(answer);
                Ok(())
            }
        }
    }

    /// A further call follows: the last reply's calls have their results. A reply of which nothing came
    /// arrived late, when the further call was already decided on.
    fn close_reply(&mut self) -> Result<(), TurnFailure> {
        match self.current.take() {
            None => {}
            Some(Current { reply, round: Some(round), .. }) if round.is_settled() => {
                self.messages.push(reply);
                self.messages.extend(round.clone().into_results());
                self.closed.push(round);
            }
            Some(Current { round, keys, .. }) if round.as_ref().is_none_or(ToolRound::is_untouched) => {
                self.keys = keys;
                self.rounds -= 1;
            }
            Some(_) => return invalid("a model call follows a tool call without a result"),
        }
        Ok(())
    }

    fn take_reply(&mut self, call_id: String, response: &Value) -> Result<(), TurnFailure> {
        let reply =
            CodedMessage::reply(response, &call_id).map_err(|error| TurnFailure::RecoveryInvalid(error.to_string()))?;
        let keys = self.keys.clone();
        let round = reply.calls_tools().then(|| {
            let calls = &reply.message.tool_calls;
            ToolRound::open(self.config, &mut self.keys, self.source.turn_id, &call_id, calls)
        });
        self.rounds += 1;
        self.current = Some(Current { call_id, reply, round, keys });
        Ok(())
    }

    fn open_call(&mut self, tool_call_id: &str) -> Result<(&mut ToolRound, usize), TurnFailure> {
        let round = self.current.as_mut().and_then(|current| current.round.as_mut());
        let found = round.and_then(|round| Some((round.position(tool_call_id)?, round)));
        found.map_or_else(|| invalid("a tool was run that no reply asked for"), |(index, round)| Ok((round, index)))
    }

    /// The round and the call that a request is about.
    fn find(&self, request_id: &str) -> Option<(&ToolRound, usize)> {
        let current = self.current.iter().filter_map(|current| current.round.as_ref());
        let found = |round: &'_ ToolRound| round.position_of_request(request_id).filter(|i| round.run(*i).is_some());
        self.closed.iter().chain(current).find_map(|round| Some((round, found(round)?)))
    }

    /// A tool that was begun and then asked about has waited since, until the answer is on record.
    fn reopen_asked(&mut self) {
        let Some(round) = self.current.as_mut().and_then(|current| current.round.as_mut()) else { return };
        for id in self.source.asked {
            if let Some(index) = round.position_of_request(id)
                && matches!(round.stage(index), Some(Stage::Running))
                && self.answers.iter().all(|answer| answer.request_id != *id)
            {
                round.set_stage(index, Stage::Open);
            }
        }
    }

    /// Holds the answers against the actions on record, and takes those that are new.
    fn take_answers(&mut self, answers: Vec<Answer>) -> Result<Vec<RecordedAnswer>, TurnFailure> {
        let mut new = Vec::new();
        for answer in answers {
            let Answer { request_id, response_id, approved, reason, data } = answer;
            let action = self.find(&request_id).and_then(|(round, i)| round.action(i, self.source.execution_id));
            let same = action.is_some_and(|action| action.request().data.canonical() == data.canonical());
            if !same {
                return Err(TurnFailure::IdentityMismatch("an answer is about another action".to_owned()));
            }
            let answer = RecordedAnswer { request_id, response_id, approved, reason };
            if self.answers.contains(&answer) {
                continue;
            }
            if self.answers.iter().chain(&new).any(|known| known.excludes(&answer)) {
                return conflict("the request has another answer, or the answer's id belongs to another");
            }
            let open = self.current.as_mut().and_then(|current| current.round.as_mut());
            let found = open.and_then(|round| Some((round.position_of_request(&answer.request_id)?, round)));
            let Some((index, round)) = found.filter(|(index, round)| matches!(round.stage(*index), Some(Stage::Open)))
            else {
                return conflict("the execution went on without this answer");
            };
            round.set_stage(index, answered(answer.approved, answer.reason.as_deref()));
            new.push(answer);
        }
        Ok(new)
    }

    /// What was asked and has no answer keeps waiting.
    fn ask_again(&mut self) {
        let Some(round) = self.current.as_mut().and_then(|current| current.round.as_mut()) else { return };
        for id in self.source.asked {
            if let Some(index) = round.position_of_request(id)
                && matches!(round.stage(index), Some(Stage::Open))
            {
                round.set_stage(index, Stage::Asking);
            }
        }
    }

    /// A tool that was about to run and has no result is not run again, unless that does no harm or a host
    /// has decided it. Who said yes to it has done so still; what a policy alone allowed is for the present policy.
    fn restart_unfinished(&mut self) -> Result<(), TurnFailure> {
        let Some(round) = self.current.as_mut().and_then(|current| current.round.as_mut()) else { return Ok(()) };
        let unfinished: Vec<(usize, usize, String)> =
            round.running().into_iter().map(|run| (run.index, run.tool, run.tool_call_id.clone())).collect();
        for (index, tool, tool_call_id) in unfinished {
            match self.config.tools.get(tool) {
                Some(tool) if tool.idempotent || self.source.retried => {
                    let request = request_id(&round.call_id, index);
                    let approved = self.answers.iter().any(|answer| answer.approved && answer.request_id == request);
                    round.set_stage(index, if approved { Stage::Approved } else { Stage::Open });
                }
                tool => {
                    let name = tool.map_or("", |tool| tool.name.as_str());
                    return Err(TurnFailure::RecoveryRequired(format!(
                        "the tool {name} was started (tool call {tool_call_id}) and nobody knows what came of it"
                    )));
                }
            }
        }
        Ok(())
    }

    fn into_turn(self, answers: Vec<RecordedAnswer>) -> Result<(Turn, Vec<Effect>), TurnFailure> {
        let Execution { config, source, .. } = self;
        let mut turn = Turn {
            turn_id: source.turn_id.to_owned(),
            execution_id: Some(source.execution_id.to_owned()),
            id_base: id_base(source.attempt_id),
            rounds: self.rounds,
            calls: self.calls,
            coded: Vec::new(),
            keys: self.keys,
            phase: Phase::Stepping,
            stopping: None,
        };
        let mut messages = self.messages;
        let Some(Current { call_id, reply, round, .. }) = self.current else {
            let effects = turn.next_round(config, messages);
            return Ok((turn, effects));
        };
        let Some(round) = round else {
            turn.phase = Phase::Flushing(outcome_of(reply.text()));
            messages.push(reply);
            let effects = vec![turn.extend(messages), Effect::Flush];
            return Ok((turn, effects));
        };
        messages.push(reply);
        let mut effects = vec![turn.extend(messages)];
        effects.extend(answers.into_iter().filter_map(|answer| {
            let index = round.position_of_request(&answer.request_id)?;
            Some(Effect::Record(ExecutionRecord::of_tool(&call_id, index, RecordBody::Answer(answer))))
        }));
        effects.extend(turn.continue_round(config, round, source.at)?);
        Ok((turn, effects))
    }
}

fn answered(approved: bool, reason: Option<&str>) -> Stage {
    if approved { Stage::Approved } else { Stage::Denied(reason.map(str::to_owned)) }
}

fn invalid<T>(reason: &str) -> Result<T, TurnFailure> {
    Err(TurnFailure::RecoveryInvalid(reason.to_owned()))
}

fn conflict<T>(reason: &str) -> Result<T, TurnFailure> {
    Err(TurnFailure::RecoveryConflict(reason.to_owned()))
}
