//! What the engine calls in JavaScript: one `ports` object for each conversation, made by the shell.
//!
//! A method with a `slot` returns at once and settles that slot later. None of them throws: the shell
//! catches what host code does, also where it returns something odd in place of a promise.

use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    /// The shell's ports object.
    #[wasm_bindgen(typescript_type = "unknown")]
    pub type Ports;

    /// Epoch milliseconds. Asked for every input, so without the cost of `catch`.
    #[wasm_bindgen(method, structural)]
    pub(super) fn now(this: &Ports) -> f64;
    /// Milliseconds on a clock that never goes back.
    #[wasm_bindgen(method, structural)]
    pub(super) fn mono(this: &Ports) -> f64;
    #[wasm_bindgen(method, structural, catch, js_name = startTimer)]
    pub(super) fn start_timer(this: &Ports, timer: u32, delay_ms: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = stopTimer)]
    pub(super) fn stop_timer(this: &Ports, timer: u32) -> Result<(), JsValue>;

    /// `batch`: see [`super::wire::batch`].
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn create(this: &Ports, slot: u32, batch: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn append(this: &Ports, slot: u32, batch: &str, snapshot: Option<&str>) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn claim(this: &Ports, slot: u32, owner_id: &str, lease_ms: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn renew(this: &Ports, slot: u32, claim: &str, lease_ms: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn release(this: &Ports, slot: u32, claim: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn read(this: &Ports, slot: u32, after: f64) -> Result<(), JsValue>;

    /// `restore`: where the selector must be made again first, the JSON of what from.
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn select(
        this: &Ports,
        slot: u32,
        attempt: &str,
        messages: u32,
        turns: u32,
        remaining_turns: f64,
        restore: Option<&str>,
    ) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = openSession)]
    pub(super) fn open_session(
        this: &Ports,
        slot: u32,
        session: u32,
        participant: u32,
        checkpoint: Option<&str>,
    ) -> Result<(), JsValue>;
    /// `responses` is absent for a new turn and present for one that continues.
    #[wasm_bindgen(method, structural, catch, js_name = runTurn)]
    pub(super) fn run_turn(
        this: &Ports,
        slot: u32,
        session: u32,
        turn: &str,
        responses: Option<&str>,
    ) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = takeCheckpoint)]
    pub(super) fn take_checkpoint(this: &Ports, slot: u32, session: u32) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = releaseSession)]
    pub(super) fn release_session(this: &Ports, slot: u32, session: u32) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn abort(this: &Ports, attempt: &str, reason: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = closeAttempt)]
    pub(super) fn close_attempt(this: &Ports, attempt: &str) -> Result<(), JsValue>;

    /// The JSON of an amount, or nothing.
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn price(this: &Ports, record: &str) -> Result<Option<String>, JsValue>;
    /// Whether somebody must be awaited; then `slot` is settled when the observers are done.
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn emit(this: &Ports, slot: u32, emission: &str) -> Result<bool, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn reply(this: &Ports, call: u32, ok: bool, result: &str) -> Result<(), JsValue>;
    /// `refusal`: absent where it went well, empty where the attempt was signalled, else a JSON error.
    #[wasm_bindgen(method, structural, catch)]
    pub(super) fn answer(this: &Ports, ticket: u32, refusal: Option<&str>) -> Result<(), JsValue>;
}
