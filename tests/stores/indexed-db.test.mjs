// Conversations in IndexedDB, in pages of Chromium.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { storeConformance } from 'agent-roundtable/testing';
import { build } from 'esbuild';
import { launchChromium, serve } from '../support/chromium.mjs';
import { batch, record, until } from './support/records.mjs';

const LONG = 600_000;

let folder;
let server;
let browser;
let context;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pages-'));
  const entryPoints = [fileURLToPath(new URL('./pages/store.mjs', import.meta.url))];
  await build({ entryPoints, bundle: true, format: 'esm', outfile: join(folder, 'store.js'), logLevel: 'error' });
  await writeFile(join(folder, 'index.html'), '<!doctype html><script type="module" src="store.js"></script>');
  server = await serve(folder);
  browser = await launchChromium();
  context = await browser.newContext();
});
after(async () => {
  await browser?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

/** A tab of the one profile. */
async function tab() {
  const page = await context.newPage();
  await page.goto(server.origin);
  await page.waitForFunction(() => globalThis.result);
  return Object.assign(page, {
    call: (...args) => page.evaluate((all) => globalThis.attempt(...all), args),
  });
}

describe('indexed db store', () => {
  let page;
  before(async () => {
    page = await tab();
  });
  storeConformance(() => {}, {
    test: (title) => test(title, () => page.evaluate((rule) => globalThis.runRule(rule), title)),
  });
});

describe('several tabs', () => {
  let count = 0;
  /** A test with a conversation of its own in two tabs. */
  function inTabs(title, run) {
    test(title, async () => {
      count += 1;
      const id = `c${count}`;
      const tabs = [await tab(), await tab()];
      try {
        await tabs[0].call('create', record(id));
        await run(id, ...tabs);
      } finally {
        for (const page of tabs) await page.close().catch(() => {});
      }
    });
  }

  inTabs('C46 two tabs, one owner; what one wrote the other reads', async (id, one, two) => {
    const claim = await one.call('claim', id, 'one', LONG);
    assert.equal(claim.fence, 1);
    assert.equal((await two.call('claim', id, 'two', LONG)).code, 'busy');
    assert.equal((await two.call('append', batch(1, { conversationId: id }))).code, 'busy');
    assert.equal((await two.call('delete', id)).code, 'busy');
    await one.call('append', batch(1, { conversationId: id, claim }));
    assert.equal((await two.call('load', id)).batches.length, 2);
    await one.call('release', claim);
    assert.equal((await two.call('claim', id, 'two', LONG)).fence, 2);
    assert.equal((await one.call('append', batch(2, { conversationId: id, claim }))).code, 'stale-claim');
  });

  inTabs('C46 a reload keeps the record and frees the claim', async (id, one, two) => {
    const claim = await one.call('claim', id, 'one', LONG);
    await one.call('append', batch(1, { conversationId: id, claim }));
    await one.reload();
    await one.waitForFunction(() => globalThis.result);
    assert.equal((await one.call('load', id)).revision, 2);
    assert.equal((await one.call('append', batch(2, { conversationId: id, claim }))).code, 'stale-claim');
    assert.equal((await two.call('claim', id, 'two', LONG)).fence, 2);
  });

  inTabs(
    'C46 a tab that is closed, or killed, frees its claim at once, however long its lease',
    async (id, one, two) => {
      await one.call('claim', id, 'one', LONG);
      await one.close();
      await until(async () => (await two.call('claim', id, 'two', LONG)).fence === 2);
      const three = await tab();
      const session = await context.newCDPSession(two);
      const crashed = new Promise((resolve) => two.once('crash', resolve));
      session.send('Page.crash').catch(() => {});
      await crashed;
      await until(async () => (await three.call('claim', id, 'three', LONG)).fence === 3);
      assert.equal((await three.call('load', id)).revision, 1);
      await three.close();
    },
  );

  inTabs('C46 a tab whose timers stand still keeps its claim beyond the lease, and renews it', async (id, one, two) => {
    const claim = await one.call('claim', id, 'one', 300);
    const standing = one.evaluate(
      async ([held, batchOf]) => {
        for (const until = performance.now() + 2_000; performance.now() < until; );
        const renewed = await globalThis.store.renew(held, 60_000); // before any timer that is due
        return [renewed.fence, await globalThis.attempt('append', { ...batchOf, claim: held })];
      },
      [claim, batch(1, { conversationId: id })],
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const rival = await two.call('claim', id, 'two', LONG);
    assert.equal(rival.code, 'busy');
    assert.deepEqual(await standing, [1, { revision: 2 }]);
    assert.equal((await two.call('claim', id, 'two', LONG)).code, 'busy');
  });

  inTabs('F two tabs that fight for a conversation leave one linear history', async (id, one, two) => {
    const fight = (page, owner) =>
      page.evaluate(
        async ([conversation, name, summary]) => {
          let landed = 0;
          while (landed < 30) {
            const claim = await globalThis.attempt('claim', conversation, name, 5_000);
            if (claim.code !== undefined) continue;
            const { revision } = await globalThis.store.load(conversation);
            const base = { conversationId: conversation, claim, expectedRevision: revision, summary };
            await globalThis.store.append({ ...base, operationId: `${name} ${landed}`, entries: [`${landed}`] });
            landed += 1;
            await globalThis.store.release(claim);
          }
        },
        [id, owner, record(id).summary],
      );
    await Promise.all([fight(one, 'one'), fight(two, 'two')]);
    const { batches } = await two.call('load', id);
    assert.deepEqual(
      batches.map((each) => each.revision),
      Array.from({ length: 61 }, (_, i) => i + 1),
    );
    for (const owner of ['one', 'two']) {
      const own = batches.filter((each) => each.operationId.startsWith(`${owner} `));
      assert.deepEqual(
        own.map((each) => each.entries[0]),
        Array.from({ length: 30 }, (_, i) => `${i}`),
      );
    }
  });

  inTabs('F watch tells of what another tab wrote', async (id, one, two) => {
    await two.evaluate((conversation) => {
      globalThis.told = 0;
      globalThis.end = globalThis.store.watch(conversation, () => {
        globalThis.told += 1;
      });
    }, id);
    await one.call('append', batch(1, { conversationId: id }));
    await one.call('append', batch(2, { conversationId: id }));
    await two.waitForFunction(() => globalThis.told === 2);
    await two.call('append', batch(3, { conversationId: id }));
    assert.equal(await two.evaluate(() => globalThis.told), 3);
    await two.evaluate(() => globalThis.end());
    await one.call('append', batch(4, { conversationId: id }));
    await two.call('append', batch(5, { conversationId: id }));
    assert.equal(await two.evaluate(() => globalThis.told), 3);
  });

  inTabs(
    'F a database that cannot be written is unavailable; options are checked; close frees',
    async (id, one, two) => {
      await one.call('claim', id, 'one', LONG);
      await one.call('close');
      assert.equal((await one.call('load', id)).code, 'unavailable');
      await until(async () => (await two.call('claim', id, 'two', LONG)).fence === 2);
      const codes = await two.evaluate(async () => {
        const refusals = [{}, { name: '' }, { name: 'x', clock: {} }].map((options) => {
          try {
            return globalThis.indexedDbStore(options).identity;
          } catch (error) {
            return error.code;
          }
        });
        indexedDB.open('newer', 9);
        await new Promise((resolve) => setTimeout(resolve, 200));
        const newer = globalThis.indexedDbStore({ name: 'newer' });
        return [...refusals, await newer.load('c').catch((error) => error.code)];
      });
      assert.deepEqual(codes, ['invalid-config', 'invalid-config', 'invalid-config', 'unavailable']);
    },
  );
});
