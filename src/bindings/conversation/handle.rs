//! The handle that the shell holds.

use super::executor::Executor;
use super::host::{JsHost, timer};
use super::ports::Ports;
use super::record::LoadedRecord;
use super::slots::{Answer, Slots};
use super::wire;
use crate::bindings::crossing::{json, plain};
use crate::conversation::Machine;
use crate::conversation::config::{Config, LimitsPatch};
use crate::conversation::effect::Status;
use crate::conversation::error::{Code, RoundtableError};
use crate::conversation::input::{CallId, Input, Request, Ticket};
use crate::driver::Driver;
use crate::record::execution::ExecutionRecord;
use crate::record::model;
use crate::record::usage::{ModelCall, UsageReport};
use crate::value::read::read;
use crate::value::{Json, JsonError};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// One conversation. Calls are answered through the ports, never by a return value; host code that runs
/// meanwhile may call in again.
#[wasm_bindgen]
pub struct RoundtableHandle {
    driver: Rc<Driver<JsHost>>,
    ports: Rc<Ports>,
    slots: Slots,
    executor: Executor,
    observed: Rc<Cell<bool>>,
    /// What attempts asked at this moment, not yet given to the machine.
    asked: RefCell<Vec<Input>>,
}

/// What a snapshot shows beside the transcript.
#[derive(Serialize)]
struct State<'a> {
    status: Status,
    requests: Vec<&'a model::Request>,
}

#[wasm_bindgen]
impl RoundtableHandle {
    /// Checks the options, given as plain data without functions; throws the JSON of an error.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "unknown")] options: JsValue,
        ports: Ports,
    ) -> Result<RoundtableHandle, JsValue> {
        let config = read_options(options).map_err(|error| JsValue::from(json(&error)))?;
        let owner = random_id().map_err(|error| JsValue::from(json(&error)))?;
        let machine = Machine::new(config, owner.into()).map_err(|error| JsValue::from(json(&error)))?;
        Ok(Self::with(machine, ports))
    }

    /// A handle of a bound record; `opened`: see [`LoadedRecord`]. Throws the JSON of an error.
    pub fn load(record: LoadedRecord, opened: &str, ports: Ports) -> Result<RoundtableHandle, JsValue> {
        let machine = random_id().and_then(|owner| record.open(owner.into(), opened));
        machine.map(|machine| Self::with(machine, ports)).map_err(|error| json(&error).into())
    }

    fn with(machine: Machine, ports: Ports) -> RoundtableHandle {
        let (ports, slots, executor) = (Rc::new(ports), Slots::default(), Executor::default());
        let observed = Rc::new(Cell::new(false));
        let host = JsHost {
            ports: ports.clone(),
            slots: slots.clone(),
            executor: executor.clone(),
            observed: observed.clone(),
        };
        let (driver, asked) = (Driver::new(machine, host), RefCell::default());
        RoundtableHandle { driver, ports, slots, executor, observed, asked }
    }

    /// JSON of what is published, in the form of an emission, for a mirror that has seen nothing.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.driver.with_machine(|machine| wire::transcript(machine.durable()))
    }

    /// `run()`; `aborted` where its signal fired before the call.
    pub fn run(&self, call: CallId, #[wasm_bindgen(unchecked_param_type = "unknown")] limits: JsValue, aborted: bool) {
        let limits = if limits.is_undefined() { Ok(None) } else { read_limits(limits).map(Some) };
        match limits {
            Ok(limits) => self.input(Input::Called { call, request: Request::Run { limits } }),
            Err(error) => return self.refuse(call, error),
        }
        if aborted {
            self.input(Input::Aborted { call });
        }
        self.executor.drain();
    }

    /// Any other call, as the JSON of its request, which the shell has checked.
    pub fn call(&self, call: CallId, request: &str) {
        match read(request) {
            Ok(request) => self.step(Input::Called { call, request }),
            Err(error) => self.refuse(call, RoundtableError::new(Code::Internal, error.message)),
        }
    }

    /// The signal of a `run()` fired.
    #[wasm_bindgen(js_name = abortRun)]
    pub fn abort_run(&self, call: CallId) {
        self.step(Input::Aborted { call });
    }

    /// A member or the selector wants to call a model. The machine is told by [`RoundtableHandle::ask`],
    /// or before anything else happens; so it is with reports and records.
    pub fn admit(&self, ticket: Ticket, attempt: &str, call: &str) {
        match read::<ModelCall>(call) {
            Ok(call) => self.note(Input::AdmissionAsked { ticket, attempt: attempt.into(), call }),
            Err(error) => self.refuse_ticket(ticket, Code::Internal, error),
        }
    }

    /// A member or the selector reports a model call.
    pub fn report(&self, ticket: Ticket, attempt: &str, report: &str) {
        match read::<UsageReport>(report) {
            Ok(report) => self.note(Input::UsageReported { ticket, attempt: attempt.into(), report }),
            Err(error) => self.refuse_ticket(ticket, Code::Internal, error),
        }
    }

    /// A member writes a line of its execution's journal.
    pub fn record(&self, ticket: Ticket, attempt: &str, record: &str) {
        match ExecutionRecord::parse(record) {
            Ok(record) => self.note(Input::RecordAsked { ticket, attempt: attempt.into(), record }),
            Err(error) => self.refuse_ticket(ticket, Code::InvalidConfig, error),
        }
    }

    /// Gives the machine what attempts asked, as one.
    pub fn ask(&self) {
        self.take_asked();
        self.executor.drain();
    }

    /// JSON of the durable records of one execution; throws the JSON of an error.
    pub fn records(&self, attempt: &str, execution: &str) -> Result<String, JsValue> {
        let attempt = attempt.into();
        self.driver.with_machine(|machine| {
            machine.records(&attempt, execution).map(|records| json(&records)).map_err(|error| json(&error).into())
        })
    }

    /// A timer ran out.
    #[wasm_bindgen(js_name = timerFired)]
    pub fn timer_fired(&self, number: u32) {
        if let Some(timer) = timer(number) {
            self.step(Input::TimerFired { timer });
        }
    }

    /// Whether emissions carry events.
    #[wasm_bindgen(js_name = setObserved)]
    pub fn set_observed(&self, observed: bool) {
        self.observed.set(observed);
    }

    /// A port call is done; with JSON where it gives something.
    pub fn settle(&self, slot: u32, text: Option<String>) {
        self.answer(slot, text.map_or(Answer::Nothing, Answer::Text));
    }

    /// A port call is done and gives a number.
    #[wasm_bindgen(js_name = settleNumber)]
    pub fn settle_number(&self, slot: u32, number: f64) {
        self.answer(slot, Answer::Number(number));
    }

    /// A turn spoke.
    #[wasm_bindgen(js_name = settleSpeak)]
    pub fn settle_speak(&self, slot: u32, content: String) {
        self.answer(slot, Answer::Speak(content));
    }

    /// A port call failed, with the JSON of what was thrown.
    pub fn fail(&self, slot: u32, failure: String) {
        self.answer(slot, Answer::Failed(failure));
    }

    /// The last durable revision; 0 before the record exists.
    #[must_use]
    pub fn revision(&self) -> f64 {
        self.driver.with_machine(|machine| machine.durable().revision as f64)
    }

    /// JSON of the status and the open requests.
    #[must_use]
    pub fn state(&self) -> String {
        self.driver.with_machine(|machine| {
            let durable = machine.durable();
            let requests = durable.open_requests().map(|ask| &ask.request).collect();
            let status = if machine.needs_recovery() { Status::RecoveryRequired } else { durable.status() };
            json(&State { status, requests })
        })
    }

    /// JSON of the ledger, in the order of admission.
    #[must_use]
    pub fn usage(&self) -> String {
        self.driver.with_machine(|machine| {
            let ledger = &machine.durable().ledger;
            json(&ledger.order.iter().filter_map(|id| ledger.records.get(id)).collect::<Vec<_>>())
        })
    }
}

impl RoundtableHandle {
    fn input(&self, input: Input) {
        self.take_asked();
        self.driver.input(input);
    }

    fn note(&self, input: Input) {
        self.asked.borrow_mut().push(input);
    }

    fn take_asked(&self) {
        let mut inputs = self.asked.take();
        let input = if inputs.len() > 1 { Some(Input::Together { inputs }) } else { inputs.pop() };
        if let Some(input) = input {
            self.driver.input(input);
        }
    }

    fn step(&self, input: Input) {
        self.input(input);
        self.executor.drain();
    }

    fn answer(&self, slot: u32, answer: Answer) {
        self.take_asked();
        self.slots.settle(slot, answer);
        self.executor.drain();
    }

    fn refuse(&self, call: CallId, error: RoundtableError) {
        let _ = self.ports.reply(call, false, &json(&error));
    }

    fn refuse_ticket(&self, ticket: Ticket, code: Code, error: JsonError) {
        let error = RoundtableError::new(code, error.message);
        let _ = self.ports.answer(ticket, Some(&json(&error)));
    }
}

impl Drop for RoundtableHandle {
    fn drop(&mut self) {
        self.executor.clear();
    }
}

fn read_options(options: JsValue) -> Result<Config, RoundtableError> {
    let mut options = plain(options)?;
    let has_seed = options.get("seed").is_some();
    if let (Json::Object(members), false) = (&mut options, has_seed) {
        members.push(("seed".to_owned(), Json::String(random_id()?)));
    }
    Config::read(&options)
}

fn read_limits(limits: JsValue) -> Result<LimitsPatch, RoundtableError> {
    LimitsPatch::read(&plain(limits)?)
}

pub(in crate::bindings) fn random_id() -> Result<String, RoundtableError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| RoundtableError::new(Code::Internal, format!("no random numbers here: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
