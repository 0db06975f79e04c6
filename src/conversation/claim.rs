//! The claim of a call: asked for, renewed, trusted for a time, lost.

use super::calls::{Active, Stage};
use super::effect::Effect;
use super::error::{Code, RoundtableError, StoreFailure};
use super::input::{Claim, Timer};
use super::machine::Machine;
use crate::record::model::StopReason;

/// A claim, and until when its owner may trust it by its own clock.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claim: Claim,
    pub(super) trusted_until: f64,
    sent: f64,
}

impl Machine {
    pub(super) fn claim(&mut self) {
        self.calls.set_stage(Stage::Claiming);
        self.send_claim();
    }

    pub(super) fn send_claim(&mut self) {
        let (owner_id, lease_ms) = (self.owner.clone(), self.config.lease_ms);
        // Trust counts from the moment of asking.
        self.calls.claim_sent = self.now.mono;
        self.effect(Effect::Claim { owner_id, lease_ms });
    }

    pub(super) fn claimed(&mut self, result: Result<Claim, StoreFailure>) {
        if !matches!(self.calls.active, Some(Active { stage: Stage::Claiming, .. })) {
            return;
        }
        match result {
            Ok(claim) => {
                self.hold(claim, self.calls.claim_sent);
                self.calls.set_stage(Stage::Reading);
                self.send_read(self.durable.revision);
            }
            Err(mut failure) => {
                // After a claim whose answer was lost, the holder may well be this handle.
                let unsure = self.calls.active.as_ref().is_some_and(|active| active.tries > 0);
                if unsure && failure.code == Some(Code::Busy) {
                    failure.code = Some(Code::Unavailable);
                }
                self.store_call_failed("claim", failure);
            }
        }
    }

    pub(super) fn hold(&mut self, claim: Claim, sent: f64) {
        let lease = self.config.lease_ms as f64;
        self.calls.claim = Some(Held { claim, trusted_until: sent + lease * 2.0 / 3.0, sent });
        self.arm(Timer::Lease, sent + lease / 3.0);
    }

    /// A third of the lease is over: renew, or, when it is no longer trusted, stop.
    pub(super) fn lease_due(&mut self) {
        // The renewal has had until the end of the trust, by the timer if not by a clock that stands still.
        if self.calls.renewing {
            return self.distrust();
        }
        let lease_ms = self.config.lease_ms;
        let Some(held) = &mut self.calls.claim else { return };
        held.sent = self.now.mono;
        let (claim, again) = (held.claim.clone(), held.trusted_until);
        self.calls.renewing = true;
        self.effect(Effect::Renew { claim, lease_ms });
        self.arm(Timer::Lease, again);
    }

    pub(super) fn renewed(&mut self, fence: u64, result: Result<Claim, StoreFailure>) {
        self.calls.renewing = false;
        let Some(held) = self.calls.claim.as_ref().filter(|held| held.claim.fence == fence) else { return };
        let sent = held.sent;
        match result {
            Ok(claim) => self.hold(claim, sent),
            // Unknown: the claim is trusted as long as it was, and asked for again before that ends.
            Err(StoreFailure { code: None, .. }) => {
                let pause = self.config.lease_ms as f64 / 12.0;
                self.arm(Timer::Lease, self.now.mono + pause);
            }
            Err(failure) => {
                let error = failure.to_error("renew");
                self.lose_claim(error);
            }
        }
    }

    /// An owner that cannot be sure of its claim any more acts as if it were lost.
    pub(super) fn check_trust(&mut self) {
        if self.calls.claim.as_ref().is_some_and(|held| self.now.mono >= held.trusted_until) {
            self.distrust();
        }
    }

    pub(super) fn distrust(&mut self) {
        if let Some(held) = self.calls.claim.take() {
            self.calls.untrusted = Some(held.claim);
            self.lose_claim(RoundtableError::new(Code::StaleClaim, "the claim could not be renewed in time"));
        }
    }

    /// Stops at once: the signals fire, and nothing more is written.
    pub(super) fn lose_claim(&mut self, error: RoundtableError) {
        self.calls.claim = None;
        self.disarm(Timer::Lease);
        if matches!(self.calls.active, Some(Active { stage: Stage::Releasing(_), .. })) {
            return;
        }
        self.signal_all(StopReason::Interrupted);
        self.fail_call(RoundtableError { code: Code::StaleClaim, ..error });
    }
}
