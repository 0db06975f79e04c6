//! What can go wrong, and how often in which kind of schedule.

use crate::coverage::Coverage;
use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How rough a schedule is. The seed decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Everything answers; runs are still aborted and limits reached.
    Calm,
    /// Now and then something fails.
    Faulty,
    /// Most things fail at some time.
    Hostile,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident $faulty:literal $hostile:literal;)*) => {
        /// One kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];

            /// In so many cases of a thousand where it could happen.
            fn per_mille(self, mix: Mix) -> u32 {
                match (self, mix) {
                    (_, Mix::Calm) => 0,
                    $((Fault::$name, Mix::Faulty) => $faulty, (Fault::$name, Mix::Hostile) => $hostile,)*
                }
            }
        }
    };
}

faults! {
    /// A store call fails before it reaches the store.
    StoreDown 20 60;
    /// The store did it, the acknowledgement is lost.
    AckLost 20 60;
    /// The caller is told nothing; the store does it later.
    LandsLate 4 20;
    /// A store call takes long against the lease.
    StoreSlow 10 50;
    /// The store returns fewer batches than there are.
    ShortRead 100 300;
    /// The store acknowledges with a wrong revision.
    WrongReceipt 0 4;
    /// A line comes back changed.
    CorruptRead 0 150;
    /// Somebody deletes the record while nobody holds it.
    RecordDeleted 1 8;
    /// Another host takes the claim at once.
    ClaimStolen 3 12;
    /// The claim runs out in the store although it was renewed in time.
    ClaimExpired 3 12;
    /// The wall clock is set back or forward.
    WallClockSet 10 50;
    /// A timer fires after its time.
    TimerLate 50 200;
    /// A timer fires just before its time, as timers of real hosts do.
    TimerEarly 10 50;
    /// `dispose()` while a run works.
    DisposedInRun 15 30;
    /// `dispose()` from inside a callback.
    DisposedInside 4 10;
    /// A member rejects for a reason of its own.
    MemberThrew 8 25;
    /// A member returns `failed`.
    MemberFailed 8 20;
    /// A member waits in a way that cannot be parked.
    BadWait 40 120;
    /// A member says nothing more until its signal is long gone.
    MemberHung 20 60;
    /// A member returns its result although its signal fired.
    SignalIgnored 200 300;
    /// A member rejects for another reason after its signal fired.
    RudeStop 60 150;
    /// A checkpoint fails or has a version that its factory does not list.
    BadCheckpoint 6 20;
    /// A session does not open.
    OpenFailed 8 25;
    /// A session's release fails.
    ReleaseFailed 100 300;
    /// The selector throws.
    SelectorThrew 6 20;
    /// The selector decides what no run could do.
    BadSelection 6 20;
    /// The selector does not answer before its signal.
    SelectorHung 20 60;
    /// An observer never returns.
    ObserverHung 2 8;
    /// An observer takes its time.
    ObserverSlow 50 200;
    /// The price policy throws.
    PriceFailed 30 100;
    /// A call is reported by somebody else, or without admission.
    ForeignReport 60 150;
    /// A model call is asked for or reported after its attempt ended.
    LateService 60 150;
}

impl Fault {
    /// Whether a participant's or the selector's own failure is behind it, which is final (C7, C17).
    pub fn may_fail_the_conversation(self) -> bool {
        use Fault::*;
        let own = [MemberThrew, MemberFailed, MemberHung, BadWait, RudeStop, BadCheckpoint];
        own.contains(&self) || [SelectorThrew, BadSelection].contains(&self)
    }
}

/// Draws faults for one schedule and counts them.
pub struct Faults {
    mix: Mix,
    rng: Rc<Rng>,
    coverage: Rc<RefCell<Coverage>>,
    /// Set for the last part of a schedule, in which everything answers.
    quiet: Cell<bool>,
}

impl Faults {
    pub fn new(mix: Mix, rng: Rc<Rng>, coverage: Rc<RefCell<Coverage>>) -> Self {
        Faults { mix, rng, coverage, quiet: Cell::new(false) }
    }

    /// Whether this fault happens here and now.
    pub fn strikes(&self, fault: Fault) -> bool {
        let rate = if self.quiet.get() { 0 } else { fault.per_mille(self.mix) };
        let strikes = self.rng.chance(rate);
        if strikes {
            self.coverage.borrow_mut().fault(fault);
        }
        strikes
    }

    pub fn silence(&self) {
        self.quiet.set(true);
    }

    pub fn is_silent(&self) -> bool {
        self.quiet.get()
    }
}
