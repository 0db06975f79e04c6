//! Loading: a stored conversation bound to what the host's registry gives today.

use super::config::Config;
use super::error::{Code, RoundtableError};
use super::fields::{Fields, MAX_ID};
use super::machine::Machine;
use super::recovery::{check_private_states, check_unsettled};
use super::writer::Gate;
use crate::record::entry::{Entry, Migrated};
use crate::record::fold::CONTEXT_POLICY;
use crate::record::model::{AgentTraits, Checkpoint, Id, ModelCalls, RuntimeReference, Selector};
use crate::record::state::{Phase, State};
use crate::value::Json;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A conversation whose references are all found, ready to go on.
#[derive(Debug)]
pub struct Bound {
    state: State,
    config: Config,
    migrations: Vec<Migration>,
}

/// A participant whose runtime has another version than the stored one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Position in declared order.
    pub participant: usize,
    /// The stored runtime.
    pub from: RuntimeReference,
    /// The one of today.
    pub to: RuntimeReference,
    /// Its saved private state, every append joined; once migrated, in the new form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// How many prepared results that state holds.
    #[serde(skip)]
    prepared: u64,
}

/// Binds a stored conversation. `today` is plain data as [`Config::read`] takes it, with what the registry
/// gives: `participants`, `selector` (`{reference, checkpointVersions}`), `priceVersion`,
/// `storeDurability`; `migrates` where the registry can, and `unsettled`, `refuse` or `reconcile`.
///
/// `invalid-config` names the reference that differs; `recovery-required` lists the turns whose outcome
/// is unknown, or names the participant whose private state is lost.
pub fn bind(state: State, today: &Json) -> Result<Bound, RoundtableError> {
    let fields = Fields::of(today, "options")?;
    let created = &state.created;
    check_same("the context policy", &created.context_policy, &context_policy())?;
    let price_version = fields.optional_text("priceVersion", 1, MAX_ID)?;
    if created.price_version != price_version {
        let shown = |version: &Option<Id>| version.as_ref().map_or("none".to_owned(), |version| format!("{version:?}"));
        let (stored, found) = (shown(&created.price_version), shown(&price_version));
        return Err(invalid(format!("pricing has version {found}, where version {stored} is stored")));
    }
    let mut config = Config::bound(&state, &fields)?;
    let migrates = fields.optional_bool("migrates")?.unwrap_or(false);
    let mut migrations = Vec::new();
    for (participant, (stored, found)) in created.participants.iter().zip(config.participants.iter()).enumerate() {
        let (Some(old), Some(new)) = (&stored.agent, &found.agent) else { continue };
        let name = format!("the runtime of participant {:?}", stored.id);
        let (from, to) = (&old.runtime, &new.runtime);
        let moves = from.id == to.id && from.version != to.version && migrates;
        if !moves {
            check_same(&name, from, to)?;
        }
        let declared = (old.model_calls, new.model_calls);
        if !moves && declared.0.is_some() && declared.0 != declared.1 {
            return Err(invalid(format!("{name} declares other modelCalls than it did")));
        }
        let parked =
            |phase| state.group.iter().flat_map(|g| &g.turns).any(|t| t.participant == participant && t.phase == phase);
        if parked(Phase::Parked) && !new.supports_continuation {
            return Err(invalid(format!("{name} must support continuation: its turn waits")));
        }
        let member = state.members.get(participant);
        let checkpoint = member.and_then(|member| member.checkpoint.clone());
        if moves {
            let prepared = member.map_or(0, |member| member.prepared);
            migrations.push(Migration { participant, from: from.clone(), to: to.clone(), checkpoint, prepared });
        } else if let Some(checkpoint) = checkpoint {
            check_version(&name, new, &checkpoint)?;
        }
    }
    if migrations.is_empty() {
        config.participants = created.participants.clone();
    }
    bind_selector(&state, &fields)?;
    if state.ended.is_none() {
        check_private_states(&state, |_, _| false)?;
        if fields.optional_choice("unsettled", &["refuse", "reconcile"])? != Some("reconcile") {
            check_unsettled(&state, |_| false)?;
        }
    }
    Ok(Bound { state, config, migrations })
}

fn bind_selector(state: &State, fields: &Fields<'_>) -> Result<(), RoundtableError> {
    let Selector::Host { reference, .. } = &state.created.selector else { return Ok(()) };
    let Some(stored) = reference else {
        return Err(invalid("the selector is stored without a reference, so none can be found for it".to_owned()));
    };
    let found = fields.object("selector")?;
    check_same("the selector", stored, &found.reference("reference")?)?;
    let versions = found.optional_texts("checkpointVersions", 64, MAX_ID)?.unwrap_or_default();
    match &state.selector_checkpoint {
        Some(saved) if !versions.contains(&saved.version) => {
            let version = &saved.version;
            Err(invalid(format!("the selector's checkpointVersions do not list the saved {version:?}")))
        }
        _ => Ok(()),
    }
}

impl Bound {
    /// What the host is to migrate, in declared order; only those with a checkpoint need its code.
    #[must_use]
    pub fn migrations(&self) -> &[Migration] {
        &self.migrations
    }

    /// The machine of a handle that goes on. `migrated` are the checkpoints in their new form, in the order
    /// of [`Bound::migrations`]; `model_calls` is what the selector declares today.
    pub fn open(
        mut self,
        owner: Id,
        migrated: Vec<Option<Checkpoint>>,
        model_calls: Option<ModelCalls>,
    ) -> Result<Machine, RoundtableError> {
        for (migration, checkpoint) in self.migrations.iter_mut().zip(migrated) {
            let found = self.config.participants.get(migration.participant);
            if let (Some(checkpoint), Some(found)) = (&checkpoint, found)
                && let Some(agent) = &found.agent
            {
                check_version(&format!("the migrated runtime of participant {:?}", found.id), agent, checkpoint)?;
            }
            migration.checkpoint = checkpoint;
        }
        if let Selector::Host { model_calls: stored @ Some(_), .. } = self.state.created.selector
            && stored != model_calls
        {
            return Err(invalid("the selector declares other modelCalls than it did".to_owned()));
        }
        let decisions = self.state.decisions;
        let mut machine = Machine::with(self.config, owner, self.state);
        machine.migrations = self.migrations;
        machine.selector_seen = Some(decisions);
        Ok(machine)
    }
}

impl Machine {
    /// Under the claim: the stored runtimes are those this handle was bound to, or are moved to them now.
    pub(super) fn check_binding(&mut self) -> Result<(), RoundtableError> {
        if Rc::ptr_eq(&self.head.created.participants, &self.config.participants) {
            return Ok(());
        }
        for position in 0..self.config.participants.len() {
            let agent = |participants: &[crate::record::model::Participant]| participants.get(position)?.agent.clone();
            let stored = agent(&self.head.created.participants);
            let (Some(stored), Some(bound)) = (stored, agent(&self.config.participants)) else { continue };
            if stored.runtime == bound.runtime {
                continue;
            }
            let prepared = self.head.members.get(position).map_or(0, |member| member.prepared);
            let fits = |m: &&Migration| m.participant == position && m.from == stored.runtime && m.prepared == prepared;
            let id = self.head.participant_id(position).cloned().unwrap_or_default();
            let Some(migration) = self.migrations.iter().find(fits) else {
                let message =
                    format!("participant {id:?} went on elsewhere since this handle was bound: load it again");
                return Err(RoundtableError::new(Code::Conflict, message));
            };
            let entry =
                Migrated { participant_id: id, at: self.at(), agent: bound, checkpoint: migration.checkpoint.clone() };
            self.push(Entry::Migrated(entry), Gate::None)?;
        }
        Ok(())
    }
}

fn check_same(what: &str, stored: &RuntimeReference, found: &RuntimeReference) -> Result<(), RoundtableError> {
    if stored == found {
        return Ok(());
    }
    let shown = |reference: &RuntimeReference| format!("{:?} version {:?}", reference.id, reference.version);
    Err(invalid(format!("{what} is {}, where {} is stored", shown(found), shown(stored))))
}

fn check_version(what: &str, agent: &AgentTraits, checkpoint: &Checkpoint) -> Result<(), RoundtableError> {
    if agent.checkpoint_versions.contains(&checkpoint.version) {
        return Ok(());
    }
    Err(invalid(format!("{what} does not list {:?} among its checkpointVersions", checkpoint.version)))
}

fn context_policy() -> RuntimeReference {
    RuntimeReference { id: CONTEXT_POLICY.0.into(), version: CONTEXT_POLICY.1.into() }
}

fn invalid(message: String) -> RoundtableError {
    RoundtableError::new(Code::InvalidConfig, message)
}
