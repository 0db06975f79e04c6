// What the models say in the demo, written by hand: it plays the paid service that the demo cannot reach.
// `record.mjs` has the review run against it and keeps what was asked and said as session logs.
import { PROVIDER } from './review.mjs';

const list = ['list_sections', {}];
const read = (title) => ['read_section', { title }];
const count = ['count_words', {}];

const REPORT = `Report to the author.

The note is clear and, at 709 words, short; the case for webhooks is made. It is not ready to build from. Please change three things before the next draft:

1. Keep messages in the delivery queue for 48 hours, and mark as failed whatever is removed.
2. Let the signature cover a timestamp, and tell receivers how old an event may be.
3. Follow no redirects, and check the address before each delivery.

Three more should change before the second step of the rollout: spread the retries, let secrets overlap for a day, and say what becomes of waiting events when the setting is turned off.

What will you change before the next draft?`;

/** The replies of each agent, in order, the editor's after its report apart: tools to call, or words. Without words an agent yields its turn. */
export const SCRIPT = {
  operations: [
    { calls: [list] },
    { calls: [read('Design'), read('Retries'), read('Failure modes'), read('Rollout')] },
    {
      says: `Three findings.

1. Loss of data. Retries go on for 24 hours, but the delivery queue removes messages after 12 ("Design"). An endpoint that is down for longer loses its events, and nobody is told: what the queue removes is never marked as failed.
2. Retries in step. "All events of an endpoint follow the same clock", so an endpoint that comes back is sent everything at one tick. Widen the interval after each try and spread it at random.
3. Rollback. Turning the setting off leaves events in the outbox that "are not delivered later". Say who decides that, and how a customer learns of it.`,
    },
    {
      says: `No. The last retry starts up to 24 hours after the first attempt, and the relay may be an hour behind ("Failure modes"). Keep messages for 48 hours: then the queue never decides the fate of an event.`,
    },
  ],
  security: [
    { calls: [list] },
    // There is no such section; the tool says so and the model asks again.
    { calls: [read('Secrets')] },
    { calls: [read('Signing and secrets'), read('Design')] },
    {
      says: `Three findings.

1. Replay. The signature covers the body and nothing else. Whoever records one request can send it again for ever, and the receiver cannot tell. Sign a timestamp with the body and let receivers refuse what is older than five minutes.
2. Redirects. Following them sends a customer's invoice to hosts that nobody registered, addresses of our own network included. Follow none, and check the resolved address before each delivery.
3. Rotation. The old secret stops at once, so a receiver that has not switched yet refuses everything in between. Sign with both secrets for a day.`,
    },
    { says: '' },
  ],
  editor: [
    { calls: [read('Goals')] },
    {
      says: `Both reviews hold against the text. By what it costs to leave things as they are:

- Blocks: messages kept for 12 hours against the promise that an outage of one day loses nothing (operations 1). The note contradicts its own goal.
- Blocks: a signature that can be replayed (security 1). To tell our events from anybody else's is a goal too.
- Blocks: redirects to hosts that nobody registered (security 2).
- Should change: retries in step (operations 2), the rollback that drops events (operations 3), rotation without overlap (security 3).

operations: would 24 hours in the queue be enough?`,
    },
    { calls: [count] },
    { calls: [['save_report', { text: REPORT }]] },
  ],
  // What follows depends on what somebody decides.
  'editor-approved': [{ says: `The report is kept as report.md.\n\n${REPORT}` }],
  'editor-denied': [{ says: `I was not to keep the report as a file, so it stands here alone.\n\n${REPORT}` }],
};

/**
 * A provider that gives the replies of one list in order, whatever it is asked.
 * @returns {import('agent-roundtable').ChatProvider}
 */
export function scriptedProvider(list) {
  const replies = SCRIPT[list];
  let used = 0;
  function next(messages) {
    const reply = replies[used];
    if (reply === undefined) throw new Error(`the script of ${list} has no reply ${used + 1}`);
    used += 1;
    const message = { id: `${list}-${used}`, role: 'assistant', timestamp: new Date(0) };
    const toolCalls = reply.calls?.map(([name, args], i) => ({
      id: `${list}-${used}-${i + 1}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(args) },
    }));
    const metadata = usage(messages, reply);
    return { message, pieces: pieces(reply.says), end: toolCalls ? { toolCalls, metadata } : { metadata } };
  }
  return {
    name: PROVIDER,
    async chat() {
      throw new Error('the script streams');
    },
    async *chatStream(messages) {
      const { message, pieces, end } = next(messages);
      for (const content of pieces.slice(0, -1)) yield { ...message, content, state: 'interrupted' };
      yield { ...message, content: pieces.at(-1), state: 'complete', ...end };
    },
  };
}

/** Words as they stream: four at a time. */
function pieces(says) {
  if (says === undefined) return [null];
  return says.match(/(?:\s*\S+){1,4}\s*/g) ?? [''];
}

/** As a service would report it; about four characters make a token. */
function usage(messages, reply) {
  const inputTokens = Math.ceil(JSON.stringify(messages.map(({ content }) => content)).length / 4);
  const outputTokens = Math.ceil(JSON.stringify(reply).length / 4);
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, usageProvenance: 'complete' };
}
