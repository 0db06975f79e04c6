//! A single-threaded executor with virtual time. Which of the ready tasks is polled next is drawn from
//! the seed; the clock moves only when no task is ready, or when a draw says that this host is slow.

use crate::rng::Rng;
use agent_roundtable::driver::host::Task;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

pub struct Executor {
    rng: Rc<Rng>,
    tasks: RefCell<Vec<Option<Task>>>,
    ready: Arc<Mutex<Vec<usize>>>,
    sleepers: RefCell<BTreeMap<(u64, u64), Waker>>,
    sleepers_made: Cell<u64>,
    now_ms: Cell<u64>,
    wall_shift_ms: Cell<i64>,
    /// How often the clock moves on while tasks are ready.
    pub slow_per_mille: Cell<u32>,
    /// When that last happened.
    pub lost_time_ms: Cell<Option<u64>>,
}

/// The longest time a slow host loses at once.
const SLOW_MS: u64 = 2_000;

/// What one step of the executor came to.
#[derive(PartialEq, Eq)]
pub enum Step {
    /// A task was polled.
    Polled,
    /// Nothing was ready; the clock moved to the next sleeper.
    Waited,
    /// Nothing is ready and nobody sleeps.
    Idle,
}

impl Executor {
    pub fn new(rng: Rc<Rng>) -> Rc<Self> {
        Rc::new(Executor {
            rng,
            tasks: RefCell::default(),
            ready: Arc::default(),
            sleepers: RefCell::default(),
            sleepers_made: Cell::new(0),
            now_ms: Cell::new(1_000),
            wall_shift_ms: Cell::new(1_700_000_000_000),
            slow_per_mille: Cell::new(0),
            lost_time_ms: Cell::new(None),
        })
    }

    /// The monotonic clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// The wall clock, which may be set back.
    pub fn wall_ms(&self) -> f64 {
        (self.now_ms.get() as i64 + self.wall_shift_ms.get()) as f64
    }

    pub fn shift_wall(&self, by_ms: i64) {
        self.wall_shift_ms.set(self.wall_shift_ms.get() + by_ms);
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn_boxed(Box::pin(task));
    }

    pub fn spawn_boxed(&self, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(Some(task));
        self.ready.lock().unwrap().push(tasks.len() - 1);
    }

    pub fn step(&self) -> Step {
        let slow = self.rng.chance(self.slow_per_mille.get()) && self.next_sleeper_within(SLOW_MS);
        let next = {
            let mut ready = self.ready.lock().unwrap();
            let count = ready.len();
            if slow {
                self.lost_time_ms.set(Some(self.now_ms()));
            }
            if count == 0 || slow { None } else { Some(ready.swap_remove(self.rng.below(count))) }
        };
        match next {
            Some(id) => self.poll(id),
            None => self.wait(),
        }
    }

    fn next_sleeper_within(&self, ms: u64) -> bool {
        self.sleepers.borrow().first_key_value().is_some_and(|((at, _), _)| *at <= self.now_ms() + ms)
    }

    fn poll(&self, id: usize) -> Step {
        let Some(mut task) = self.tasks.borrow_mut()[id].take() else { return Step::Polled };
        let waker = Waker::from(Arc::new(Ready { id, ready: self.ready.clone() }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.tasks.borrow_mut()[id] = Some(task);
        }
        Step::Polled
    }

    fn wait(&self) -> Step {
        let Some(((at, _), waker)) = self.sleepers.borrow_mut().pop_first() else { return Step::Idle };
        self.now_ms.set(self.now_ms.get().max(at));
        waker.wake();
        Step::Waited
    }

    /// Completes when the monotonic clock has moved this far; at once where `ms` is 0.
    pub fn sleep(self: &Rc<Self>, ms: u64) -> Sleep {
        Sleep { executor: self.clone(), until: self.now_ms().saturating_add(ms), key: None }
    }

    /// Drops every task, as the end of a process does.
    pub fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        self.sleepers.borrow_mut().clear();
        self.ready.lock().unwrap().clear();
    }
}

struct Ready {
    id: usize,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap();
        if !ready.contains(&self.id) {
            ready.push(self.id);
        }
    }
}

/// See [`Executor::sleep`]; a dropped one holds no clock back.
pub struct Sleep {
    executor: Rc<Executor>,
    until: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.executor.now_ms() >= self.until {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| {
            self.executor.sleepers_made.set(self.executor.sleepers_made.get() + 1);
            (self.until, self.executor.sleepers_made.get())
        });
        self.executor.sleepers.borrow_mut().insert(key, context.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.executor.sleepers.borrow_mut().remove(&key);
        }
    }
}

/// A value that arrives once and may be awaited by anyone.
pub struct Promise<T>(RefCell<(Option<T>, Vec<Waker>)>);

impl<T: Clone> Promise<T> {
    pub fn new() -> Rc<Self> {
        Rc::new(Promise(RefCell::new((None, Vec::new()))))
    }

    /// The first value stays; returns whether this was the first.
    pub fn set(&self, value: T) -> bool {
        let (first, wakers) = {
            let mut inner = self.0.borrow_mut();
            let first = inner.0.is_none();
            inner.0.get_or_insert(value);
            (first, std::mem::take(&mut inner.1))
        };
        wakers.into_iter().for_each(Waker::wake);
        first
    }

    pub fn get(&self) -> Option<T> {
        self.0.borrow().0.clone()
    }

    pub fn wait(self: &Rc<Self>) -> impl Future<Output = T> + use<T> {
        let promise = self.clone();
        poll_fn(move |context| {
            let mut inner = promise.0.borrow_mut();
            if let Some(value) = inner.0.clone() {
                return Poll::Ready(value);
            }
            inner.1.push(context.waker().clone());
            Poll::Pending
        })
    }
}

/// Which of two futures was first.
pub enum First<A, B> {
    Left(A),
    Right(B),
}

/// The first of two futures to complete; the other is dropped.
pub async fn race<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> First<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(move |context| {
        if let Poll::Ready(value) = Pin::as_mut(&mut left).poll(context) {
            return Poll::Ready(First::Left(value));
        }
        Pin::as_mut(&mut right).poll(context).map(First::Right)
    })
    .await
}
