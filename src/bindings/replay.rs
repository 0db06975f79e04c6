//! Session logs for JavaScript. Everything crosses as JSON text, failures included: nothing here throws
//! and nothing calls back. The forms are those of [`crate::replay::wire`].

use crate::replay::{
    LoadError, LoadStep, LogLoader, LogWriter, Match, Node, PayloadLimits, RecordedCall, Recorder, Redaction,
    ReplayOptions, ReplayProvider, SessionLog, completeness, rebuild_history, wire,
};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::wasm_bindgen;

/// A log that is being loaded.
#[wasm_bindgen]
#[derive(Debug)]
pub struct LogLoaderHandle(RefCell<Loading>);

#[derive(Debug)]
enum Loading {
    Failed(LoadError),
    Running(Box<LogLoader>),
    Done(Rc<SessionLog>),
}

impl Loading {
    fn of(loader: Result<LogLoader, LoadError>) -> LogLoaderHandle {
        LogLoaderHandle(RefCell::new(match loader {
            Ok(loader) => Loading::Running(Box::new(loader)),
            Err(error) => Loading::Failed(error),
        }))
    }
}

/// Loads a log from its UTF-8 bytes.
#[wasm_bindgen(js_name = loadLogBytes)]
#[must_use]
pub fn load_log_bytes(
    bytes: Vec<u8>,
    max_depth: Option<f64>,
    max_total_bytes: Option<f64>,
    has_source: bool,
) -> LogLoaderHandle {
    let limits = PayloadLimits::new(max_depth, max_total_bytes).map_err(LoadError::from);
    Loading::of(limits.and_then(|limits| Ok(LogLoader::from_bytes(bytes, limits, has_source)?)))
}

/// Loads a log from a list of entries, given as [`wire::live`] reads them.
#[wasm_bindgen(js_name = loadLogEntries)]
#[must_use]
pub fn load_log_entries(
    json: &str,
    marks: &[f64],
    max_depth: Option<f64>,
    max_total_bytes: Option<f64>,
    has_source: bool,
) -> LogLoaderHandle {
    let limits = PayloadLimits::new(max_depth, max_total_bytes).map_err(LoadError::from);
    Loading::of(limits.and_then(|limits| Ok(LogLoader::from_entries(&entries(json, marks), limits, has_source)?)))
}

/// Decodes a list of entries, given as [`wire::live`] reads them; references in free values stay.
#[wasm_bindgen(js_name = decodeLogEntries)]
#[must_use]
pub fn decode_log_entries(json: &str, marks: &[f64]) -> LogLoaderHandle {
    LogLoaderHandle(RefCell::new(match SessionLog::decode(&entries(json, marks)) {
        Ok(log) => Loading::Done(Rc::new(log)),
        Err(error) => Loading::Failed(error.into()),
    }))
}

/// The shell writes the text, so it parses; null is what a decoder names otherwise.
fn entries<'a>(json: &'a str, marks: &[f64]) -> Node<'a> {
    wire::live(json, marks).unwrap_or(Node::Null)
}

#[wasm_bindgen]
impl LogLoaderHandle {
    /// Goes on: the JSON of what is needed or of a failure; absent when the log is there.
    pub fn step(&self) -> Option<String> {
        let mut state = self.0.borrow_mut();
        let step = match &mut *state {
            Loading::Failed(error) => return Some(wire::load_error(error)),
            Loading::Done(_) => return None,
            Loading::Running(loader) => loader.step(),
        };
        match step {
            Ok(LoadStep::Need(request)) => Some(wire::need(&request)),
            Ok(LoadStep::Done(log)) => {
                *state = Loading::Done(Rc::new(log));
                None
            }
            Err(error) => {
                let text = wire::load_error(&error);
                *state = Loading::Failed(error);
                Some(text)
            }
        }
    }

    /// Takes the payload that was asked for; absent where there is none.
    pub fn supply(&self, bytes: Option<Vec<u8>>) {
        let mut state = self.0.borrow_mut();
        if let Loading::Running(loader) = &mut *state
            && let Err(error) = loader.supply(bytes.as_deref())
        {
            *state = Loading::Failed(error);
        }
    }

    /// The log, once [`LogLoaderHandle::step`] has nothing more to say.
    #[must_use]
    pub fn log(&self) -> Option<SessionLogHandle> {
        match &*self.0.borrow() {
            Loading::Done(log) => Some(SessionLogHandle(log.clone())),
            Loading::Failed(_) | Loading::Running(_) => None,
        }
    }
}

/// A decoded log.
#[wasm_bindgen]
#[derive(Debug)]
pub struct SessionLogHandle(Rc<SessionLog>);

#[wasm_bindgen]
impl SessionLogHandle {
    /// How many entries it has.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// The JSON of one entry.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<String> {
        self.0.json(index)
    }

    /// The JSON of what the log lacks.
    #[must_use]
    pub fn completeness(&self) -> String {
        wire::completeness(&completeness(&self.0))
    }

    /// The JSON of the history it records.
    #[must_use]
    pub fn history(&self) -> String {
        wire::history(&rebuild_history(&self.0))
    }

    /// A provider at the beginning of the log; `matching` is `hash`, `strict` or anything else for order.
    #[must_use]
    pub fn replay(&self, matching: &str, deltas: bool) -> ReplayHandle {
        let matching = match matching {
            "hash" => Match::Hash,
            "strict" => Match::Strict,
            _ => Match::Order,
        };
        ReplayHandle(RefCell::new(ReplayProvider::new(self.0.clone(), ReplayOptions { matching, deltas })))
    }
}

/// A log that answers calls.
#[wasm_bindgen]
#[derive(Debug)]
pub struct ReplayHandle(RefCell<ReplayProvider>);

#[wasm_bindgen]
impl ReplayHandle {
    /// How many responses it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.borrow().recorded_response_count()
    }

    /// How many of them were used.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.0.borrow().consumed()
    }

    /// Answers a call: the JSON of a reply or a failure. The request is JSON; absent where it is not compared.
    #[must_use]
    pub fn call(&self, request: Option<String>) -> String {
        let node = request.as_deref().map_or(Ok(Node::Null), Node::parse).unwrap_or(Node::Null);
        match self.0.borrow_mut().call(&node) {
            Ok(reply) => wire::reply(&reply),
            Err(error) => wire::replay_error(&error),
        }
    }

    /// The JSON of a failure where responses are left.
    #[wasm_bindgen(js_name = assertExhausted)]
    #[must_use]
    pub fn assert_exhausted(&self) -> Option<String> {
        self.0.borrow().assert_exhausted().err().map(|error| wire::replay_error(&error))
    }

    /// Goes back to the beginning.
    pub fn reset(&self) {
        self.0.borrow_mut().reset();
    }
}

/// Plans what a session's events write.
#[wasm_bindgen]
#[derive(Debug)]
pub struct LogWriterHandle(RefCell<LogWriter>);

/// A writer for that session; absent where its id cannot name a file.
#[wasm_bindgen(js_name = openLogWriter)]
#[must_use]
pub fn open_log_writer(session_id: &str) -> Option<LogWriterHandle> {
    LogWriter::new(session_id, Redaction::default()).map(|writer| LogWriterHandle(RefCell::new(writer)))
}

#[wasm_bindgen]
impl LogWriterHandle {
    /// Plans one event, its payload given as [`wire::live`] reads it: the JSON of a plan or a failure.
    #[must_use]
    pub fn log(&self, event: &str, json: &str, marks: &[f64], at_ms: f64) -> String {
        match self.0.borrow_mut().log(event, entries(json, marks), at_ms) {
            Ok(plan) => wire::plan(&plan),
            Err(error) => wire::decode_error(&error),
        }
    }

    /// The lines that were held back.
    #[must_use]
    pub fn flush(&self) -> String {
        self.0.borrow_mut().flush()
    }
}

/// Records the calls of one session.
#[wasm_bindgen]
#[derive(Debug)]
pub struct RecorderHandle(RefCell<Recorder>);

/// A recorder that has seen this many calls; `redact` names further keys whose values are left out.
#[wasm_bindgen(js_name = openRecorder)]
#[must_use]
pub fn open_recorder(session_id: &str, redact: Vec<String>, calls: u32) -> RecorderHandle {
    RecorderHandle(RefCell::new(Recorder::new(session_id, Redaction::with(redact), u64::from(calls))))
}

#[wasm_bindgen]
impl RecorderHandle {
    /// Records a request, given as [`wire::live`] reads it; see [`RecordedCallHandle::outcome`].
    #[must_use]
    pub fn request(&self, provider: &str, json: &str, marks: &[f64], at_ms: f64) -> RecordedCallHandle {
        match self.0.borrow_mut().request(provider, &entries(json, marks), at_ms) {
            Ok((call, line)) => RecordedCallHandle { call: Some(RefCell::new(call)), outcome: wire::lines(&[line]) },
            Err(error) => RecordedCallHandle { call: None, outcome: wire::decode_error(&error) },
        }
    }
}

/// One recorded call.
#[wasm_bindgen]
#[derive(Debug)]
pub struct RecordedCallHandle {
    call: Option<RefCell<RecordedCall>>,
    outcome: String,
}

#[wasm_bindgen]
impl RecordedCallHandle {
    /// The JSON of the request's lines, or of why it cannot be recorded.
    #[must_use]
    pub fn outcome(&self) -> String {
        self.outcome.clone()
    }

    /// The JSON of the lines of one streamed piece of text, or of a failure.
    #[must_use]
    pub fn delta(&self, text: &str, at_ms: f64) -> String {
        match self.call.as_ref().map(|call| call.borrow_mut().delta(text, at_ms)) {
            Some(Ok(line)) => wire::lines(&[line]),
            Some(Err(error)) => wire::decode_error(&error),
            None => wire::lines(&[]),
        }
    }

    /// The JSON of the lines of the response, given as [`wire::live`] reads it, or of a failure.
    #[must_use]
    pub fn response(&self, json: &str, marks: &[f64], at_ms: f64) -> String {
        match self.call.as_ref().map(|call| call.borrow().response(&entries(json, marks), at_ms)) {
            Some(Ok(lines)) => wire::lines(&lines),
            Some(Err(error)) => wire::decode_error(&error),
            None => wire::lines(&[]),
        }
    }
}
