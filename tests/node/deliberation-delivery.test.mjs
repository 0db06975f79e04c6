// What deliberations owe: notices and groups, whatever fails or crashes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultyStore } from 'agent-roundtable/testing';
import { MINUTE, refusal, request, stores, table } from './support/deliberations.mjs';

for (const [label, makeStore] of Object.entries(stores)) {
  const on = (t, options) => table(t, makeStore, options);

  test(`D20 what is not delivered or deleted is tried until it is; others are unaffected (${label})`, async (t) => {
    let isDown = true;
    const tried = [];
    const sent = [];
    const { groups } = await on(t);
    const { d, events } = await on(t, {
      groups: {
        put: (group) => groups.put(group),
        delete: async (...args) => {
          if (isDown) throw new Error('the group service is down');
          await groups.delete(...args);
        },
      },
      notifier: async (notice) => {
        tried.push(notice.idempotencyKey);
        if (isDown && notice.to === 'ana') throw new Error('ana is away');
        sent.push([notice.kind, notice.to]);
      },
    });
    const { id, groupId, uninvited } = await d.create('fac', request());
    assert.deepEqual(uninvited, ['ana']);
    await d.resolve('fac', id, { outcome: 'Pull', decision: 'approved' });
    assert.deepEqual(sent, [
      ['invitation', 'bo'],
      ['resolution', 'bo'],
    ]);
    assert.equal(await d.deliverPending(), 0);
    assert.ok(groups.get(groupId));
    assert.ok(events.some((e) => e.type === 'delivery-failed' && e.idempotencyKey === `${id}/resolution/ana`));
    isDown = false;
    assert.equal(await d.deliverPending(), 2);
    assert.equal(groups.get(groupId), undefined);
    assert.deepEqual(sent.slice(2), [['resolution', 'ana']], 'nobody is invited to what is over');
    assert.equal(await d.deliverPending(), 0);
    assert.equal(new Set(tried).size, 4, 'a repeated notice has the same key');
  });

  test(`D21 after a crash between any two steps a restart completes them, without duplicates (${label})`, async (t) => {
    for (let steps = 1; ; steps++) {
      const { clock, store, groups, host } = await on(t);
      let left = steps;
      let crashed = false;
      const step = () => {
        if (left-- > 0) return;
        crashed = true;
        throw new Error('crashed');
      };
      const inbox = new Map();
      const deliver = async (notice) => {
        inbox.set(notice.idempotencyKey, notice.to);
      };
      const first = host({
        store: faultyStore(store, () => {
          if (left-- > 0) return undefined;
          crashed = true;
          return { when: 'before' };
        }),
        notifier: async (notice) => {
          step();
          await deliver(notice);
        },
        groups: {
          put: async (group) => {
            step();
            await groups.put(group);
          },
          delete: async (...args) => {
            step();
            await groups.delete(...args);
          },
        },
      });
      const key = { idempotencyKey: 'once' };
      const script = async (d) => {
        const { id } = await d.create('fac', request(key));
        await d.speak('ana', id, { message: 'Pull.', ...key });
        await d.resolve('fac', id, { outcome: 'Pull', decision: 'approved' }).catch((error) => {
          if (error.code !== 'conflict') throw error;
        });
        return id;
      };
      await script(first).catch(() => {});
      // A new process, on what the store has.
      const second = host({ notifier: deliver });
      await clock.advance(MINUTE);
      await second.deliverPending();
      const id = await script(second);
      await second.deliverPending();
      const session = await second.get('bo', id);
      assert.equal(session.status, 'resolved');
      assert.equal(session.thread.length, 1, `a crash after ${steps} steps`);
      assert.equal((await store.list({ kind: 'deliberation' })).items.length, 1);
      assert.deepEqual(groups.ids(), []);
      const kinds = [...inbox.keys()].map((one) => one.replace(`${id}/`, '')).sort();
      const all = ['entry-0/bo', 'entry-0/fac', 'invitation/ana', 'invitation/bo', 'resolution/ana', 'resolution/bo'];
      // Invitations that had not left when the session was resolved are not sent any more.
      assert.deepEqual(
        kinds.filter((k) => !k.startsWith('inv')),
        all.filter((k) => !k.startsWith('inv')),
      );
      assert.ok(kinds.every((k) => all.includes(k)));
      assert.equal(await second.deliverPending(), 0);
      if (!crashed) {
        assert.ok(steps > 12, 'there were steps to crash between');
        break;
      }
    }
  });

  test(`D26 recipients are the roster, whatever becomes of the group (${label})`, async (t) => {
    const { d, groups, inbox } = await on(t);
    const { id, groupId } = await d.create('fac', request());
    assert.equal((await refusal(groups.edit(groupId, 'fac'))).code, 'forbidden');
    await groups.put({ ...groups.get(groupId), members: ['fac', 'eve'] });
    await d.speak('fac', id, { message: 'Who is here?' });
    assert.deepEqual([inbox('ana', 'entry').length, inbox('bo', 'entry').length, inbox('eve').length], [1, 1, 0]);
  });

  test(`D28 a recipient whose trust refuses others is invited by the system, or reported (${label})`, async (t) => {
    const trusting = new Map([
      ['ana', ['system']],
      ['bo', []],
    ]);
    const reached = [];
    const { d } = await on(t, {
      notifier: async ({ to, from }) => {
        if (!trusting.get(to).includes(from)) throw new Error(`${to} does not trust ${from}`);
        reached.push(to);
      },
    });
    const session = await d.create('fac', request());
    assert.deepEqual(reached, ['ana']);
    assert.deepEqual(session.uninvited, ['bo']);
    trusting.set('bo', ['system']);
    await d.deliverPending();
    assert.equal('uninvited' in (await d.get('fac', session.id)), false);
  });

  test(`D29 who does not own a group does not delete it (${label})`, async (t) => {
    const { d, groups } = await on(t);
    const { id, groupId } = await d.create('fac', request());
    assert.equal((await refusal(groups.delete(groupId, 'ana'))).code, 'forbidden');
    assert.ok(groups.get(groupId));
    // Its owner is whoever is facilitator, also right after a hand-over.
    await d.handOver('fac', id, { to: 'ana' });
    assert.equal((await refusal(groups.delete(groupId, 'fac'))).code, 'forbidden');
    await d.resolve('ana', id, { outcome: 'Pull', decision: 'approved' });
    assert.deepEqual(groups.ids(), []);
  });
}
