// The journal that sessions write to where nothing better is given.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clearDefaultJournal, forgetDefaultJournal, openDefaultJournal } from 'agent-roundtable/testing';

let named = 0;
const session = () => `journal of ${named++}`;
const record = (id, executionId = 'e', extra = {}) => ({
  id,
  executionId,
  sessionId: 's',
  kind: 'tool-result',
  toolCallId: 't',
  result: null,
  ...extra,
});

test('A24 records are read in their order, with their content and their dates', async () => {
  const journal = openDefaultJournal(session());
  const response = { id: 'm', role: 'assistant', content: 'x', timestamp: new Date(7), state: 'complete' };
  const given = [record('1', 'e', { result: { $date: 'plain' } }), record('2', 'e', { response })];
  for (const one of given) await journal.append(one);
  const read = await journal.read('e');
  assert.deepEqual(read, given);
  assert.ok(read[1].response.timestamp instanceof Date);
});

test('A24 what is kept is a copy, on the way in and on the way out', async () => {
  const journal = openDefaultJournal(session());
  const given = record('1', 'e', { result: { n: 1 } });
  await journal.append(given);
  given.result.n = 2;
  (await journal.read('e'))[0].result.n = 3;
  assert.equal((await journal.read('e'))[0].result.n, 1);
});

test('A25 executions are read apart', async () => {
  const journal = openDefaultJournal(session());
  for (const [id, execution] of [
    ['1', 'a'],
    ['2', 'b'],
    ['3', 'a'],
  ])
    await journal.append(record(id, execution));
  assert.deepEqual(
    (await journal.read('a')).map(({ id }) => id),
    ['1', '3'],
  );
  assert.deepEqual(
    (await journal.read('b')).map(({ id }) => id),
    ['2'],
  );
  assert.deepEqual(await journal.read('none'), []);
});

test('A26 K12 the same record again is stored once, in whatever order its members are', async () => {
  const journal = openDefaultJournal(session());
  await journal.append(record('1', 'e', { result: { a: 1, b: [{ c: 2, d: 3 }] } }));
  const { result: _, ...rest } = record('1');
  await journal.append({ result: { b: [{ d: 3, c: 2 }], a: 1 }, ...rest });
  await journal.append(record('1', 'e', { result: { b: [{ d: 3, c: 2 }], a: 1 } }));
  assert.equal((await journal.read('e')).length, 1);
  await journal.append(record('2'));
  await journal.append(record('1', 'e', { result: { a: 1, b: [{ c: 2, d: 3 }] } }));
  assert.deepEqual(
    (await journal.read('e')).map(({ id }) => id),
    ['1', '2'],
    'and stays where it was',
  );
});

test('A27 the same id with other content is refused', async () => {
  const journal = openDefaultJournal(session());
  await journal.append(record('1'));
  await assert.rejects(journal.append(record('1', 'e', { result: 1 })), /another record 1/);
  await assert.rejects(journal.append(record('1', 'other')), /another record 1/);
  assert.deepEqual(await journal.read('e'), [record('1')]);
});

test('A28 A29 the handles of one session share its records; those of another do not', async () => {
  const name = session();
  const [one, two, other] = [openDefaultJournal(name), openDefaultJournal(name), openDefaultJournal(session())];
  await one.append(record('1'));
  assert.equal((await two.read('e')).length, 1);
  assert.equal((await other.read('e')).length, 0);
});

test('A30 A31 A33 clearing drops executions of one session, for older handles too, and leaves all others', async () => {
  const [name, name2] = [session(), session()];
  const [journal, other] = [openDefaultJournal(name), openDefaultJournal(name2)];
  await journal.append(record('1', 'a'));
  await journal.append(record('2', 'b'));
  await journal.append(record('3', 'c'));
  await other.append(record('1', 'a'));
  clearDefaultJournal(name, ['a', 'b', 'none']);
  assert.deepEqual([await journal.read('a'), await journal.read('b')], [[], []]);
  assert.equal((await journal.read('c')).length, 1, 'somebody else may wait for it');
  assert.equal((await other.read('a')).length, 1);
  await journal.append(record('1', 'a'));
  assert.equal((await openDefaultJournal(name).read('a')).length, 1, 'it goes on being the same session');
});

test('A30 A33 clearing a session without saying what drops all of its executions', async () => {
  const [name, name2] = [session(), session()];
  const [journal, other] = [openDefaultJournal(name), openDefaultJournal(name2)];
  await journal.append(record('1', 'a'));
  await journal.append(record('2', 'b'));
  await other.append(record('1', 'a'));
  clearDefaultJournal(name);
  assert.deepEqual([await journal.read('a'), await journal.read('b')], [[], []]);
  assert.equal((await other.read('a')).length, 1);
});

test('A32 A35 clearing and forgetting what was never used is fine', () => {
  clearDefaultJournal(session());
  clearDefaultJournal(session(), ['a']);
  forgetDefaultJournal(session());
});

test('A34 K12 a forgotten session opens empty, and an old handle stays on its records', async () => {
  for (const drop of [(name) => forgetDefaultJournal(name), (name) => clearDefaultJournal(name, ['e'])]) {
    const name = session();
    const old = openDefaultJournal(name);
    await old.append(record('1'));
    drop(name);
    const fresh = openDefaultJournal(name);
    assert.deepEqual([await fresh.read('e'), await old.read('e')], [[], []]);
    await fresh.append(record('1', 'e', { result: 'other' }));
    await old.append(record('2'));
    assert.deepEqual([(await fresh.read('e')).length, (await old.read('e')).length], [2, 2]);
  }
});

test('A29 sessions of one id in two places keep their records apart', async () => {
  const name = session();
  const [one, two] = [openDefaultJournal(name, 'one'), openDefaultJournal(name, 'two')];
  await one.append(record('1', 'a'));
  await two.append(record('1', 'a', { result: 'another' }));
  clearDefaultJournal(name, ['a'], 'two');
  assert.deepEqual([(await one.read('a')).length, (await two.read('a')).length], [1, 0]);
});

test('A27 what JSON has no place for is refused with its path', async () => {
  const journal = openDefaultJournal(session());
  await assert.rejects(journal.append(record('1', 'e', { result: Number.NaN })), /record\.result/);
  await assert.rejects(journal.append(record('1', 'e', { result: new Map() })), /record\.result/);
  assert.deepEqual(await journal.read('e'), []);
});

test('K12 waits that nobody answers do not stay for ever: the 10,000 sessions that wrote last are kept', async () => {
  const first = openDefaultJournal('the first');
  const second = openDefaultJournal('the second');
  await first.append(record('1'));
  await second.append(record('1'));
  for (let i = 0; i < 9_998; i++) await openDefaultJournal(session()).append(record('1'));
  assert.equal((await first.read('e')).length, 1, 'that many are kept');
  await first.append(record('2'));
  await openDefaultJournal(session()).append(record('1'));
  assert.equal((await first.read('e')).length, 2, 'one that still writes is');
  assert.equal((await second.read('e')).length, 0, 'the one that wrote longest ago is not');
  await second.append(record('1'));
  assert.equal((await openDefaultJournal('the second').read('e')).length, 1, 'its handle is not an orphan');
});
