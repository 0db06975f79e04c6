//! Session logs: decoding, external payloads, replay of recorded responses, and recording.
//!
//! Text comes back as it was recorded: nothing here rewrites a string, a number or a date of a
//! conversation, except that dates of messages are put into one form where a host makes dates of them.
//! Everything is pure. Payloads are asked for through a step-wise loader, so a host may await them.

mod check;
mod completeness;
mod entry;
mod error;
mod history;
mod hydrate;
mod issue;
mod load;
mod log;
mod message;
mod node;
mod payload;
mod provider;
mod record;
mod redact;
mod request;
mod schema;
mod shapes;
mod vocabulary;
pub mod wire;
mod write;

pub use completeness::{CompletenessCode, CompletenessIssue, completeness};
pub use error::{DecodeCode, DecodeError, LoadError};
pub use history::{History, RecordedMessage, rebuild_history};
pub use hydrate::PayloadRequest;
pub use issue::{Issue, MAX_ISSUES};
pub use load::{LoadStep, LogLoader, MAX_LINE_UNITS, MAX_LOG_UNITS};
pub use log::SessionLog;
pub use node::{Foreign, Node};
pub use payload::{Detail, PayloadCode, PayloadError, PayloadLimits, PayloadMetadata, PayloadSource};
pub use provider::{Match, ReplayError, ReplayOptions, ReplayProvider, Reply};
pub use record::{RecordedCall, Recorder};
pub use redact::{REDACTED, Redaction};
pub use vocabulary::{EventClass, EventKind};
pub use write::{DELTA_BUFFER_BYTES, LogWriter, MAX_INLINE_BYTES, Sidecar, WritePlan};
