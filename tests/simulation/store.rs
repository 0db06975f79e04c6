//! The store as the port describes it: one record, batches, claims with fences, idempotent operations.
//! It keeps its own clock, which is the executor's; faults are added outside, on the wire.

use agent_roundtable::conversation::effect::Summary;
use agent_roundtable::conversation::error::{Code, StoreFailure};
use agent_roundtable::conversation::input::{Batch, Claim, ReadBatches};
use agent_roundtable::record::model::Id;
use std::collections::BTreeMap;
use std::rc::Rc;

pub struct Store {
    conversation_id: Id,
    pub batches: Vec<Batch>,
    /// The fence under which each batch was written; 0 for the first.
    pub fences: Vec<u64>,
    pub claim: Option<Claim>,
    /// Set for good by a deletion; what was written is kept here for the checks alone.
    pub is_deleted: bool,
    /// The latest snapshot, with its revision.
    pub snapshot: Option<(u64, Rc<str>)>,
    operations: BTreeMap<String, u64>,
    last_fence: u64,
}

type Answer<T> = Result<T, StoreFailure>;

impl Store {
    pub fn new(conversation_id: Id) -> Self {
        Store {
            conversation_id,
            batches: Vec::new(),
            fences: Vec::new(),
            claim: None,
            is_deleted: false,
            snapshot: None,
            operations: BTreeMap::new(),
            last_fence: 0,
        }
    }

    pub fn revision(&self) -> u64 {
        self.batches.len() as u64
    }

    /// Who holds the record at this time.
    pub fn holder(&self, now_ms: u64) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.expires_at > now_ms as f64)
    }

    pub fn create(&mut self, entries: &[String], _summary: &Summary) -> Answer<()> {
        if !self.batches.is_empty() {
            return Err(refusal(Code::Conflict, "the record exists"));
        }
        self.push("create", entries, 0);
        Ok(())
    }

    pub fn claim(&mut self, owner_id: &Id, lease_ms: u64, now_ms: u64) -> Answer<Claim> {
        self.check_exists()?;
        if self.holder(now_ms).is_some() {
            return Err(refusal(Code::Busy, "the record is held"));
        }
        self.last_fence += 1;
        let claim = Claim {
            conversation_id: self.conversation_id.clone(),
            owner_id: owner_id.clone(),
            fence: self.last_fence,
            expires_at: (now_ms + lease_ms) as f64,
        };
        self.claim = Some(claim.clone());
        Ok(claim)
    }

    pub fn renew(&mut self, claim: &Claim, lease_ms: u64, now_ms: u64) -> Answer<Claim> {
        self.check_exists()?;
        self.check(claim, now_ms)?;
        let renewed = Claim { expires_at: (now_ms + lease_ms) as f64, ..claim.clone() };
        self.claim = Some(renewed.clone());
        Ok(renewed)
    }

    pub fn release(&mut self, claim: &Claim) {
        if self.claim.as_ref().is_some_and(|held| held.fence == claim.fence) {
            self.claim = None;
        }
    }

    /// What was written after a revision; a store may answer with fewer batches than there are.
    pub fn read(&self, after: u64, at_most: usize) -> Option<ReadBatches> {
        self.check_exists().ok()?;
        let batches = self.batches.iter().filter(|b| b.revision > after).take(at_most).cloned().collect();
        Some(ReadBatches { revision: self.revision(), batches })
    }

    pub fn append(
        &mut self,
        claim: &Claim,
        expected_revision: u64,
        operation_id: &str,
        entries: &[String],
        now_ms: u64,
    ) -> Answer<u64> {
        self.check_exists()?;
        if let Some(revision) = self.operations.get(operation_id) {
            return Ok(*revision);
        }
        self.check(claim, now_ms)?;
        if expected_revision != self.revision() {
            return Err(refusal(Code::Conflict, "another revision"));
        }
        Ok(self.push(operation_id, entries, claim.fence))
    }

    /// Keeps the state after a batch, unless a repeated append comes after a later one.
    pub fn keep(&mut self, revision: u64, snapshot: Option<Rc<str>>) {
        if let Some(snapshot) = snapshot.filter(|_| self.snapshot.as_ref().is_none_or(|(kept, _)| *kept < revision)) {
            self.snapshot = Some((revision, snapshot));
        }
    }

    /// Ends the present claim as if its time had run out.
    pub fn expire(&mut self) {
        self.claim = None;
    }

    fn check_exists(&self) -> Answer<()> {
        if self.batches.is_empty() || self.is_deleted {
            return Err(refusal(Code::NotFound, "no such record"));
        }
        Ok(())
    }

    fn check(&self, claim: &Claim, now_ms: u64) -> Answer<()> {
        match self.holder(now_ms) {
            Some(held) if held.fence == claim.fence && held.owner_id == claim.owner_id => Ok(()),
            _ => Err(refusal(Code::StaleClaim, "the claim is not the present one")),
        }
    }

    fn push(&mut self, operation_id: &str, entries: &[String], fence: u64) -> u64 {
        let revision = self.revision() + 1;
        self.operations.insert(operation_id.to_owned(), revision);
        self.batches.push(Batch { revision, operation_id: operation_id.to_owned(), entries: entries.to_vec() });
        self.fences.push(fence);
        revision
    }
}

pub fn refusal(code: Code, message: &str) -> StoreFailure {
    StoreFailure { code: Some(code), message: message.into(), value: None }
}

/// A failure that leaves open whether anything was written.
pub fn unknown(message: &str) -> StoreFailure {
    StoreFailure { code: None, message: message.into(), value: None }
}
