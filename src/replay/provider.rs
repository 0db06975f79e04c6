//! Answers provider calls with the responses a log recorded, in the order of the calls.

use super::completeness::round_key;
use super::entry::settle_entry;
use super::history::RecordedMessage;
use super::log::SessionLog;
use super::node::Node;
use super::request::Projection;
use super::vocabulary::EventKind;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Which recorded response answers a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// The next one; the request is not looked at.
    #[default]
    Order,
    /// The first unused one whose recorded request is alike.
    Hash,
    /// The next one, provided that its recorded request is alike.
    Strict,
}

/// How a log is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Which response answers a call.
    pub matching: Match,
    /// Whether recorded text deltas are given back with their response.
    pub deltas: bool,
}

/// Why a call has no answer. The cursor has not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Every recorded response was used.
    #[error("call {call} has no recorded response: the log holds {total} and is exhausted")]
    LogExhausted {
        /// The number of the call, counted from 1.
        call: usize,
        /// How many responses the log holds.
        total: usize,
    },
    /// The request is not the recorded one.
    #[error("call {call} differs from the recorded request at {path}: expected digest {}, found {actual}",
        expected.as_deref().unwrap_or("of no recorded request"))]
    RequestMismatch {
        /// The number of the call, counted from 1.
        call: usize,
        /// Where the two requests first differ; `request` where none was recorded.
        path: String,
        /// The digest of the recorded request; none where none was recorded.
        expected: Option<String>,
        /// The digest of this request.
        actual: String,
    },
    /// Responses are left although all were to be used.
    #[error("{remaining} of {total} recorded responses were not used")]
    NotExhausted {
        /// How many were not used.
        remaining: usize,
        /// How many responses the log holds.
        total: usize,
    },
}

impl ReplayError {
    /// The code as hosts see it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReplayError::LogExhausted { .. } => "LOG_EXHAUSTED",
            ReplayError::RequestMismatch { .. } => "REQUEST_MISMATCH",
            ReplayError::NotExhausted { .. } => "LOG_NOT_EXHAUSTED",
        }
    }
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The recorded message.
    pub message: RecordedMessage,
    /// With [`ReplayOptions::deltas`], the pieces its text was streamed in; their concatenation is the text.
    pub deltas: Vec<String>,
}

/// A log that answers calls.
#[derive(Debug)]
pub struct ReplayProvider {
    log: Rc<SessionLog>,
    options: ReplayOptions,
    responses: Vec<Response>,
    /// How many were used.
    consumed: usize,
    /// No response before this one is unused.
    cursor: usize,
}

/// A recorded response; only places in the log are kept.
#[derive(Debug)]
struct Response {
    entry: usize,
    used: bool,
    /// The recorded request, where requests are compared and one was recorded.
    request: Option<Request>,
    deltas: Vec<usize>,
}

#[derive(Debug)]
struct Request {
    entry: usize,
    /// Taken when it is first compared: most of the work of a large log, and a replay may be short.
    digest: OnceCell<String>,
}

impl Request {
    fn projection(&self, log: &SessionLog) -> Projection {
        Projection::of(&log.node(self.entry).unwrap_or(Node::Null))
    }

    fn digest(&self, log: &SessionLog) -> &str {
        self.digest.get_or_init(|| self.projection(log).digest())
    }
}

impl ReplayProvider {
    /// A provider at the beginning of its log.
    #[must_use]
    pub fn new(log: Rc<SessionLog>, options: ReplayOptions) -> ReplayProvider {
        let responses = responses(&log, options);
        ReplayProvider { log, options, responses, consumed: 0, cursor: 0 }
    }

    /// How many responses the log holds; constant.
    #[must_use]
    pub fn recorded_response_count(&self) -> usize {
        self.responses.len()
    }

    /// How many responses were used.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// How many responses were not used yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.responses.len() - self.consumed
    }

    /// Whether [`ReplayProvider::call`] looks at requests.
    #[must_use]
    pub fn compares_requests(&self) -> bool {
        self.options.matching != Match::Order
    }

    /// Refuses where responses are left.
    pub fn assert_exhausted(&self) -> Result<(), ReplayError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(ReplayError::NotExhausted { remaining, total: self.responses.len() }),
        }
    }

    /// Goes back to the beginning.
    pub fn reset(&mut self) {
        self.consumed = 0;
        self.cursor = 0;
        self.responses.iter_mut().for_each(|response| response.used = false);
    }

    /// Answers the next call. `request` is an object with `model`, `messages` and `tools` (names, or objects
    /// with one); it is looked at only where requests are compared.
    pub fn call(&mut self, request: &Node<'_>) -> Result<Reply, ReplayError> {
        let call = self.consumed + 1;
        if self.remaining() == 0 {
            return Err(ReplayError::LogExhausted { call, total: self.responses.len() });
        }
        let chosen = match self.options.matching {
            Match::Order => self.cursor,
            Match::Hash | Match::Strict => self.matching(request, call)?,
        };
        let reply = self.reply(chosen);
        if let Some(response) = self.responses.get_mut(chosen) {
            response.used = true;
        }
        self.consumed += 1;
        self.cursor += self.responses.iter().skip(self.cursor).take_while(|response| response.used).count();
        Ok(reply)
    }

    fn matching(&self, request: &Node<'_>, call: usize) -> Result<usize, ReplayError> {
        let live = Projection::of(request);
        let digest = live.digest();
        let width = if self.options.matching == Match::Hash { usize::MAX } else { 1 };
        let candidates =
            || self.responses.iter().enumerate().skip(self.cursor).filter(|(_, response)| !response.used).take(width);
        let alike =
            |response: &Response| response.request.as_ref().is_some_and(|known| known.digest(&self.log) == digest);
        if let Some((chosen, _)) = candidates().find(|(_, response)| alike(response)) {
            return Ok(chosen);
        }
        let recorded = candidates().find_map(|(_, response)| response.request.as_ref());
        let path = recorded
            .and_then(|known| known.projection(&self.log).first_difference(&live))
            .unwrap_or_else(|| "request".to_owned());
        let expected = recorded.map(|known| known.digest(&self.log).to_owned());
        Err(ReplayError::RequestMismatch { call, path, expected, actual: digest })
    }

    fn reply(&self, chosen: usize) -> Reply {
        let empty = RecordedMessage { timestamp_ms: 0.0, json: "null".to_owned() };
        let Some(response) = self.responses.get(chosen) else { return Reply { message: empty, deltas: Vec::new() } };
        let mut node = self.log.node(response.entry).unwrap_or(Node::Null);
        settle_entry(EventKind::ProviderResponseNormalized, &mut node);
        let message = node.get("response");
        let content = message.and_then(|message| message.get("content")).and_then(Node::as_str).unwrap_or_default();
        let deltas = if self.options.deltas { self.deltas(response, content) } else { Vec::new() };
        Reply { message: message.map_or(empty, RecordedMessage::of), deltas }
    }

    /// The recorded pieces where they make up the text, else the text in one piece.
    fn deltas(&self, response: &Response, content: &str) -> Vec<String> {
        let mut pieces: Vec<(f64, String)> = response
            .deltas
            .iter()
            .filter_map(|entry| {
                let node = self.log.node(*entry)?;
                Some((node.get("sequence")?.as_number()?, node.get("delta")?.as_str()?.to_owned()))
            })
            .collect();
        pieces.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let pieces: Vec<String> = pieces.into_iter().map(|(_, piece)| piece).collect();
        match pieces.concat() == content {
            true => pieces,
            false if content.is_empty() => Vec::new(),
            false => vec![content.to_owned()],
        }
    }
}

/// Finds the responses and, where it is needed, the requests and deltas that belong to each: the last
/// request of the same execution and round before it, and the deltas since the response before it.
fn responses(log: &SessionLog, options: ReplayOptions) -> Vec<Response> {
    let mut list = Vec::new();
    if options.matching == Match::Order && !options.deltas {
        for entry in (0..log.len()).filter(|at| log.kind(*at) == Some(EventKind::ProviderResponseNormalized)) {
            list.push(Response { entry, used: false, request: None, deltas: Vec::new() });
        }
        return list;
    }
    // What came last under a key: an entry of a request, and a place in `pieces`.
    let mut requests: HashMap<String, usize> = HashMap::new();
    let mut pending: HashMap<String, usize> = HashMap::new();
    let mut pieces: Vec<Vec<usize>> = Vec::new();
    let wanted = [EventKind::ProviderRequest, EventKind::ProviderStreamRawDelta, EventKind::ProviderResponseNormalized];
    for (entry, kind, node) in log.nodes(&wanted) {
        let Some(key) = round_key(&node) else { continue };
        match kind {
            EventKind::ProviderRequest => {
                requests.insert(key, entry);
            }
            EventKind::ProviderStreamRawDelta => {
                let place = *pending.entry(key).or_insert(pieces.len());
                if place == pieces.len() {
                    pieces.push(Vec::new());
                }
                if let Some(list) = pieces.get_mut(place) {
                    list.push(entry);
                }
            }
            _ => {
                let request = requests.get(&key).filter(|_| options.matching != Match::Order);
                let request = request.map(|entry| Request { entry: *entry, digest: OnceCell::new() });
                let deltas = pending.remove(&key).and_then(|place| pieces.get_mut(place)).map(std::mem::take);
                list.push(Response { entry, used: false, request, deltas: deltas.unwrap_or_default() });
            }
        }
    }
    list
}
