//! Where answers of the host arrive. A port call opens a slot and gives its number to JavaScript, which
//! settles it once, at once or later; the future of the slot then has the value.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What a port call came to. Values arrive as text or numbers, so that one crossing is enough.
#[derive(Debug)]
pub(super) enum Answer {
    /// Done, nothing to say.
    Nothing,
    /// A revision, or the bits of a session's traits.
    Number(f64),
    /// JSON of the shape the call expects.
    Text(String),
    /// The content of a `speak` outcome, which needs no JSON.
    Speak(String),
    /// JSON of a `Thrown` or `StoreFailure`.
    Failed(String),
}

/// The open slots of one conversation.
#[derive(Clone, Default)]
pub(super) struct Slots(Rc<Inner>);

#[derive(Default)]
struct Inner {
    next: Cell<u32>,
    /// Few at a time: one for each member at work and each store call.
    open: RefCell<Vec<(u32, State)>>,
}

enum State {
    Waiting(Option<Waker>),
    Settled(Answer),
}

impl Slots {
    /// Opens a slot. Dropping it closes it: an answer that comes later is dropped.
    pub(super) fn open(&self) -> Slot {
        let id = self.0.next.get();
        self.0.next.set(id.wrapping_add(1));
        self.0.open.borrow_mut().push((id, State::Waiting(None)));
        Slot { id, slots: self.clone() }
    }

    /// Settles an open slot; the first answer stays.
    pub(super) fn settle(&self, id: u32, answer: Answer) {
        let waker = match self.0.open.borrow_mut().iter_mut().find(|(open, _)| *open == id) {
            Some((_, state @ State::Waiting(_))) => match std::mem::replace(state, State::Settled(answer)) {
                State::Waiting(waker) => waker,
                State::Settled(_) => None,
            },
            _ => None,
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One expected answer.
pub(super) struct Slot {
    id: u32,
    slots: Slots,
}

impl Slot {
    /// Its number on the JavaScript side.
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

impl Future for Slot {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut open = self.slots.0.open.borrow_mut();
        let Some(place) = open.iter().position(|(id, _)| *id == self.id) else { return Poll::Pending };
        match open.swap_remove(place) {
            (_, State::Settled(answer)) => Poll::Ready(answer),
            (id, State::Waiting(_)) => {
                open.push((id, State::Waiting(Some(context.waker().clone()))));
                Poll::Pending
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.0.open.borrow_mut().retain(|(id, _)| *id != self.id);
    }
}
