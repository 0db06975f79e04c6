//! How tools run: side by side, each doing its deed at some moment. A turn that is stopped has them finish where its
//! machine says so, as long as its host is patient; what they come to after that is told to nobody.

use super::outside::{Deed, Planted, TOOLS};
use super::turn::{ABORTED, Next, Performance, text};
use crate::executor::{First, Promise, race};
use agent_roundtable::value::Json;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl Performance {
    pub(super) async fn run_tools(self: &Rc<Self>, runs: Vec<Json>) -> Next {
        let (effects, is_over) = (Rc::<RefCell<Vec<Json>>>::default(), Rc::new(Cell::new(false)));
        let over = Promise::new();
        for run in runs {
            let (task, effects, is_over, over) = (self.clone(), effects.clone(), is_over.clone(), over.clone());
            self.host.world.executor.spawn(async move {
                let input = task.run_tool(&run).await;
                // By now another attempt may have run it again.
                if is_over.get() {
                    return task.note("result after the end");
                }
                for effect in task.tell(&input) {
                    is_over.set(is_over.get() || text(&effect, "kind") != "record");
                    effects.borrow_mut().push(effect);
                }
                if is_over.get() {
                    over.set(());
                } else {
                    effects.take().iter().for_each(|effect| task.write(effect.get("record").unwrap()));
                }
            });
        }
        race(over.wait(), self.attempt.signal.wait()).await;
        if !is_over.get() {
            let mut end = self.tell(ABORTED);
            if end.is_empty() {
                self.note("stop waits for tools");
                if self.in_time(&over).await {
                    return Next::Effects(effects.take());
                }
                self.note("stop waits no longer");
                end = self.tell(ABORTED);
            }
            is_over.set(true);
            return Next::Effects(end);
        }
        Next::Effects(effects.take())
    }

    async fn in_time(&self, over: &Rc<Promise<()>>) -> bool {
        match self.outside.patience_ms() {
            None => {
                over.wait().await;
                true
            }
            Some(ms) => matches!(race(over.wait(), self.host.world.executor.sleep(ms)).await, First::Left(())),
        }
    }

    /// One tool: the process may die before it has done anything, and after.
    async fn run_tool(&self, run: &Json) -> String {
        let world = &self.host.world;
        let (call_id, key) = (text(run, "callId"), text(run, "idempotencyKey"));
        let number = |key: &str| match run.get(key) {
            Some(Json::Number(number)) => *number as usize,
            _ => usize::MAX,
        };
        let (index, tool) = (number("index"), number("tool"));
        let (turn_id, execution_id, arguments) = (&self.turn_id, &self.execution_id, run.get("arguments").unwrap());
        let deed = Deed { turn_id, execution_id, call_id: &call_id, index, tool, key: &key, arguments };
        self.outside.check_call(world, &deed);
        world.executor.sleep(world.pause_ms()).await;
        if world.dies(false, || vec!["deed".to_owned()]) {
            return std::future::pending().await;
        }
        self.outside.perform(world, &deed);
        match self.outside.planted {
            Some(Planted::DeedTwice) => self.outside.perform(world, &deed),
            Some(Planted::ApprovalReused) => {
                self.outside.check_permission(world, &Deed { key: &format!("{key}+"), ..deed });
            }
            _ => {}
        }
        if world.dies(true, || vec!["deed".to_owned()]) {
            return std::future::pending().await;
        }
        // Long enough that a run is often stopped meanwhile.
        world.executor.sleep(world.pause_ms() * world.rng.between(1, 5)).await;
        let at = world.executor.wall_ms();
        let what = TOOLS[tool].0;
        let mut input = match world.rng.below(12) {
            0 => json!({ "kind": "tool-failed", "message": format!("{what} is out of order") }),
            1 => json!({ "kind": "tool-result-invalid", "message": "result must be JSON" }),
            _ => json!({ "kind": "tool-returned", "result": { "did": what, "of": index } }),
        };
        (input["callId"], input["index"], input["at"]) = (call_id.into(), index.into(), at.into());
        input.to_string()
    }
}
