//! What an agent is made of, checked once when its session opens.

use super::schema;
use super::selector::decision::DecisionTool;
use crate::value::Json;
use crate::value::bounds::{MAX_CONTENT, MAX_ID, MAX_TEXT, MAX_VALUE};
use crate::value::text::utf16_len;

/// The most tools of an agent, and the most calls of one reply.
pub const MAX_TOOLS: usize = 256;
/// The largest integer a double holds exactly.
pub const MAX_SAFE_INTEGER: f64 = crate::record::fold::MAX_SAFE_INTEGER as f64;
/// How many model calls a turn may make where the host does not say.
pub const DEFAULT_MAX_ROUNDS: u32 = 16;

/// An agent's options as the host gave them; numbers are not yet checked.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The provider's `name`.
    pub provider_name: String,
    /// Whether the provider has a cache to ask before admission.
    pub provider_has_cache: bool,
    /// The model's name.
    pub model: String,
    /// The host's instructions, shown before the history.
    pub system_message: Option<String>,
    /// The tools the model may call.
    pub tools: Vec<ToolDefinition>,
    /// The most model calls of one turn.
    pub max_rounds: Option<f64>,
    /// Passed on to the provider.
    pub temperature: Option<f64>,
    /// The most tokens of one reply, passed on to the provider.
    pub max_tokens: Option<f64>,
}

/// What the model is told of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Unique within an agent.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Json,
    /// Whether running it twice with one idempotency key does no harm.
    pub idempotent: bool,
}

/// The checked options of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The provider's name.
    pub provider_name: String,
    /// Whether the provider has a cache to ask before admission.
    pub provider_has_cache: bool,
    /// The model's name.
    pub model: String,
    /// The host's instructions.
    pub system_message: Option<String>,
    /// The tools, names unique.
    pub tools: Vec<ToolDefinition>,
    /// The most model calls of one turn; the last one offers no tools, so that it must answer.
    pub max_rounds: u32,
    /// What the one reply of a turn must decide with; none where a turn ends in words.
    pub decision: Option<DecisionTool>,
}

/// An option that is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct ConfigError {
    /// Which option, as `tools[2].name`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl AgentConfig {
    /// Checks every option and bound.
    pub fn new(options: AgentOptions) -> Result<Self, ConfigError> {
        check_name("provider.name", &options.provider_name)?;
        check_name("model", &options.model)?;
        check_length("systemMessage", options.system_message.as_deref().unwrap_or_default(), MAX_CONTENT)?;
        if options.tools.len() > MAX_TOOLS {
            return Err(refuse("tools", format!("{} tools are more than {MAX_TOOLS}", options.tools.len())));
        }
        let mut names = std::collections::HashSet::new();
        for (index, tool) in options.tools.iter().enumerate() {
            check_tool(tool, index)?;
            if !names.insert(tool.name.as_str()) {
                return Err(refuse(format!("tools[{index}].name"), "another tool has this name"));
            }
        }
        if options.temperature.is_some_and(|n| !n.is_finite()) {
            return Err(refuse("temperature", "not a finite number"));
        }
        if options.max_tokens.is_some_and(|n| n.fract() != 0.0 || !(1.0..=MAX_SAFE_INTEGER).contains(&n)) {
            return Err(refuse("maxTokens", "not a positive safe integer"));
        }
        Ok(AgentConfig {
            max_rounds: check_rounds(options.max_rounds)?,
            provider_name: options.provider_name,
            provider_has_cache: options.provider_has_cache,
            model: options.model,
            system_message: options.system_message,
            tools: options.tools,
            decision: None,
        })
    }

    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<(usize, &ToolDefinition)> {
        self.tools.iter().enumerate().find(|(_, tool)| tool.name == name)
    }
}

fn check_tool(tool: &ToolDefinition, index: usize) -> Result<(), ConfigError> {
    check_name(&format!("tools[{index}].name"), &tool.name)?;
    check_length(&format!("tools[{index}].description"), &tool.description, MAX_TEXT)?;
    let field = format!("tools[{index}].parameters");
    check_length(&field, &tool.parameters.canonical(), MAX_VALUE)?;
    schema::check_schema(&tool.parameters, &field).map_err(|error| refuse(error.path, error.message))
}

fn check_name(field: &str, name: &str) -> Result<(), ConfigError> {
    if name.is_empty() {
        return Err(refuse(field, "empty"));
    }
    check_length(field, name, MAX_ID)
}

fn check_length(field: &str, text: &str, max: usize) -> Result<(), ConfigError> {
    if utf16_len(text) <= max {
        return Ok(());
    }
    Err(refuse(field, format!("longer than {max} UTF-16 units")))
}

fn check_rounds(rounds: Option<f64>) -> Result<u32, ConfigError> {
    match rounds {
        None => Ok(DEFAULT_MAX_ROUNDS),
        Some(n) if n.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&n) => Ok(n as u32),
        Some(_) => Err(refuse("maxRounds", "not a whole number from 1 to 4294967295")),
    }
}

fn refuse(field: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError { field: field.into(), message: message.into() }
}
