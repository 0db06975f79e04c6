// The page of www/ in Chromium, served as `make www` serves it: the review happens in the page.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { SCRIPT } from '../../demo/script.mjs';
import { serveDemo } from '../../scripts/serve.mjs';
import { launchChromium } from '../support/chromium.mjs';

let server;
let browser;
before(async () => {
  server = await serveDemo(0);
  browser = await launchChromium();
});
after(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

let page;
let faults;
beforeEach(async () => {
  page = await browser.newPage();
  faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text());
  });
  page.on('requestfailed', (request) => faults.push(`${request.url()} failed`));
});
afterEach(async () => {
  await page.close();
  assert.deepEqual(faults, [], 'the console stays empty');
});

const origin = () => `http://127.0.0.1:${server.address().port}/`;
const start = () => page.getByRole('button', { name: 'Start the review' }).click();
const decide = (word = 'Approve') => page.getByRole('button', { name: word }).click();
const completed = () => page.getByRole('status').getByText('Completed.').waitFor();

/** What each card says: who, in which state, and its text without white space. */
function cards() {
  return page.locator('#transcript article').evaluateAll((all) =>
    all.map((card) => ({
      who: card.dataset.participant,
      state: card.dataset.state,
      text: card.querySelector('.text').textContent.replace(/\s+/g, ''),
    })),
  );
}

test('the review happens in the page, and the person answers in a form', async () => {
  await page.goto(`${origin()}?pace=0`);
  await start();
  await decide();
  const line = page.getByRole('textbox', { name: 'What will you change before the next draft?' });
  await line.fill('Everything, by Thursday.');
  assert.ok(await line.evaluate((element) => element === document.activeElement), 'the form has the focus');
  await page.getByRole('button', { name: 'Answer' }).click();
  await completed();

  const said = (id, i = 0) => plain(SCRIPT[id].filter((reply) => reply.says)[i].says);
  assert.deepEqual(
    (await cards()).map(({ who, state, text }) => [who, state, text]),
    [
      ['operations', 'published', said('operations', 0)],
      ['security', 'published', said('security', 0)],
      ['editor', 'published', said('editor', 0)],
      ['operations', 'published', said('operations', 1)],
      ['security', 'yielded', ''],
      ['editor', 'published', said('editor-approved')],
      ['author', 'published', 'Everything,byThursday.'],
    ],
  );
  assert.equal(await page.locator('#answer').isVisible(), false);
});

test('usage and journal are shown, and the journal can be saved', async () => {
  await page.goto(`${origin()}?pace=0`);
  await start();
  await decide();
  await page.getByRole('button', { name: 'Answer' }).click();
  await completed();
  const rows = await page.locator('#usage tr').allInnerTexts();
  assert.deepEqual(
    rows.map((row) => row.split(/\s+/)[0]),
    ['participant', 'operations', 'security', 'editor', 'all'],
  );
  assert.match(rows.at(-1), /^all\s+14\s+\d+\s+\d+\s+\d+\.\d\d USD$/);

  const [, entries] = /^(\d+) entries, \d+\.\d KiB/.exec(await page.locator('#journal').textContent());
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Save the journal').click()]);
  const chunks = await (await download.createReadStream()).toArray();
  const lines = Buffer.concat(chunks).toString().trimEnd().split('\n');
  assert.equal(lines.length, Number(entries));
  assert.match(Object.keys(JSON.parse(lines[0]))[0], /^[a-z-]+\/1$/);
});

for (const [word, list, kept] of [
  ['Approve', 'editor-approved', true],
  ['Deny', 'editor-denied', false],
]) {
  test(`A69 A70 a person who says ${word} decides whether the tool runs`, async () => {
    await page.goto(`${origin()}?pace=0`);
    await start();
    await page.getByText('editor asks leave to run save_report').waitFor();
    assert.ok((await cards()).every(({ text }) => !text.includes('Reporttotheauthor')));
    await decide(word);
    await page.getByRole('button', { name: 'Answer' }).click();
    await completed();
    assert.equal((await cards()).at(-2).text, plain(SCRIPT[list][0].says));
    assert.equal(await page.getByText('Save the report').isVisible(), kept);
  });
}

test('text is seen growing before it is published, two agents at the same time', async () => {
  await page.goto(`${origin()}?pace=20`);
  await page.evaluate(() => {
    globalThis.seen = [];
    const look = () => {
      const all = [...document.querySelectorAll('#transcript article')].slice(0, 2);
      globalThis.seen.push(all.map((c) => [c.dataset.state, c.querySelector('.text').textContent.length]));
    };
    new MutationObserver(look).observe(document.getElementById('transcript'), {
      subtree: true,
      childList: true,
      attributes: true,
    });
  });
  await start();
  await page.locator('article[data-participant=editor]').first().waitFor();
  const seen = await page.evaluate(() => globalThis.seen.filter((cards) => cards.length === 2));
  const together = seen.filter((cards) => cards.every(([state, length]) => state === 'working' && length > 0));
  const lengths = new Set(together.map((cards) => cards[0][1]));
  assert.ok(lengths.size >= 5, `lengths seen while both were streaming: ${[...lengths].join(', ')}`);
  const halfPublished = seen.filter((cards) => new Set(cards.map(([state]) => state === 'published')).size > 1);
  // The page draws one card after the other, within one event.
  assert.ok(halfPublished.length <= 2, JSON.stringify(halfPublished));
});

test('a second review begins anew', async () => {
  await page.goto(`${origin()}?pace=0`);
  await start();
  await decide();
  await page.getByRole('button', { name: 'Answer' }).click();
  await completed();
  const first = await cards();
  await page.getByRole('button', { name: 'Run it again' }).click();
  await decide();
  await page.getByRole('button', { name: 'Answer' }).click();
  await completed();
  assert.deepEqual(await cards(), first);
});

test('a document that is not the recorded one is refused, with what to do', async () => {
  await page.route('**/document.md', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace('for 12 hours', 'for 13 hours') });
  });
  await page.goto(`${origin()}?pace=0`);
  await start();
  await page.getByRole('status').getByText('node demo/record.mjs').waitFor();
  assert.ok((await cards()).every((card) => card.state !== 'published'));
});

test('the page follows the colour scheme and fits a narrow window', async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto(`${origin()}?pace=0`);
  const light = await ground();
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.notEqual(await ground(), light);

  await start();
  await decide();
  await page.getByRole('button', { name: 'Answer' }).click();
  await completed();
  const overflow = (selector) => page.locator(selector).evaluate((box) => box.scrollWidth - box.clientWidth);
  assert.equal(await overflow('.scroll'), 0, 'the usage table has room beside the transcript');
  await page.setViewportSize({ width: 360, height: 740 });
  assert.equal(await overflow('html'), 0);
});

test('nothing but the demo is served', async () => {
  for (const path of ['Cargo.toml', 'www/../Cargo.toml', 'www/%2e%2e/Cargo.toml', 'pkg/..%2fCargo.toml']) {
    const response = await fetch(origin() + path);
    assert.equal(response.status, 404, path);
  }
});

/** The text of a reply as the page shows it: without list marks, code marks and white space. */
function plain(says) {
  return says
    .replace(/^(\d+\.|-) /gm, '')
    .replaceAll('`', '')
    .replace(/\s+/g, '');
}
