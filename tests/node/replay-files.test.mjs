// Session logs in files: acceptance rows 10, 28, 29, 39 to 45, 50 to 54 and 59 to 65.
import assert from 'node:assert/strict';
import fs, { mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { mock, test } from 'node:test';
import { decodeSessionLog, ReplayError, SessionLogPayloadResolutionError } from 'agent-roundtable';
import { createReplayProviderFromNodeLogFile, createSessionLogWriter, nodePayloadSource } from 'agent-roundtable/node';
import { folder, reference, response, said, samplePath, thrown, toolResult, toText } from './support/session-log.mjs';

const lines = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

test('R10 a long response and a sentinel, written and replayed byte for byte', async (t) => {
  const long = `${'0123456789é\n'.repeat(3150)}`;
  const writer = createSessionLogWriter({ directory: folder(t), sessionId: 's', onError: assert.fail });
  for (const [round, content] of [
    [1, long],
    [2, 'sentinel'],
  ]) {
    writer.log('provider_response_normalized', {
      executionId: 'x',
      round,
      response: { ...said(content), timestamp: new Date() },
    });
  }
  assert.ok(readFileSync(writer.path).length < 2000);
  const provider = await createReplayProviderFromNodeLogFile(writer.path);
  assert.equal((await provider.chat([])).content, long);
  assert.equal((await provider.chat([])).content, 'sentinel');
});

test('R28 blank and missing log files are refused', async () => {
  await assert.rejects(createReplayProviderFromNodeLogFile(' '), TypeError);
  const error = await createReplayProviderFromNodeLogFile('/nowhere/log.jsonl').catch((e) => e);
  assert.ok(error instanceof ReplayError);
  assert.deepEqual([error.code, error.cause.code], ['LOG_NOT_FOUND', 'ENOENT']);
});

test('R29 R39 what is written is redacted and its envelope wins', (t) => {
  const directory = join(folder(t), 'new');
  const writer = createSessionLogWriter({ directory, sessionId: 's.1', onError: assert.fail });
  writer.log('tool_call', {
    tool: 't',
    args: { api_key: 'k', long: 'y'.repeat(40_000) },
    sessionId: 'evil',
    event: 'user',
  });
  const [line] = lines(writer.path);
  assert.deepEqual(Object.keys(line).slice(-4), ['schemaVersion', 'timestamp', 'sessionId', 'event']);
  assert.deepEqual([line.sessionId, line.event, line.args.api_key], ['s.1', 'tool_call', '[REDACTED]']);
  assert.deepEqual(readdirSync(join(directory, 's.1.payloads')), [`${line.args.long.sha256}.json`]);
  const entries = decodeSessionLog(readFileSync(writer.path, 'utf8'), {
    externalPayloadSource: nodePayloadSource(directory),
  });
  assert.equal(entries[0].args.long.length, 40_000);
});

test('R40 R41 R42 deltas are gathered, keep their order, and other events are durable at once', (t) => {
  const writer = createSessionLogWriter({ directory: folder(t), sessionId: 's', onError: assert.fail });
  const append = mock.method(fs, 'appendFileSync');
  t.after(() => append.mock.restore());
  for (let i = 0; i < 200; i += 1) writer.log('text_delta', { delta: `${i}` });
  assert.equal(append.mock.callCount(), 0);
  writer.log('session_shutdown', { reason: 'done' });
  assert.equal(append.mock.callCount(), 1);
  const written = lines(writer.path);
  assert.deepEqual([written.length, written[42].delta, written[200].event], [201, '42', 'session_shutdown']);
  writer.log('text_delta', { delta: 'last' });
  writer.flush();
  assert.equal(lines(writer.path).length, 202);
});

test('R43 R44 R45 failures are reported and nothing throws', (t) => {
  const root = folder(t, { file: 'x' });
  const errors = [];
  const onError = (error) => errors.push(error);
  const writer = createSessionLogWriter({ directory: root, sessionId: 's', onError });
  mkdirSync(join(root, 's.jsonl'));
  writer.log('user', { content: 'x' });
  writer.log('text_delta', { delta: 'x' });
  writer.flush();
  writer.log('user', { content: 1 });
  assert.deepEqual(
    errors.map((error) => error.code),
    ['EISDIR', 'EISDIR', 'INVALID_EVENT'],
  );
  createSessionLogWriter({ directory: join(root, 'file', 'below'), sessionId: 's', onError });
  assert.equal(errors[3].code, 'ENOTDIR');

  const warnings = [];
  const warn = mock.method(process, 'emitWarning', (text) => warnings.push(text));
  createSessionLogWriter({ directory: root, sessionId: 's' }).log('user', { content: 'x' });
  warn.mock.restore();
  assert.match(warnings[0], /session log s: a write failed/);
  for (const bad of [{ sessionId: '../x' }, { sessionId: 7 }, { directory: ' ' }]) {
    assert.throws(() => createSessionLogWriter({ directory: root, sessionId: 's', ...bad }), TypeError);
  }
});

test('R46 the sample is replayed from its file', async () => {
  const provider = await createReplayProviderFromNodeLogFile(samplePath('valid-3-external.jsonl'));
  assert.equal((await provider.chat([])).content, 'kept outside the line');
  await assert.rejects(
    createReplayProviderFromNodeLogFile(samplePath('valid-3-external.jsonl'), { maxExternalPayloadTotalBytes: 22 }),
    { code: 'MAX_TOTAL_BYTES_EXCEEDED' },
  );
});

/** What reading a path fails with; every handle that was opened must be closed. */
function refusal(root, path, max = 100) {
  const opened = mock.method(fs, 'openSync');
  const closed = mock.method(fs, 'closeSync');
  try {
    const error = thrown(() => nodePayloadSource(root).readBytes(path, max));
    assert.ok(error instanceof SessionLogPayloadResolutionError);
    assert.equal(error.metadata.relativePath, path);
    const handles = opened.mock.calls.filter((call) => call.error === undefined).length;
    assert.equal(closed.mock.callCount(), handles, 'every handle is closed');
    return error;
  } finally {
    opened.mock.restore();
    closed.mock.restore();
  }
}

test('R49 R50 R51 R52 R53 R54 R64 what lies elsewhere is out of reach', (t) => {
  const outside = folder(t, { 'secret.json': '1' });
  const root = folder(t, { 'a.json': '1', 'dir/b.json': '2' });
  symlinkSync(join(outside, 'secret.json'), join(root, 'out.json'));
  symlinkSync(join(root, 'a.json'), join(root, 'in.json'));
  symlinkSync(join(root, 'dir'), join(root, 'linked'));
  execFileSync('mkfifo', [join(root, 'pipe')]);
  const source = nodePayloadSource(root);
  assert.deepEqual([...source.readBytes('dir/b.json', 1)], [50]);
  for (const missing of ['none.json', 'none/b.json']) assert.equal(source.readBytes(missing, 1), undefined);
  for (const path of [
    'dir',
    '../x',
    'dir/../a.json',
    './a.json',
    'dir\\..\\a.json',
    '/etc/passwd',
    'C:\\x',
    'C:x',
    '\\\\host\\x',
    'a\0.json',
    'out.json',
    'in.json',
    'linked/b.json',
    'a.json/b',
    'pipe',
    '/',
  ]) {
    assert.equal(refusal(root, path).code, 'OUTSIDE_ROOT', path);
  }
  symlinkSync(root, join(outside, 'root'));
  const linked = refusal(join(outside, 'root'), 'a.json');
  assert.deepEqual([linked.code, linked.cause.code], ['OUTSIDE_ROOT', 'ENOTDIR']);
  assert.equal(refusal(`${join(outside, 'root')}/`, 'a.json').code, 'OUTSIDE_ROOT');
  const gone = refusal(join(outside, 'gone'), 'a.json');
  assert.deepEqual([gone.code, gone.cause.code], ['PAYLOAD_UNREADABLE', 'ENOENT']);
});

test('R59 a file over the budget is refused before it is read', (t) => {
  const root = folder(t, { 'a.json': '12345' });
  const read = mock.method(fs, 'readSync');
  const error = refusal(root, 'a.json', 4);
  read.mock.restore();
  assert.deepEqual([error.code, error.metadata.expected, error.metadata.actual], ['MAX_TOTAL_BYTES_EXCEEDED', 4, 5]);
  assert.equal(error.metadata.resolvedPath, join(root, 'a.json'));
  assert.equal(read.mock.callCount(), 0);
});

test('R60 a blank root is refused', () => {
  for (const root of ['', '  ', undefined]) assert.throws(() => nodePayloadSource(root), TypeError);
});

test('R61 a host that cannot read without following links is refused', (t) => {
  const root = folder(t, { 'a.json': '1' });
  const platform = Object.getOwnPropertyDescriptor(process, 'platform');
  Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' });
  t.after(() => Object.defineProperty(process, 'platform', platform));
  assert.equal(refusal(root, 'a.json').code, 'STABLE_PAYLOAD_READ_UNAVAILABLE');
});

test('R63 a read passes each segment and closes each handle once', (t) => {
  const root = folder(t, { 'x/y/z.json': '1' });
  const open = mock.method(fs, 'openSync');
  const close = mock.method(fs, 'closeSync');
  nodePayloadSource(root).readBytes('x//y/z.json', 1);
  const names = open.mock.calls.map((call) => call.arguments[0].split('/').at(-1));
  const handles = open.mock.calls.map((call) => call.result);
  assert.deepEqual(
    [names.slice(1), close.mock.calls.map((call) => call.arguments[0]).sort()],
    [['x', 'y', 'z.json'], handles.sort()],
  );
  open.mock.restore();
  close.mock.restore();
});

test('R64 a file that fails or changes while it is read is unreadable, and the cause is kept', (t) => {
  const root = folder(t, { 'a.json': '12345' });
  const cause = Object.assign(new Error('io'), { code: 'EIO' });
  for (const name of ['readSync', 'fstatSync']) {
    const failing = mock.method(fs, name, () => {
      throw cause;
    });
    const error = refusal(root, 'a.json');
    failing.mock.restore();
    assert.deepEqual([error.code, error.cause], ['PAYLOAD_UNREADABLE', cause]);
  }
  const real = fs.readSync;
  const growing = mock.method(fs, 'readSync', (...args) => {
    writeFileSync(join(root, 'a.json'), '1234567');
    return real(...args);
  });
  assert.equal(refusal(root, 'a.json').code, 'PAYLOAD_UNREADABLE');
  growing.mock.restore();
});

test('R65 a path that is swapped after it was opened still gives the original bytes', (t) => {
  const root = folder(t, { 'dir/a.json': 'original', 'other/a.json': 'changed!' });
  const real = fs.readSync;
  const swapping = mock.method(fs, 'readSync', (...args) => {
    renameSync(join(root, 'dir'), join(root, 'away'));
    renameSync(join(root, 'other'), join(root, 'dir'));
    swapping.mock.restore();
    return real(...args);
  });
  assert.equal(Buffer.from(nodePayloadSource(root).readBytes('dir/a.json', 100)).toString(), 'original');
});

test('R64 the provider passes the codes of the file source on', async (t) => {
  const root = folder(t, { 'log.jsonl': toText([toolResult(reference('../x.json', '1')), response(said('x'))]) });
  await assert.rejects(createReplayProviderFromNodeLogFile(join(root, 'log.jsonl')), { code: 'OUTSIDE_ROOT' });
});

test('R28 a log path that is a pipe or a folder is refused at once', async (t) => {
  const parent = folder(t);
  const pipe = join(parent, 'log.jsonl');
  execFileSync('mkfifo', [pipe]);
  for (const path of [pipe, parent]) {
    await assert.rejects(createReplayProviderFromNodeLogFile(path), { code: 'LOG_NOT_FOUND' });
  }
});
