//! What an agent was made of, as hashes: a checkpoint can tell that its runtime changed without
//! holding a word of it.

use super::config::AgentConfig;
use crate::value::Json;
use crate::value::hash::sha256_hex;

/// One SHA-256, in lower-case hexadecimal, for each construction input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Of the provider's name.
    pub provider: String,
    /// Of the model's name.
    pub model: String,
    /// Of the system message; of an empty text where there is none.
    pub system_message: String,
    /// Of each tool's name, description and schema together, in declared order.
    pub tools: Vec<String>,
}

/// A construction input that a fingerprint tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstructionInput {
    /// The provider's name.
    Provider,
    /// The model's name.
    Model,
    /// The system message.
    SystemMessage,
    /// The tools.
    Tools,
}

impl ConstructionInput {
    /// The option's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConstructionInput::Provider => "provider",
            ConstructionInput::Model => "model",
            ConstructionInput::SystemMessage => "systemMessage",
            ConstructionInput::Tools => "tools",
        }
    }
}

impl Fingerprint {
    /// The fingerprint of an agent.
    #[must_use]
    pub fn of(config: &AgentConfig) -> Self {
        let tool_hash = |tool: &super::config::ToolDefinition| {
            let text = |text: &str| Json::String(text.to_owned());
            sha256_hex(
                &Json::Array(vec![text(&tool.name), text(&tool.description), tool.parameters.clone()]).canonical(),
            )
        };
        Fingerprint {
            provider: sha256_hex(&config.provider_name),
            model: sha256_hex(&config.model),
            system_message: sha256_hex(config.system_message.as_deref().unwrap_or_default()),
            tools: config.tools.iter().map(tool_hash).collect(),
        }
    }

    /// What differs between two agents; the order of tools counts for nothing.
    #[must_use]
    pub fn differences(&self, other: &Fingerprint) -> Vec<ConstructionInput> {
        let sorted = |tools: &[String]| {
            let mut tools = tools.to_vec();
            tools.sort();
            tools
        };
        [
            (ConstructionInput::Provider, self.provider != other.provider),
            (ConstructionInput::Model, self.model != other.model),
            (ConstructionInput::SystemMessage, self.system_message != other.system_message),
            (ConstructionInput::Tools, sorted(&self.tools) != sorted(&other.tools)),
        ]
        .into_iter()
        .filter_map(|(input, differs)| differs.then_some(input))
        .collect()
    }

    /// The fingerprint as a checkpoint holds it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let text = |text: &String| Json::String(text.clone());
        Json::Object(vec![
            ("provider".to_owned(), text(&self.provider)),
            ("model".to_owned(), text(&self.model)),
            ("systemMessage".to_owned(), text(&self.system_message)),
            ("tools".to_owned(), Json::Array(self.tools.iter().map(text).collect())),
        ])
    }

    /// Reads what [`Fingerprint::to_json`] wrote; the error names the member that is wrong.
    pub fn from_json(json: &Json) -> Result<Self, &'static str> {
        let hash = |value: Option<&Json>| value.and_then(Json::as_str).filter(|text| is_hash(text)).map(str::to_owned);
        let Some(Json::Array(tools)) = json.get("tools") else {
            return Err("tools");
        };
        Ok(Fingerprint {
            provider: hash(json.get("provider")).ok_or("provider")?,
            model: hash(json.get("model")).ok_or("model")?,
            system_message: hash(json.get("systemMessage")).ok_or("systemMessage")?,
            tools: tools.iter().map(|tool| hash(Some(tool))).collect::<Option<_>>().ok_or("tools")?,
        })
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
