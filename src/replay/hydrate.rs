//! Replaces references by what they refer to, one value after the other, depth first, in entry and key
//! order. A machine: it says which payload it needs and is given the bytes, so a host may await them.

use super::node::{Foreign, Node};
use super::payload::{Detail, PayloadCode, PayloadError, PayloadLimits, Reference, is_reference};
use sha2::{Digest, Sha256};

/// A payload the host is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadRequest {
    /// The path as the reference gives it.
    pub relative_path: String,
    /// What is left of the budget, in bytes.
    pub max_bytes: u64,
}

/// What hydrating one value needs next.
#[derive(Debug)]
pub(super) enum Progress {
    /// These bytes, by way of [`Hydration::supply`].
    Need(PayloadRequest),
    /// Nothing: the value holds no more references.
    Done(Node<'static>),
}

/// The one state that all values of a load share.
#[derive(Debug)]
pub(super) struct Hydration {
    limits: PayloadLimits,
    has_source: bool,
    total_bytes: u64,
    frames: Vec<Frame>,
    awaited: Option<Reference>,
}

/// A value that is being hydrated: the entry itself, or a payload that stands in another value.
#[derive(Debug)]
struct Frame {
    node: Node<'static>,
    /// What to look at next, last first.
    stops: Vec<Stop>,
    /// The payload this value came from; none for the entry itself.
    path: Option<String>,
    /// How many arrays and objects this value stands in.
    nesting: usize,
}

/// A place in a value at which hydration has something to do.
#[derive(Debug)]
struct Stop {
    steps: Vec<usize>,
    foreign: Option<Foreign>,
}

impl Hydration {
    pub fn new(limits: PayloadLimits, has_source: bool) -> Self {
        Hydration { limits, has_source, total_bytes: 0, frames: Vec::new(), awaited: None }
    }

    /// Takes up the next value; the one before must be done.
    pub fn begin(&mut self, node: Node<'static>) {
        self.frames.clear();
        self.push(node, None, 0);
    }

    /// Goes on until a payload is needed or the value is done.
    pub fn advance(&mut self) -> Result<Progress, PayloadError> {
        loop {
            let depth = self.frames.len().saturating_sub(1) as u64;
            let Some(frame) = self.frames.last() else { return Ok(Progress::Done(Node::Null)) };
            match frame.stops.last() {
                Some(Stop { foreign: Some(kind), .. }) => return Err(refuse_foreign(*kind, depth)),
                Some(stop) => {
                    let reference = at(&frame.node, &stop.steps).and_then(Reference::read).ok_or_else(|| {
                        let message = "an external payload reference has another shape";
                        PayloadError::new(PayloadCode::InvalidReference, message)
                    })?;
                    self.admit(&reference, depth)?;
                    let max_bytes = self.limits.max_total_bytes.saturating_sub(self.total_bytes);
                    let relative_path = reference.relative_path.clone();
                    self.awaited = Some(reference);
                    return Ok(Progress::Need(PayloadRequest { relative_path, max_bytes }));
                }
                None => {
                    if let Some(done) = self.finish_frame() {
                        return Ok(Progress::Done(done));
                    }
                }
            }
        }
    }

    /// Takes the bytes that were asked for; `None` where the source has nothing there.
    pub fn supply(&mut self, bytes: Option<&[u8]>) -> Result<(), PayloadError> {
        let Some(reference) = self.awaited.take() else { return Ok(()) };
        let depth = self.frames.len().saturating_sub(1) as u64;
        let text = self.verify(&reference, bytes, depth)?;
        let nesting =
            self.frames.last().map_or(0, |frame| frame.nesting + frame.stops.last().map_or(0, |stop| stop.steps.len()));
        let node = match Node::parse_at(text, nesting) {
            Ok(parsed) => parsed.node.into_owned(),
            Err(cause) => {
                let mut error = failure(PayloadCode::InvalidJson, "the payload is no JSON", &reference, depth);
                error.cause = Some(cause);
                return Err(error);
            }
        };
        self.push(node, Some(reference.relative_path), nesting);
        Ok(())
    }

    fn push(&mut self, node: Node<'static>, path: Option<String>, nesting: usize) {
        let mut stops = Vec::new();
        collect_stops(&node, &mut Vec::new(), &mut stops);
        stops.reverse();
        self.frames.push(Frame { node, stops, path, nesting });
    }

    /// Puts the topmost value where its reference stood; the value itself where it is the entry.
    fn finish_frame(&mut self) -> Option<Node<'static>> {
        let Frame { node, .. } = self.frames.pop()?;
        let Some(below) = self.frames.last_mut() else { return Some(node) };
        if let Some(stop) = below.stops.pop()
            && let Some(place) = at_mut(&mut below.node, &stop.steps)
        {
            *place = node;
        }
        None
    }

    fn admit(&self, reference: &Reference, depth: u64) -> Result<(), PayloadError> {
        if depth >= self.limits.max_depth {
            let message = format!("references nest deeper than {}", self.limits.max_depth);
            let mut error = failure(PayloadCode::MaxDepthExceeded, message, reference, depth);
            error.metadata.expected = Some(Detail::Number(self.limits.max_depth as f64));
            return Err(error);
        }
        if !self.has_source {
            let message = "an external payload can only be read from a source that is given explicitly";
            return Err(failure(PayloadCode::UnresolvedReference, message, reference, depth));
        }
        if self.frames.iter().any(|frame| frame.path.as_ref() == Some(&reference.relative_path)) {
            return Err(failure(PayloadCode::CircularReference, "a payload refers to itself", reference, depth));
        }
        Ok(())
    }

    fn verify<'b>(
        &mut self,
        reference: &Reference,
        bytes: Option<&'b [u8]>,
        depth: u64,
    ) -> Result<&'b str, PayloadError> {
        let Some(bytes) = bytes else {
            return Err(failure(PayloadCode::PayloadNotFound, "there is no such payload", reference, depth));
        };
        let length = bytes.len() as u64;
        let total = self.total_bytes.saturating_add(length);
        if total > self.limits.max_total_bytes {
            let message = format!("payloads are larger together than {} bytes", self.limits.max_total_bytes);
            let mut error = failure(PayloadCode::MaxTotalBytesExceeded, message, reference, depth);
            error.metadata.expected = Some(Detail::Number(self.limits.max_total_bytes as f64));
            error.metadata.actual = Some(Detail::Number(total as f64));
            return Err(error);
        }
        self.total_bytes = total;
        if length != reference.byte_length {
            let message = "the payload has another length than its reference says";
            let mut error = failure(PayloadCode::ByteLengthMismatch, message, reference, depth);
            error.metadata.expected = Some(Detail::Number(reference.byte_length as f64));
            error.metadata.actual = Some(Detail::Number(length as f64));
            return Err(error);
        }
        let digest = hex_sha256(bytes);
        if digest != reference.sha256 {
            let message = "the payload has another digest than its reference says";
            let mut error = failure(PayloadCode::Sha256Mismatch, message, reference, depth);
            error.metadata.expected = Some(Detail::Text(reference.sha256.clone()));
            error.metadata.actual = Some(Detail::Text(digest));
            return Err(error);
        }
        std::str::from_utf8(bytes).map_err(|cause| {
            let mut error = failure(PayloadCode::InvalidJson, "the payload is no UTF-8", reference, depth);
            error.cause = Some(cause.to_string());
            error
        })
    }
}

/// The SHA-256 digest in lower-case hexadecimal.
pub(super) fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether hydration has anything to do in this value.
pub(super) fn holds_references(node: &Node<'_>) -> bool {
    match node {
        Node::Array(items) => items.iter().any(holds_references),
        Node::Object(members) => is_reference(node) || members.iter().any(|(_, value)| holds_references(value)),
        _ => false,
    }
}

fn failure(code: PayloadCode, message: impl Into<String>, reference: &Reference, depth: u64) -> PayloadError {
    let mut error = PayloadError::new(code, message);
    error.metadata.relative_path = Some(reference.relative_path.clone());
    error.metadata.depth = Some(depth);
    error
}

fn refuse_foreign(kind: Foreign, depth: u64) -> PayloadError {
    let mut error = match kind {
        Foreign::Cycle => PayloadError::new(PayloadCode::CircularReference, "an entry contains itself"),
        kind => {
            let found = Node::Foreign(kind).found();
            PayloadError::new(PayloadCode::InvalidJson, format!("an entry with references holds {found}"))
        }
    };
    error.metadata.depth = Some(depth);
    error
}

fn collect_stops(node: &Node<'_>, steps: &mut Vec<usize>, stops: &mut Vec<Stop>) {
    match node {
        Node::Foreign(kind) => stops.push(Stop { steps: steps.clone(), foreign: Some(*kind) }),
        Node::Object(_) if is_reference(node) => stops.push(Stop { steps: steps.clone(), foreign: None }),
        Node::Object(members) => {
            for (step, (_, value)) in members.iter().enumerate() {
                steps.push(step);
                collect_stops(value, steps, stops);
                steps.pop();
            }
        }
        Node::Array(items) => {
            for (step, value) in items.iter().enumerate() {
                steps.push(step);
                collect_stops(value, steps, stops);
                steps.pop();
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Date(_) => {}
    }
}

fn at<'n>(node: &'n Node<'static>, steps: &[usize]) -> Option<&'n Node<'static>> {
    steps.iter().try_fold(node, |node, step| match node {
        Node::Array(items) => items.get(*step),
        Node::Object(members) => members.get(*step).map(|(_, value)| value),
        _ => None,
    })
}

fn at_mut<'n>(node: &'n mut Node<'static>, steps: &[usize]) -> Option<&'n mut Node<'static>> {
    steps.iter().try_fold(node, |node, step| match node {
        Node::Array(items) => items.get_mut(*step),
        Node::Object(members) => members.get_mut(*step).map(|(_, value)| value),
        _ => None,
    })
}
