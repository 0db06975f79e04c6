// Options are checked before anything is stored or called; every refusal names its field.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createRoundtable,
  externalParticipant,
  MemoryConversationStore,
  RoundtableError,
  roundRobin,
} from 'agent-roundtable';
import { agent, conversation, decisions, refuses, rejects, speaker, transcript } from './support/conversations.mjs';

const valid = (extra = {}) => ({
  conversationId: 'c',
  participants: [speaker('a', 'hello')],
  limits: { maxTurnsPerRun: 2 },
  ...extra,
});
const invalid = (extra, ...parts) => refuses(() => createRoundtable(valid(extra)), 'invalid-config', ...parts);
const LONG = (length) => 'x'.repeat(length);
/** Numbers that no count may be. */
const BAD_COUNTS = [0, -1, 1.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY, '3', null, 3n, {}];

describe('C1 ids and participants', () => {
  test('C1 the conversation id is text of 1 to 512 units', () => {
    for (const conversationId of [undefined, null, '', 7, LONG(513), {}, '\ud800']) {
      invalid({ conversationId }, 'conversationId');
    }
    createRoundtable(valid({ conversationId: LONG(512) }));
    createRoundtable(valid({ conversationId: 'Ünïcode with spaces 🙂 and 東京' }));
  });

  test('C1 there are 1 to 1,000 participants', () => {
    for (const participants of [undefined, [], 'a', {}, null]) invalid({ participants }, 'participants');
    const crowd = (count) => Array.from({ length: count }, (_, index) => externalParticipant({ id: `p${index}` }));
    invalid({ participants: crowd(1001) }, 'participants', '1000');
    createRoundtable(valid({ participants: crowd(1000) }));
  });

  test('C1 participant ids are unique and printable', () => {
    invalid({ participants: [speaker('a'), speaker('a')] }, 'participants[1].id');
    for (const id of ['', LONG(513), 'two\nlines', 'a\u0000b', 'a\u2028b', 'a\u0085b', '\udfff', 5, undefined]) {
      invalid({ participants: [{ ...agent('a'), id }] }, 'participants[0].id');
    }
    createRoundtable(valid({ participants: [agent(LONG(300)), agent('a b'), agent('日本語')] }));
  });

  test('C1 kind, runtime and description are checked', () => {
    invalid({ participants: [{ ...agent('a'), kind: 'robot' }] }, 'participants[0].kind');
    invalid({ participants: [{ ...agent('a'), kind: undefined }] }, 'participants[0].kind');
    invalid({ participants: [{ ...agent('a'), runtime: undefined }] }, 'participants[0].runtime');
    invalid({ participants: [{ ...agent('a'), runtime: { id: '', version: '1' } }] }, 'participants[0].runtime.id');
    invalid({ participants: [{ ...agent('a'), runtime: { id: 'r' } }] }, 'participants[0].runtime.version');
    invalid({ participants: [{ ...agent('a'), description: LONG(8193) }] }, 'participants[0].description', '8192');
    createRoundtable(valid({ participants: [{ ...agent('a'), description: LONG(8192) }] }));
  });

  test('C1 a participant is an object whose factory opens sessions', () => {
    invalid({ participants: [null] }, 'participants[0]');
    invalid({ participants: [{ ...agent('a'), factory: undefined }] }, 'participants[0].factory');
    invalid({ participants: [{ ...agent('a'), factory: {} }] }, 'participants[0].factory.openSession');
    const factory = (extra) => ({ participants: [{ ...agent('a'), factory: { async openSession() {}, ...extra } }] });
    invalid(factory({ supportsContinuation: 'yes' }), 'supportsContinuation');
    invalid(factory({ checkpointVersions: 'v1' }), 'checkpointVersions');
    invalid(factory({ checkpointVersions: [''] }), 'checkpointVersions[0]');
    invalid(factory({ modelCalls: 'some' }), 'modelCalls');
  });

  test('C1 purpose is text of at most 8,192 units', () => {
    for (const purpose of [5, {}, LONG(8193)]) invalid({ purpose }, 'purpose');
    createRoundtable(valid({ purpose: LONG(8192) }));
  });
});

describe('C2 limits', () => {
  const LIMITS = [
    'maxTurnsPerRun',
    'timeoutMs',
    'settleTimeoutMs',
    'maxModelCallsPerRun',
    'maxModelCallsPerConversation',
    'maxModelCallsPerParticipant',
    'maxTokensPerRun',
  ];

  for (const name of LIMITS) {
    test(`C2 limits.${name} is a positive safe integer`, () => {
      for (const value of BAD_COUNTS) invalid({ limits: { maxTurnsPerRun: 2, [name]: value } }, `limits.${name}`);
      const metered = agent('a', {}, { modelCalls: 'metered' });
      const limits = { maxTurnsPerRun: 2, [name]: Number.MAX_SAFE_INTEGER };
      createRoundtable(valid({ participants: [metered], limits }));
    });
  }

  test('C2 maxTurnsPerRun is required', () => {
    invalid({ limits: {} }, 'limits.maxTurnsPerRun');
    invalid({ limits: undefined }, 'limits');
    invalid({ limits: 5 }, 'limits');
    invalid({ limits: { maxTurnsPerRun: undefined } }, 'limits.maxTurnsPerRun');
  });

  for (const name of ['maxConcurrentParticipants', 'leaseMs']) {
    test(`C2 ${name} is a positive safe integer`, () => {
      for (const value of BAD_COUNTS) invalid({ [name]: value }, name);
      createRoundtable(valid({ [name]: 1 }));
    });
  }

  test('C2 the limits of run() are checked alike', async () => {
    const { run } = createRoundtable(valid());
    assert.ok(run);
    const roundtable = conversation([speaker('a', 'hello')]);
    for (const value of BAD_COUNTS) {
      await rejects(roundtable.run({ limits: { maxTurnsPerRun: value } }), 'invalid-config', 'limits.maxTurnsPerRun');
    }
    await rejects(roundtable.run({ limits: 5 }), 'invalid-config', 'limits');
    await rejects(roundtable.run({ limits: { maxTokensPerRun: 5 } }), 'invalid-config', 'modelCalls');
    await rejects(roundtable.run({ signal: 'now' }), 'invalid-config', 'signal');
    await rejects(roundtable.run(5), 'invalid-config', 'options');
    assert.equal(roundtable.snapshot().revision, 0);
    assert.equal(await roundtable.store.load(roundtable.id), undefined);
  });
});

describe('C3 metering', () => {
  const NEEDING = [
    { limits: { maxTurnsPerRun: 1, maxModelCallsPerRun: 1 } },
    { limits: { maxTurnsPerRun: 1, maxModelCallsPerConversation: 1 } },
    { limits: { maxTurnsPerRun: 1, maxModelCallsPerParticipant: 1 } },
    { limits: { maxTurnsPerRun: 1, maxTokensPerRun: 1 } },
    { pricing: { version: '1', cost: () => null } },
  ];
  const metered = agent('m', {}, { modelCalls: 'metered' });
  const none = agent('n', {}, { modelCalls: 'none' });

  test('C3 call limits, token limits and prices need every factory and the selector to declare modelCalls', () => {
    for (const extra of NEEDING) {
      invalid({ ...extra, participants: [metered, agent('a')] }, 'participants[1]', 'modelCalls');
      invalid({ ...extra, participants: [metered], selector: decisions() }, 'selector.modelCalls');
      createRoundtable(valid({ ...extra, participants: [metered, none, externalParticipant({ id: 'p' })] }));
      createRoundtable(valid({ ...extra, participants: [none], selector: { ...decisions(), modelCalls: 'none' } }));
    }
  });

  test('C3 a price policy has a version and a cost', () => {
    for (const version of ['', undefined, 5, LONG(513)]) {
      invalid({ participants: [none], pricing: { version, cost: () => null } }, 'ersion');
    }
    invalid({ participants: [none], pricing: { version: '1' } }, 'pricing.cost');
    invalid({ participants: [none], pricing: null }, 'pricing');
  });
});

test('C4 recovery durable is refused where it cannot be kept', () => {
  const durable = Object.assign(new MemoryConversationStore(), {});
  Object.defineProperty(durable, 'durability', { value: 'durable' });
  const keeping = agent('a', {}, { checkpointVersions: ['v1'] });
  const recovery = 'durable';
  invalid({ recovery, participants: [keeping] }, 'recovery', 'durability');
  invalid({ recovery, participants: [keeping], store: new MemoryConversationStore() }, 'recovery', 'durability');
  invalid({ recovery, participants: [keeping, agent('b')], store: durable }, 'participants[1]', 'checkpointVersions');
  invalid({ recovery, participants: [keeping], store: durable, selector: decisions() }, 'selector.reference');
  invalid({ recovery: 'some' }, 'recovery');
  const selector = { ...decisions(), reference: { id: 's', version: '1' } };
  createRoundtable(valid({ recovery, participants: [keeping], store: durable, selector }));
  createRoundtable(valid({ recovery, participants: [keeping], store: durable }));
});

describe('C5 the caller keeps its objects', () => {
  test('C5 later edits of the options change nothing', async () => {
    const options = valid({
      participants: [speaker('a', 'one', 'two')],
      selector: decisions({ kind: 'speak', participantId: 'a' }),
      purpose: 'before',
      onEvent: () => {},
    });
    const roundtable = createRoundtable(options);
    options.participants[0].id = 'z';
    options.participants[0].factory.openSession = () => assert.fail('replaced');
    options.participants.length = 0;
    options.limits.maxTurnsPerRun = 99;
    options.selector.select = () => assert.fail('replaced');
    options.purpose = 'after';
    options.onEvent = () => assert.fail('replaced');
    options.store = null;
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: one']);
    assert.equal(roundtable.snapshot().purpose, 'before');
  });

  test('C5 options, participants and references are not modified', async () => {
    const freeze = (value) => {
      if (typeof value === 'object' && value !== null) Object.values(value).forEach(freeze);
      return Object.freeze(value);
    };
    const session = freeze({ runTurn: async () => ({ kind: 'speak', content: 'x' }) });
    const participant = freeze({
      ...agent('a'),
      calls: undefined,
      factory: { openSession: async () => ({ session, release: async () => {} }) },
    });
    const options = freeze({ conversationId: 'c', participants: [participant], limits: { maxTurnsPerRun: 1 } });
    assert.equal((await createRoundtable(options).run()).status, 'limited');
  });
});

describe('ports at the door', () => {
  test('a selector has select', () => {
    for (const selector of [null, 5, {}, { select: 'a' }]) invalid({ selector }, 'selector');
    invalid({ selector: { ...decisions(), reference: { id: 's' } } }, 'selector.reference.version');
    invalid({ selector: { ...decisions(), checkpoint: 5 } }, 'selector.checkpoint');
    invalid({ selector: { ...decisions(), modelCalls: 'many' } }, 'selector.modelCalls');
    createRoundtable(valid({ selector: roundRobin() }));
  });

  test('a store has its functions', () => {
    for (const method of ['create', 'read', 'claim', 'renew', 'release', 'append']) {
      const store = new MemoryConversationStore();
      Object.defineProperty(store, method, { value: undefined });
      invalid({ store }, `store.${method}`);
    }
    for (const store of [null, 5]) invalid({ store }, 'store');
    const odd = new MemoryConversationStore();
    Object.defineProperty(odd, 'durability', { value: 'eternal' });
    invalid({ store: odd }, 'urability');
  });

  test('a clock has its functions, observers are functions, a seed is text', () => {
    for (const clock of [null, {}, { now: Date.now, setTimeout, clearTimeout: 5 }]) invalid({ clock }, 'clock');
    const timers = { setTimeout, clearTimeout };
    const unthrowable = () => {
      throw new Error('no time');
    };
    for (const time of [Number.NaN, -5, 8.64e15 + 1, 9e15, Infinity, -Infinity, undefined, '1', 1n, new Date()])
      invalid({ clock: { ...timers, now: () => time } }, 'clock.now');
    invalid({ clock: { ...timers, now: unthrowable } }, 'clock.now');
    for (const time of [0, 1.5, 8.64e15]) createRoundtable(valid({ clock: { ...timers, now: () => time } }));
    invalid({ onEvent: 'log' }, 'onEvent');
    invalid({ onEventError: {} }, 'onEventError');
    for (const seed of ['', 5, LONG(513)]) invalid({ seed }, 'seed');
  });

  test('options are an object', () => {
    for (const options of [undefined, null, 5, 'x', []]) {
      refuses(() => createRoundtable(options), 'invalid-config', 'options');
    }
  });

  test('values that are no plain data are refused with their path', () => {
    for (const value of [new Date(), new Map(), 5n, () => {}, Symbol('s'), new (class Limits {})()]) {
      invalid({ limits: { maxTurnsPerRun: 1, timeoutMs: value } }, 'limits.timeoutMs');
      invalid({ purpose: value }, 'purpose');
    }
  });

  test('nothing is called by creating a conversation but the clock, for its time', () => {
    const trap = () => assert.fail('called');
    const store = new Proxy(new MemoryConversationStore(), {
      get: (target, key) => (key === 'durability' ? 'memory' : typeof target[key] === 'function' ? trap : undefined),
    });
    const clock = { now: () => 0, setTimeout: trap, clearTimeout: trap };
    const factory = { openSession: trap };
    const participants = [{ ...agent('a'), factory }];
    createRoundtable(valid({ store, clock, participants, selector: { select: trap }, onEvent: trap }));
  });
});

test('RoundtableError is an Error with a code, and instanceof holds across copies of the package', () => {
  const error = invalid({ conversationId: '' });
  assert.ok(error instanceof Error);
  assert.equal(error.name, 'RoundtableError');
  assert.match(error.stack, /RoundtableError: conversationId/);
  // What another copy makes: the same brand on a class of its own.
  class Foreign extends Error {}
  Object.defineProperty(Foreign.prototype, Symbol.for('agent-roundtable/RoundtableError'), { value: true });
  assert.ok(new Foreign('x') instanceof RoundtableError);
  assert.ok(!(new Error('x') instanceof RoundtableError));
  for (const other of [null, undefined, 5, 'invalid-config']) assert.ok(!(other instanceof RoundtableError));
  class Special extends RoundtableError {}
  assert.ok(new Special('busy', 'x') instanceof Special);
  assert.ok(!(error instanceof Special));
});
