// The options of an agent: what is not acceptable is refused by name, and nothing stays held or open.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, scripted, tool } from './support/agent.mjs';

const boom = new Error('boom');

test('options that are not acceptable name the option, nothing is called and everything is disposed of', async () => {
  const provider = scripted();
  const named = (extra) => ({ provider, model: 'm', ...extra });
  const cases = [
    [undefined, /options must be an object/],
    [{ model: 'm' }, /provider must be an object/],
    [named({ provider: { name: 'p' } }), /provider has neither chat nor chatStream/],
    [named({ provider: { name: 'p', chat: 1 } }), /provider\.chat must be a function/],
    [named({ provider: { ...scripted(), name: '' } }), /provider\.name: empty/],
    [named({ provider: { ...scripted(), name: 7 } }), /provider\.name must be a string/],
    [named({ model: 'm'.repeat(513) }), /model: longer than 512/],
    [named({ model: undefined }), /model must be a string/],
    [named({ systemMessage: 1 }), /systemMessage must be a string/],
    [named({ model: 'm\ud800' }), /model holds a lone surrogate/],
    [named({ provider: { ...scripted(), name: 'p\ud800' } }), /provider\.name holds a lone surrogate/],
    [named({ tools: [tool('a\udc00', () => 1)] }), /tools\[0\]\.name holds a lone surrogate/],
    [named({ systemMessage: 'x'.repeat(1024 * 1024 + 1) }), /systemMessage: longer than 1048576/],
    [
      named({ tools: [tool('a', () => 1, { description: 'x'.repeat(4 * 1024 * 1024) })] }),
      /tools\[0\]\.parameters.*longer than 4194304/,
    ],
    [named({ maxRounds: 0 }), /maxRounds/],
    [named({ maxRounds: NaN }), /maxRounds must be a finite number, not NaN/],
    [named({ maxRounds: '3' }), /maxRounds/],
    [named({ maxTokens: 1.5 }), /maxTokens/],
    [named({ temperature: Infinity }), /temperature/],
    [named({ tools: {} }), /tools must be an array/],
    [named({ tools: [null] }), /tools\[0\] must be an object/],
    [named({ tools: [tool('', () => 1)] }), /tools\[0\]\.name: empty/],
    [named({ tools: [tool('a', () => 1), tool('a', () => 1)] }), /tools\[1\]\.name: another tool/],
    [named({ tools: [{ ...tool('a'), execute: 1 }] }), /tools\[0\]\.execute must be a function/],
    [named({ tools: [{ ...tool('a'), idempotent: 'yes' }] }), /tools\[0\]\.idempotent must be true or false/],
    [named({ tools: [tool('a', () => 1, { type: 'text' })] }), /tools\[0\]\.parameters\.type/],
    [named({ tools: [tool('a', () => 1, { default: new Date() })] }), /tools\[0\]\.parameters\.default/],
    [
      named({ tools: [{ ...tool('a', () => 1), description: 'x'.repeat(8193) }] }),
      /tools\[0\]\.description: longer than 8192/,
    ],
    [
      named({ tools: Array.from({ length: 257 }, (_, i) => tool(`t${i}`, () => 1)) }),
      /tools: 257 tools are more than 256/,
    ],
    [named({ provider: { ...scripted(), supportsTools: () => false }, tools: [tool('a', () => 1)] }), /tools/],
    [named({ dispose: 'x' }), /dispose must be a function/],
  ];
  for (const [options, message] of cases) {
    await assert.rejects(
      open(() => options),
      { code: 'invalid-config', message },
    );
  }
  let disposed = 0;
  const dispose = () => void disposed++;
  for (const extra of [{ maxRounds: 0 }, { provider: null }]) {
    const options = named({ ...extra, dispose });
    await assert.rejects(
      open(() => options),
      { code: 'invalid-config' },
    );
  }
  assert.equal(disposed, 2);
  await assert.rejects(
    open(() => {
      throw boom;
    }),
    (error) => error === boom,
  );
  await (await open({ provider })).release();
});
