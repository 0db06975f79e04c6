// How the turns of a foreign runtime end: stopped, failed, or with a sink or a journal that fails.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deferred, execution, services, settle, turn } from './support/agent.mjs';
import { action, done, open, waits } from './support/runtime.mjs';
import { arrayJournal } from './support/session.mjs';

const model = { providerId: 'sdk', modelId: 'm' };
const never = () => assert.fail('ran again');

/** An execution that is stopped by `stop(reason)`. */
function stoppable(overrides = {}) {
  const controller = new AbortController();
  return { ...execution({ signal: controller.signal, ...overrides }), stop: (reason) => controller.abort(reason) };
}

describe('an end', () => {
  test('K14 the abort reason comes first, and a journal that failed as well is its cause', async () => {
    const [reason, boom] = [new Error('stop'), new Error('disk full')];
    const stopped = stoppable();
    const journal = {
      async append({ kind }) {
        if (kind !== 'tool-intent') return;
        stopped.stop(reason);
        throw boom;
      },
    };
    const lease = await open((_, context) => context.toolCall(action('t'), never), { journal: () => journal });
    await assert.rejects(lease.session.runTurn(turn('a1'), stopped), (error) => {
      assert.deepEqual([error.name, error.reason], ['AbortError', reason]);
      assert.deepEqual([error.cause.code, error.cause.cause], ['EXECUTION_JOURNAL_FAILED', boom]);
      return true;
    });
    await lease.release();
  });

  test('A48 K14 a journal that failed is what the turn fails with, whatever the runtime makes of it', async () => {
    const spent = new Error('spent');
    const refusing = () => services({ admit: () => Promise.reject(spent) });
    const run = async (_, context) => {
      await context.modelCall(model, never).catch(() => undefined);
      throw new Error('an error of the SDK');
    };
    const lease = await open(run);
    await assert.rejects(lease.session.runTurn(turn('a1'), execution({ services: refusing() })), {
      code: 'EXECUTION_JOURNAL_FAILED',
      cause: spent,
    });
    await lease.release();
  });

  test('A62 a signal that has fired before the turn begins nothing', async () => {
    let began = 0;
    const lease = await open(async () => done(String(++began)));
    const reason = new Error('stop');
    const stopped = stoppable();
    stopped.stop(reason);
    await assert.rejects(lease.session.runTurn(turn('a1'), stopped), (error) => error === reason);
    assert.equal(began, 0);
    await lease.release();
  });

  test('A13 K9 K10 a sink that fails when the run is over takes back its wait, its words and its history', async () => {
    const broken = new Error('sink');
    const endings = [waits([action('t')]), done('x', [1]), done('y', [2])];
    const runtime = {
      run: async (_, context) => {
        void context.onDelta('late');
        return endings.shift();
      },
      resume: async () => done('z'),
    };
    const lease = await open(runtime);
    const failing = () =>
      execution({
        onDelta: async () => {
          await settle();
          throw broken;
        },
      });
    for (const id of ['a1', 'a2']) {
      await assert.rejects(lease.session.runTurn(turn(id), failing()), (error) => error === broken);
      const { data, append } = await lease.session.checkpoint();
      assert.deepEqual([data.pending, data.firstTurnDone, append], [null, false, []]);
    }
    assert.equal((await lease.session.runTurn(turn('a3'), execution())).content, 'y');
    assert.deepEqual((await lease.session.checkpoint()).append, [2]);
    await lease.release();
  });

  test('K3 a stream that is read on when its turn is over is reported once', async () => {
    const noted = services();
    const over = deferred();
    const reading = deferred();
    async function* events() {
      yield 'a';
      await over.promise;
      yield 'b';
    }
    const lease = await open(async (_, context) => {
      const read = async () => {
        for await (const event of context.modelStream(model, events)) if (event === 'a') reading.resolve();
      };
      void read();
      await reading.promise;
      return done('x');
    });
    await lease.session.runTurn(turn('a1'), execution({ services: noted }));
    over.resolve();
    await settle();
    assert.deepEqual(
      noted.reports.map(({ outcome }) => outcome),
      ['failed'],
    );
    await lease.release();
  });

  test('A1 A60 a host’s own renderer makes the input, and is told which turn is the first', async () => {
    const inputs = [];
    const render = ({ turn: { attemptId }, firstTurn }) => `${attemptId} ${firstTurn}`;
    const lease = await open(async (input) => done(String(inputs.push(input))), { render });
    for (const id of ['a1', 'a2']) await lease.session.runTurn(turn(id), execution());
    assert.deepEqual(inputs, ['a1 true', 'a2 false']);
    await lease.release();
    const odd = await open(never, { render: () => 7 });
    await assert.rejects(odd.session.runTurn(turn('a1'), execution()), { code: 'EXECUTION_INPUT_INVALID' });
    await odd.release();
  });

  test('the conversation’s own journal is used where it is durable, and only there', async () => {
    for (const durable of [true, false]) {
      const journal = { ...arrayJournal(), durable };
      const lease = await open(async () => done('x'));
      await lease.session.runTurn(turn('a1'), execution({ services: { ...services(), journal } }));
      assert.equal(journal.records.length, durable ? 1 : 0);
      await lease.release();
    }
  });
});
