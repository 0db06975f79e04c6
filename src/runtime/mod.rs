//! Agent runtimes as participants: what a model and its tools do inside one turn.
//!
//! Everything is pure and synchronous. [`agent::AgentLoop`] takes inputs (a turn started, the model
//! replied, a tool returned) and yields effects (journal this, call the model, run these tools); the
//! host performs them. With a [`session::Session`] it asks before each tool and writes down what it does. Private history lives here and leaves only as checkpoints; the shared
//! transcript sees nothing but a turn's final text.

pub mod agent;
pub mod checkpoint;
pub mod codec;
pub mod config;
pub mod fingerprint;
pub mod message;
pub mod metering;
pub mod outcome;
pub mod render;
pub mod schema;
pub mod selector;
pub mod session;
pub mod tool;
pub mod wire;
