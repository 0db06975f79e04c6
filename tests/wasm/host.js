// The smallest host of a conversation: a store in memory and one agent, whose behaviour a test names.
// It does what the TypeScript shell does, without its checks, so that the bindings are tested alone.

export class TestHost {
  constructor(behaviour) {
    this.behaviour = behaviour;
    this.log = [];
    this.calls = new Map();
    this.signals = new Map();
    this.batches = [];
    this.next = 0;
    this.turns = 0;
  }

  attach(handle) {
    this.handle = handle;
    handle.setObserved(true);
  }

  ports() {
    const settle = (slot, work) => {
      Promise.resolve()
        .then(work)
        .then(
          (value) =>
            typeof value === 'number' ? this.handle.settleNumber(slot, value) : this.handle.settle(slot, value),
          (error) =>
            this.handle.fail(slot, JSON.stringify({ message: error.message, isAbort: error.name === 'AbortError' })),
        );
    };
    return {
      now: () => Date.now(),
      mono: () => performance.now(),
      startTimer() {},
      stopTimer() {},
      create: (slot, batch) => settle(slot, () => void this.store(batch)),
      append: (slot, batch) => settle(slot, () => this.store(batch)),
      claim: (slot, ownerId) =>
        settle(slot, () => JSON.stringify({ conversationId: 'c', ownerId, fence: 1, expiresAt: Date.now() + 30000 })),
      renew: (slot, claim) => settle(slot, () => claim),
      release: (slot) => settle(slot, () => undefined),
      read: (slot) => settle(slot, () => JSON.stringify({ revision: this.batches.length, batches: [] })),
      select: (slot, _attempt, messages) => settle(slot, () => this.select(messages)),
      // At once, inside the call.
      openSession: (slot) => this.handle.settleNumber(slot, 0),
      runTurn: (slot, _session, turn) => this.runTurn(slot, JSON.parse(turn), settle),
      takeCheckpoint() {},
      releaseSession: (slot) => settle(slot, () => undefined),
      abort: (attempt, reason) => this.signals.get(attempt)?.(reason),
      closeAttempt: () => this.log.push('closed'),
      price: () => undefined,
      emit: (slot, emission) => this.emit(slot, JSON.parse(emission), settle),
      reply: (call, ok, result) => this.reply(call, ok, JSON.parse(result)),
      answer: (_ticket, refusal) => this.log.push(`answer: ${refusal ?? 'ok'}`),
    };
  }

  run() {
    return this.call((call) => this.handle.run(call, undefined, this.behaviour === 'aborted'));
  }

  dispose() {
    return this.call((call) => this.handle.call(call, '{"dispose":{"inside":false}}'));
  }

  call(start) {
    const call = this.next++;
    return new Promise((resolve) => {
      this.calls.set(call, resolve);
      start(call);
    });
  }

  store(batch) {
    if (this.behaviour === 'store fails') throw new Error('disk full');
    this.batches.push(batch);
    return this.batches.length;
  }

  select(messages) {
    if (this.behaviour === 'selector throws') throw new Error('no idea');
    const selection = messages === 0 ? { kind: 'speak', participantId: 'a' } : { kind: 'finish', reason: 'said' };
    return JSON.stringify({ selection });
  }

  runTurn(slot, turn, settle) {
    this.turns += 1;
    switch (this.behaviour) {
      case 'throws':
        return settle(slot, () => Promise.reject(new Error('broken')));
      case 'hangs':
        this.signals.set(turn.attemptId, (reason) => {
          this.log.push(`signal: ${reason}`);
          settle(slot, () => Promise.reject(new DOMException('stopped', 'AbortError')));
        });
        return this.handle.abortRun(this.next - 1);
      case 're-enters':
        // Calls in while the engine is calling out.
        void this.run().then((refused) => this.log.push(refused));
        this.handle.admit(7, turn.attemptId, '{"callId":"c1","providerId":"p","modelId":"m"}');
        this.log.push(`revision ${this.handle.revision()} inside`);
        return this.handle.settleSpeak(slot, 'at once');
      case 'port throws':
        throw new Error('a fault of the shell');
      case 'streams':
        for (const text of ['one ', 'two']) this.log.push(`delta: ${text}`);
        return this.handle.settleSpeak(slot, 'one two');
      default:
        return settle(slot, () => '{"kind":"speak","content":"hello 🙂"}');
    }
  }

  emit(slot, emission, settle) {
    for (const event of emission.kinds ?? emission.events) this.log.push(`event: ${event.type}`);
    settle(slot, () => new Promise((resolve) => setTimeout(resolve, 1)));
    return true;
  }

  reply(call, ok, result) {
    const text = ok ? JSON.stringify(result) : `${result.code}: ${result.message}`;
    this.calls.get(call)(text);
    this.calls.delete(call);
  }

  logged() {
    return this.log.join('\n');
  }
}
