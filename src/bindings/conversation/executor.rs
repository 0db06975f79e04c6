//! Runs a conversation's tasks on JavaScript's single thread. Nothing here is scheduled with the host:
//! every call into the engine ends by draining what it made ready.

use crate::driver::host::Task;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// A queue of tasks, shared by the conversation's host and its handle.
#[derive(Clone, Default)]
pub(super) struct Executor(Rc<Inner>);

#[derive(Default)]
struct Inner {
    tasks: RefCell<Vec<Slot>>,
    vacant: RefCell<Vec<usize>>,
    ready: Arc<Ready>,
    draining: Cell<bool>,
}

/// Keys of tasks to be polled. Wakers must be shareable between threads, hence the lock; there is one thread.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

struct Slot {
    task: Option<Task>,
    waker: Waker,
}

struct Wakes {
    key: usize,
    ready: Arc<Ready>,
}

impl Executor {
    /// Takes a task; it is first polled by the next [`Executor::drain`].
    pub(super) fn spawn(&self, task: Task) {
        let vacant = self.0.vacant.borrow_mut().pop();
        let mut tasks = self.0.tasks.borrow_mut();
        let key = match vacant.and_then(|key| tasks.get_mut(key).map(|slot| (key, slot))) {
            Some((key, slot)) => {
                slot.task = Some(task);
                key
            }
            None => {
                let key = tasks.len();
                let waker = Waker::from(Arc::new(Wakes { key, ready: self.0.ready.clone() }));
                tasks.push(Slot { task: Some(task), waker });
                key
            }
        };
        self.0.ready.push(key);
    }

    /// Polls until nothing is ready. Host code that runs meanwhile may call in again: what it makes
    /// ready is polled by the drain already at work.
    pub(super) fn drain(&self) {
        if self.0.draining.replace(true) {
            return;
        }
        while let Some(key) = self.0.ready.pop() {
            self.poll(key);
        }
        self.0.draining.set(false);
    }

    /// Drops every task. They own the driver that owns this executor, so this is what frees all three.
    pub(super) fn clear(&self) {
        let tasks = self.0.tasks.take();
        self.0.vacant.borrow_mut().clear();
        drop(tasks);
    }

    // No borrow is held while the task runs: it may spawn.
    fn poll(&self, key: usize) {
        let taken =
            self.0.tasks.borrow_mut().get_mut(key).and_then(|slot| Some((slot.task.take()?, slot.waker.clone())));
        let Some((mut task, waker)) = taken else { return };
        let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            drop(task);
            if self.0.tasks.borrow().len() > key {
                self.0.vacant.borrow_mut().push(key);
            }
        } else if let Some(slot) = self.0.tasks.borrow_mut().get_mut(key) {
            slot.task = Some(task);
        }
    }
}

impl Ready {
    fn push(&self, key: usize) {
        if let Ok(mut keys) = self.0.lock() {
            keys.push_back(key);
        }
    }

    fn pop(&self) -> Option<usize> {
        self.0.lock().ok().and_then(|mut keys| keys.pop_front())
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.key);
    }
}
