// Teams: who has the next turn, what an input shows, and what a turn posts.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deferred } from './support/conversations.mjs';
import { definition, dialogue, failure, PAIR, post, says, scripted, stores, team, texts } from './support/teams.mjs';

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`on the ${name} store`, () => {
    test('T1 T2 writer, reviewer, writer; each message once and in order', async () => {
      const store = await makeStore();
      const { members, calls, positions } = dialogue();
      const outcome = await team({ definition: PAIR, members, store }).run();
      assert.deepEqual(positions(), ['team/writer/1', 'team/reviewer/1', 'team/writer/2']);
      assert.equal(outcome.status, 'completed');
      assert.deepEqual(
        outcome.output.agents.map(({ name: who, result }) => [who, result.summary]),
        [
          ['writer', 'final'],
          ['reviewer', 'checked'],
        ],
      );
      const { input } = calls[2];
      assert.deepEqual(Object.keys(input).sort(), ['brief', 'messages', 'result', 'role', 'task']);
      assert.equal(input.result.summary, 'draft');
      assert.deepEqual(texts(calls[2]), ['question', 'reply']);
      assert.deepEqual(input.messages[1], {
        roomId: 'room',
        text: 'reply',
        mentions: ['writer'],
        id: 'team/reviewer/1/0',
        sender: 'reviewer',
        position: 'team/reviewer/1',
      });
    });

    test('T3 T4 everyone begins unless it waits; one that nobody mentions has no result', async () => {
      const store = await makeStore();
      const { members, positions } = scripted({ a: [says('x')], b: [says('y')], c: [says('z')] });
      const outcome = await team({ definition: definition(['a', 'b', '-c'], {}), members, store }).run();
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1']);
      assert.equal(outcome.output.agents[2].result, null);
    });

    test('T5 two mentions of one turn make one turn that shows both, whatever the tail', async () => {
      const { members, calls, positions } = scripted({
        writer: [says('x', post('room', 'one', 'reviewer'), post('room', 'two', 'reviewer'))],
        reviewer: [says('y')],
      });
      const short = definition(['writer', '-reviewer'], { room: ['writer', 'reviewer'] }, { tail: 1 });
      await team({ definition: short, members, store: await makeStore() }).run();
      assert.deepEqual(positions(), ['team/writer/1', 'team/reviewer/1']);
      assert.deepEqual(texts(calls[1]), ['one', 'two']);
    });

    test('T6 a mention during a turn asks for a later one', async () => {
      const { members, calls, positions } = scripted({ a: [says('x', post('room', 'for b', 'b'))], b: [says('y')] });
      const both = definition(['a', 'b'], { room: ['a', 'b'] }, { concurrency: 2 });
      await team({ definition: both, members, store: await makeStore() }).run();
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1', 'team/b/2']);
      assert.deepEqual(texts(calls[1]), []);
      assert.deepEqual(texts(calls[2]), ['for b']);
    });

    test('T7 a batch settles before the next begins', async () => {
      const [a, b] = [deferred(), deferred()];
      const { members, positions } = scripted({ a: () => a.promise, b: () => b.promise, c: [says('c')] });
      const three = definition(['a', 'b', 'c'], {}, { concurrency: 2 });
      const run = team({ definition: three, members, store: await makeStore() }).run();
      while (positions().length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      b.resolve(says('b'));
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.equal(positions().length, 2);
      a.resolve(says('a'));
      await run;
      assert.deepEqual(positions(), ['team/a/1', 'team/b/1', 'team/c/1']);
    });

    test('T8 nothing of another room, and no result of another member, is in an input', async () => {
      const { members, calls } = scripted({
        a: [says('summary of a', post('pair', 'secret', 'b'), post('all', 'open', 'c'))],
        b: [says('x')],
        c: [says('y')],
      });
      const two = definition(['a', '-b', '-c'], { all: ['a', 'b', 'c'], pair: ['a', 'b'] });
      await team({ definition: two, members, store: await makeStore() }).run();
      const shown = JSON.stringify(calls.find(({ position }) => position === 'team/c/1').input);
      assert.ok(shown.includes('open') && !shown.includes('secret') && !shown.includes('summary of a'));
    });

    test('T9 one bad post and none of its turn is delivered', async () => {
      const two = definition(['a', '-b', '-c'], { all: ['a', 'b'], pair: ['b', 'c'] });
      for (const bad of [post('pair', 'x'), post('all', 'x', 'c'), post('all', 'x', 'nobody')]) {
        const { members, calls } = scripted({ a: [says('x', post('all', 'good', 'b'), bad)], b: [], c: [] });
        const one = team({ definition: two, members, store: await makeStore() });
        assert.deepEqual(failure(await one.run()), ['TEAM_NODE_FAILED', 'a RESULT_INVALID']);
        assert.deepEqual([one.snapshot().messages.length, calls.length], [0, 1]);
      }
    });
  });
}

test('F order oldest-trigger, self mentions ignored, and a tail that gives way to the byte budget', async () => {
  const three = definition(['a', '-b', '-c'], { room: ['a', 'b', 'c'] });
  const said = {
    a: [says('x', post('room', 'first', 'c'), post('room', 'second', 'b', 'a'))],
    b: [says('y')],
    c: [says('z')],
  };
  const { members, positions } = scripted(said);
  await team({ definition: three, members, order: 'oldest-trigger', selfMention: 'ignore' }).run();
  assert.deepEqual(positions(), ['team/a/1', 'team/c/1', 'team/b/1']);
  const long = { a: [says('x', post('room', 'x'.repeat(500)), post('room', 'wake', 'b'))], b: [says('y')] };
  const { members: more, calls } = scripted(long);
  const two = definition(['a', '-b'], { room: ['a', 'b'] });
  await team({ definition: two, members: more, limits: { inputBytes: 400, inputOverflow: 'drop-tail' } }).run();
  assert.deepEqual([texts(calls[1]), calls[1].input.omitted], [['wake'], 1]);
});
