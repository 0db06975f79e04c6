// Runs of a team: failures, pauses, caps, crashes, cancelling, and being taken up again.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadTeam, MemoryConversationStore, renderTeamRooms } from 'agent-roundtable';
import { virtualClock } from 'agent-roundtable/testing';
import { deferred } from './support/conversations.mjs';
import {
  deadClock,
  definition,
  dialogue,
  dying,
  failure,
  lines,
  PAIR,
  post,
  says,
  scripted,
  stores,
  team,
  texts,
  unclaimed,
} from './support/teams.mjs';

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
    test('T13 failure beats pause in either order, also on replay', async () => {
      for (const order of [
        [0, 20],
        [20, 0],
      ]) {
        const store = await makeStore();
        const wait = (delay) => new Promise((resolve) => setTimeout(resolve, delay));
        const { members } = scripted({
          a: async (_, { pause }) => wait(order[0]).then(() => pause('ask', null)),
          b: async () => wait(order[1]).then(() => Promise.reject(Object.assign(new Error('no'), { code: 'DENIED' }))),
        });
        const both = definition(['a', 'b'], {}, { concurrency: 2 });
        const outcome = await team({ runId: 'r', definition: both, members, store }).run();
        assert.deepEqual(failure(outcome), ['TEAM_NODE_FAILED', 'b DENIED']);
        const again = await loadTeam({ runId: 'r', store, members });
        assert.deepEqual(await again.run(), outcome);
      }
    });

    test('T14 a pause waits for its batch; resumed, the turn keeps its position and its input', async () => {
      const store = await makeStore();
      const { members, calls, positions } = scripted({
        a: [
          (_, { pause, responses }) =>
            responses.length === 0 ? pause('which one?', { options: [1, 2] }) : says('done'),
          says('done again'),
        ],
        b: [says('b', post('room', 'news', 'a'))],
      });
      const both = definition(['a', 'b'], { room: ['a', 'b'] }, { concurrency: 2 });
      const one = team({ runId: 'r', definition: both, members, store });
      const paused = await one.run();
      assert.deepEqual([paused.status, paused.reason], ['paused', 'which one?']);
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1'], 'the batch went on');
      const [request] = paused.requests;
      assert.deepEqual([request.memberId, request.turnId, request.data], ['a', 'team/a/1', { options: [1, 2] }]);
      assert.deepEqual(await one.run(), paused, 'nothing is dispatched meanwhile');
      await assert.rejects(one.resume({ position: 'team/a/2' }), { code: 'not-found' });
      const again = await loadTeam({ runId: 'r', store, members });
      const outcome = await again.resume({
        requestId: request.id,
        responseId: 'answer',
        expectedRevision: paused.revision,
        response: { kind: 'input', content: 'the second' },
      });
      assert.equal(outcome.status, 'completed');
      assert.deepEqual(positions().slice(2), ['team/a/1', 'team/a/2']);
      assert.deepEqual(texts(calls[2]), [], 'the original input');
      const { responses, newerMessages } = calls[2].options;
      assert.deepEqual([responses[0].response.content, newerMessages], ['the second', 1]);
    });

    test('T16 a third turn under a cap of two is TEAM_TURN_LIMIT, with what there is', async () => {
      const loop = () => scripted({ a: [says('again', post('room', 'me', 'a'))] }).members;
      const capped = definition(['a'], { room: ['a'] }, { cap: 2 });
      const outcome = await team({ definition: capped, members: loop(), store: await makeStore() }).run();
      assert.deepEqual(failure(outcome), ['TEAM_TURN_LIMIT', 'a TEAM_TURN_LIMIT']);
      assert.equal(outcome.output.agents[0].result.summary, 'again');
      assert.deepEqual(outcome.pending, [{ id: 'a', messages: ['team/a/2/0'] }]);
      const soft = { definition: capped, members: loop(), softTurnLimit: true, store: await makeStore() };
      const limited = await team(soft).run();
      assert.deepEqual([limited.status, limited.output.agents[0].result.summary], ['limited', 'again']);
    });

    test('T21 after a crash behind a saved question only the remaining turns run, to the same end', async () => {
      const whole = await makeStore();
      const expected = await team({ runId: 'r', definition: PAIR, members: dialogue().members, store: whole }).run();
      const rooms = await renderTeamRooms({ store: whole, runId: 'r' });
      for (let appends = 0; appends < 6; appends++) {
        const store = await makeStore();
        const first = dialogue();
        for (const member of Object.values(first.members)) member.retrySafe = true;
        team({
          runId: 'r',
          definition: PAIR,
          members: first.members,
          store: dying(store, appends),
          clock: deadClock,
          leaseMs: 300,
        })
          .run()
          .catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 100));
        const second = dialogue();
        const outcome = await unclaimed(async () => {
          return await (await loadTeam({ runId: 'r', store, members: second.members })).run();
        });
        assert.deepEqual(outcome.output, expected.output, `${appends} appends`);
        const done = new Set(second.positions());
        assert.equal(done.size, second.positions().length, 'no turn twice');
        assert.deepEqual((await renderTeamRooms({ store, runId: 'r' })).rooms[0].text, rooms.rooms[0].text);
      }
    });

    test('T22 a completed run reopened gives the same, appends nothing and calls nobody', async () => {
      const store = await makeStore();
      const { members } = dialogue();
      const outcome = await team({ runId: 'r', definition: PAIR, members, store }).run();
      const before = await lines(store, 'r');
      const { members: fresh, calls } = dialogue();
      assert.deepEqual(await team({ runId: 'r', definition: PAIR, members: fresh, store }).run(), outcome);
      const loaded = await loadTeam({ runId: 'r', store, members: fresh });
      assert.deepEqual(await loaded.run(), outcome);
      assert.deepEqual(loaded.snapshot().output, outcome.output);
      assert.deepEqual([await lines(store, 'r'), calls], [before, []]);
    });

    test('T11 T15 what comes after a turn is over changes nothing', async () => {
      const store = await makeStore();
      let late;
      const keep = (options) => {
        late = options;
        return says('x');
      };
      const { members } = scripted({ a: [(_, options) => keep(options)] });
      const one = team({ runId: 'r', definition: definition(['a'], { room: ['a'] }), members, store });
      await one.run();
      const before = await lines(store, 'r');
      await assert.rejects(late.services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' }), {
        code: 'conflict',
      });
      assert.deepEqual(await lines(store, 'r'), before);
    });
  });
}

test('F a cancelled run keeps its turns for the next; a disposed team refuses calls', async () => {
  const store = new MemoryConversationStore();
  const controller = new AbortController();
  let stop = true;
  const { members, positions } = scripted({
    a: (_, { signal }) =>
      stop ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) : says('x'),
  });
  const events = [];
  const one = team({ definition: definition(['a'], {}), members, store, onEvent: (event) => void events.push(event) });
  const run = one.run({ signal: controller.signal });
  await assert.rejects(one.run(), { code: 'busy' });
  while (positions().length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  controller.abort(new Error('enough'));
  assert.equal((await run).status, 'cancelled');
  stop = false;
  assert.equal((await one.run()).status, 'completed');
  assert.deepEqual(positions(), ['team/a/1', 'team/a/1']);
  assert.deepEqual(
    events.map(({ type }) => type),
    ['dispatched', 'completed'],
  );
  await one.dispose();
  await one.dispose();
  await assert.rejects(one.run(), { code: 'disposed' });
});

/** A member that hears its signal and does not return, until it is let go. */
function deaf() {
  const [started, heard, answer] = [deferred(), deferred(), deferred()];
  const member = (_, { signal }) => {
    signal.addEventListener('abort', () => heard.resolve());
    started.resolve();
    return answer.promise;
  };
  return { member, started: started.promise, heard: heard.promise, answer };
}

test('F settleTimeoutMs: a member that ignores its signal holds neither run nor dispose, and is not repeated unasked', async () => {
  const store = new MemoryConversationStore();
  const clock = virtualClock();
  const { member, started, heard, answer } = deaf();
  const alone = definition(['a'], { room: ['a'] });
  const given = { runId: 'r', definition: alone, store, clock, limits: { settleTimeoutMs: 50 } };
  const one = team({ ...given, members: { a: member } });
  const controller = new AbortController();
  const run = one.run({ signal: controller.signal });
  await started;
  controller.abort();
  await heard;
  await clock.advance(49);
  assert.equal(await Promise.race([run, Promise.resolve('waits')]), 'waits');
  await clock.advance(1);
  assert.equal((await run).status, 'cancelled');
  assert.equal(clock.pending, 0, 'no timer is left');
  const paused = await one.run();
  assert.deepEqual(
    [paused.status, paused.requests[0].kind, paused.requests[0].turnId],
    ['paused', 'reconciliation', 'team/a/1'],
  );
  answer.resolve(says('too late', post('room', 'too late')));
  await clock.advance(1);
  assert.equal((await one.run()).status, 'paused');
  await one.dispose();
  const { members } = scripted({ a: [says('again')] });
  const again = await loadTeam({ runId: 'r', store, members, limits: { settleTimeoutMs: 1 } });
  const outcome = await again.resume({ position: 'team/a/1' });
  assert.deepEqual([outcome.status, outcome.output.agents[0].result.summary], ['completed', 'again']);
  assert.deepEqual(again.snapshot().messages, []);
  await assert.rejects(loadTeam({ runId: 'r', store, members, limits: { inputBytes: 1 } }), { code: 'invalid-config' });
});

test('F settleTimeoutMs: dispose() does not wait longer either; what may be repeated is repeated', async () => {
  const store = new MemoryConversationStore();
  const clock = virtualClock();
  const { member, started, heard } = deaf();
  member.retrySafe = true;
  const given = { runId: 'r', definition: definition(['a'], {}), store, limits: { settleTimeoutMs: 50 } };
  const one = team({ ...given, clock, members: { a: member } });
  const run = one.run();
  await started;
  const disposed = one.dispose();
  await heard;
  await clock.advance(50);
  await disposed;
  assert.equal((await run).status, 'cancelled');
  assert.equal((await team({ ...given, ...scripted({ a: [says('x')] }) }).run()).status, 'completed');
});
