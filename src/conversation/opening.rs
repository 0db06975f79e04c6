//! The record under a call: created where there is none, read up to date where others wrote.

use super::calls::{Active, Stage};
use super::effect::Effect;
use super::error::{Code, RoundtableError, StoreFailure};
use super::input::{Batch, ReadBatches};
use super::machine::Machine;
use crate::record::codec::decode;
use crate::record::entry::Entry;
use crate::record::reading::RecordError;
use crate::record::state::State;

impl Machine {
    pub(super) fn create(&mut self) {
        let Some(creation) = &self.calls.creation else { return };
        let mut summary = self.summary();
        summary.created_at = creation.created.at.clone();
        self.effect(Effect::Create { entries: creation.lines.clone(), summary });
    }

    pub(super) fn record_created(&mut self, result: Result<(), StoreFailure>) {
        if !matches!(self.calls.active, Some(Active { stage: Stage::Creating, .. })) {
            return;
        }
        let uncertain = self.calls.creation.as_ref().is_some_and(|c| c.uncertain);
        match result {
            Ok(()) => self.begin_record(),
            Err(StoreFailure { code: Some(Code::Conflict), .. }) if uncertain => {
                self.calls.set_stage(Stage::Confirming);
                self.send_read(0);
            }
            Err(failure) => {
                if let Some(creation) = self.calls.creation.as_mut().filter(|_| failure.code.is_none()) {
                    creation.uncertain = true;
                }
                self.store_call_failed("create", failure);
            }
        }
    }

    pub(super) fn begin_record(&mut self) {
        let Some(creation) = self.calls.creation.take() else { return };
        match State::create(creation.created) {
            Ok(state) => {
                self.head = state.clone();
                self.durable = state;
                self.claim();
            }
            Err(reason) => self.fail_call(RoundtableError::new(Code::Internal, reason)),
        }
    }

    pub(super) fn send_read(&mut self, after: u64) {
        self.calls.reading = true;
        self.effect(Effect::Read { after });
    }

    pub(super) fn batches_read(&mut self, result: Result<Option<ReadBatches>, StoreFailure>) {
        self.calls.reading = false;
        match (self.calls.active.as_ref().map(|active| &active.stage), result) {
            (Some(Stage::Reading), Ok(Some(read))) => self.catch_up(read),
            (Some(Stage::Confirming), Ok(Some(read))) => {
                let ours = self.calls.creation.as_ref().map(|c| c.lines.to_vec());
                let first = read.batches.into_iter().next().map(|batch| batch.entries);
                if ours.is_some() && ours == first {
                    return self.begin_record();
                }
                self.calls.creation = None;
                self.fail_call(RoundtableError::new(Code::Conflict, "the conversation exists already"));
            }
            (Some(Stage::Reading | Stage::Confirming), Ok(None)) => {
                self.fail_call(RoundtableError::new(Code::NotFound, "the store has no such conversation"));
            }
            (Some(Stage::Reading | Stage::Confirming), Err(failure)) => self.store_call_failed("read", failure),
            _ => {}
        }
    }

    pub(super) fn catch_up(&mut self, read: ReadBatches) {
        let before = self.durable.revision;
        for batch in &read.batches {
            let due = self.durable.revision + 1;
            if batch.revision != due {
                let message = format!("the store gave batch {} where {due} was due", batch.revision);
                return self.fail_call(RoundtableError::new(Code::InvalidRecord, message));
            }
            self.writer.since += batch.entries.iter().map(String::len).sum::<usize>();
            let folded = match self.decoded(batch) {
                Ok(entries) => self.fold_durable(&entries, batch.revision),
                Err((at, reason)) => Err(RecordError { index: self.durable.entries + at, reason }),
            };
            if let Err(error) = folded {
                let message = error.to_string();
                let error = RoundtableError::new(Code::InvalidRecord, message);
                self.calls.broken = Some(error.clone());
                return self.fail_call(error);
            }
        }
        if self.durable.revision < read.revision && self.durable.revision > before {
            return self.send_read(self.durable.revision);
        }
        if self.durable.revision != read.revision {
            let message =
                format!("the store is at revision {}, this handle at {}", read.revision, self.durable.revision);
            return self.fail_call(RoundtableError::new(Code::InvalidRecord, message));
        }
        if self.head_is_stale || self.durable.revision != before {
            self.head = self.durable.clone();
            self.head_is_stale = false;
        }
        self.calls.set_stage(Stage::Working);
        self.begin_work();
    }

    /// The entries of a batch, or the place of the line that is none.
    fn decoded(&self, batch: &Batch) -> Result<Vec<Entry>, (u64, String)> {
        if batch.entries.is_empty() {
            return Err((0, "a batch holds entries".to_owned()));
        }
        (0..).zip(&batch.entries).map(|(at, line)| decode(line).map_err(|reason| (at, reason))).collect()
    }
}
