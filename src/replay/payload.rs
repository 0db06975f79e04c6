//! External payloads: what a reference looks like, who reads it, and how reading it can fail.

use super::node::{Node, REFERENCE_KIND};
use crate::value::text::ecmascript_trim;

/// Why a reference to an external payload could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadCode {
    /// The object that stands for a payload has another shape.
    InvalidReference,
    /// References nest deeper than allowed.
    MaxDepthExceeded,
    /// There is nothing to read payloads from.
    UnresolvedReference,
    /// A payload refers to itself, or a host value contains itself.
    CircularReference,
    /// The source has no such payload.
    PayloadNotFound,
    /// The payloads of one load are larger together than allowed.
    MaxTotalBytesExceeded,
    /// The payload has another length than its reference says.
    ByteLengthMismatch,
    /// The payload has another digest than its reference says.
    Sha256Mismatch,
    /// The payload, or a host value that holds references, is no JSON.
    InvalidJson,
    /// A limit is no finite non-negative safe integer.
    InvalidLimit,
    /// The path leads out of the directory it must stay in, or over a link.
    OutsideRoot,
    /// The payload could not be read.
    PayloadUnreadable,
    /// This host cannot read files without following links.
    StablePayloadReadUnavailable,
}

impl PayloadCode {
    /// Every code there is.
    pub const ALL: [PayloadCode; 13] = [
        PayloadCode::InvalidReference,
        PayloadCode::MaxDepthExceeded,
        PayloadCode::UnresolvedReference,
        PayloadCode::CircularReference,
        PayloadCode::PayloadNotFound,
        PayloadCode::MaxTotalBytesExceeded,
        PayloadCode::ByteLengthMismatch,
        PayloadCode::Sha256Mismatch,
        PayloadCode::InvalidJson,
        PayloadCode::InvalidLimit,
        PayloadCode::OutsideRoot,
        PayloadCode::PayloadUnreadable,
        PayloadCode::StablePayloadReadUnavailable,
    ];

    /// The code as hosts see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PayloadCode::InvalidReference => "INVALID_REFERENCE",
            PayloadCode::MaxDepthExceeded => "MAX_DEPTH_EXCEEDED",
            PayloadCode::UnresolvedReference => "UNRESOLVED_REFERENCE",
            PayloadCode::CircularReference => "CIRCULAR_REFERENCE",
            PayloadCode::PayloadNotFound => "PAYLOAD_NOT_FOUND",
            PayloadCode::MaxTotalBytesExceeded => "MAX_TOTAL_BYTES_EXCEEDED",
            PayloadCode::ByteLengthMismatch => "BYTE_LENGTH_MISMATCH",
            PayloadCode::Sha256Mismatch => "SHA256_MISMATCH",
            PayloadCode::InvalidJson => "INVALID_JSON",
            PayloadCode::InvalidLimit => "INVALID_LIMIT",
            PayloadCode::OutsideRoot => "OUTSIDE_ROOT",
            PayloadCode::PayloadUnreadable => "PAYLOAD_UNREADABLE",
            PayloadCode::StablePayloadReadUnavailable => "STABLE_PAYLOAD_READ_UNAVAILABLE",
        }
    }
}

/// A number or a text that an error compares.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// A number of bytes, a depth or a limit.
    Number(f64),
    /// A digest.
    Text(String),
}

/// What an error knows besides its code; absent where it does not apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PayloadMetadata {
    /// The path as the reference gives it.
    pub relative_path: Option<String>,
    /// How many references stand above the one that failed.
    pub depth: Option<u64>,
    /// What was expected: a limit, a length, a digest.
    pub expected: Option<Detail>,
    /// What was there instead.
    pub actual: Option<Detail>,
}

/// A reference that could not be resolved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct PayloadError {
    /// Which rule was broken.
    pub code: PayloadCode,
    /// The rule in words; no content of the log.
    pub message: String,
    /// What else is known.
    pub metadata: Box<PayloadMetadata>,
    /// What the parser said, where one refused.
    pub cause: Option<String>,
}

impl PayloadError {
    /// An error without metadata.
    #[must_use]
    pub fn new(code: PayloadCode, message: impl Into<String>) -> Self {
        PayloadError { code, message: message.into(), metadata: Box::default(), cause: None }
    }
}

/// How deep references may nest and how many bytes they may bring in, in one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadLimits {
    /// How many references may stand above one another; 0 forbids all, 1 forbids nesting.
    pub max_depth: u64,
    /// Bytes of all payloads of one load together.
    pub max_total_bytes: u64,
}

impl Default for PayloadLimits {
    fn default() -> Self {
        PayloadLimits { max_depth: 32, max_total_bytes: 64 << 20 }
    }
}

impl PayloadLimits {
    /// Checks limits as a host gives them; `None` leaves the default.
    pub fn new(max_depth: Option<f64>, max_total_bytes: Option<f64>) -> Result<Self, PayloadError> {
        let default = PayloadLimits::default();
        Ok(PayloadLimits {
            max_depth: max_depth.map_or(Ok(default.max_depth), |n| limit("maxExternalPayloadDepth", n))?,
            max_total_bytes: max_total_bytes
                .map_or(Ok(default.max_total_bytes), |n| limit("maxExternalPayloadTotalBytes", n))?,
        })
    }
}

fn limit(name: &str, value: f64) -> Result<u64, PayloadError> {
    if is_safe_count(value) {
        return Ok(value as u64);
    }
    let mut error = PayloadError::new(PayloadCode::InvalidLimit, format!("{name} must be a safe integer, at least 0"));
    error.metadata.actual = Some(Detail::Number(value));
    Err(error)
}

/// Whether this is an integer from 0 to the largest that a double holds exactly.
pub(super) fn is_safe_count(value: f64) -> bool {
    (0.0..=9_007_199_254_740_991.0).contains(&value) && value.fract() == 0.0
}

/// Where external payloads are read from.
pub trait PayloadSource {
    /// The bytes at a path; `None` where there is nothing. More than `max_bytes` should not be read.
    fn read_bytes(&mut self, relative_path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, PayloadError>;
}

/// A well-formed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub sha256: String,
    pub byte_length: u64,
    pub relative_path: String,
}

/// Whether this is an object that says it is a reference.
pub(super) fn is_reference(node: &Node<'_>) -> bool {
    matches!(node, Node::Object(_)) && node.get("kind").and_then(Node::as_str) == Some(REFERENCE_KIND)
}

impl Reference {
    /// Reads an object for which [`is_reference`] holds; `None` where its shape is not that of one.
    pub fn read(node: &Node<'_>) -> Option<Reference> {
        let Node::Object(members) = node else { return None };
        let sha256 = node.get("sha256")?.as_str()?;
        let byte_length = node.get("byteLength")?.as_number()?;
        let relative_path = node.get("relativePath")?.as_str()?;
        let well_formed = members.len() == 5
            && node.get("encoding")?.as_str()? == "json"
            && sha256.len() == 64
            && sha256.bytes().all(|b| b.is_ascii_hexdigit())
            && is_safe_count(byte_length)
            && !ecmascript_trim(relative_path).is_empty();
        well_formed.then(|| Reference {
            sha256: sha256.to_ascii_lowercase(),
            byte_length: byte_length as u64,
            relative_path: relative_path.to_owned(),
        })
    }
}
