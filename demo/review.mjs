// The conversation of the demo: three agents and the author review a document. `main.mjs` shows it on a
// terminal, `www/main.js` on a page, and `record.mjs` records what the models say in it.
import {
  agentParticipant,
  createRoundtable,
  externalParticipant,
  loadRoundtable,
  sessionParticipant,
} from 'agent-roundtable';
import { documentTools, reportTool } from './document-tools.mjs';

/** Who takes part, in the order in which they are shown. */
export const AGENTS = [
  {
    id: 'operations',
    model: 'reviewer-large',
    description: 'Looks for what breaks in production',
    task: 'You review design notes for what breaks in production: capacity, retries, loss of data, rollback.',
  },
  {
    id: 'security',
    model: 'reviewer-large',
    description: 'Looks for what can be abused',
    task: 'You review design notes for what can be abused: identity, secrets, untrusted input.',
  },
  {
    id: 'editor',
    model: 'editor-small',
    description: 'Weighs the findings and writes the report',
    task: 'You weigh the findings of the reviewers against the document and report to its author in plain words.',
  },
];
/** Whose report may be kept as a file, if somebody lets it. */
const WRITER = 'editor';
export const AUTHOR = { id: 'author', description: 'Wrote the document' };
export const PROVIDER = 'example-models';

/** What the author says where nobody is there to type it. */
export const DEFAULT_LINE =
  'Agreed on all three. The queue will keep messages for 48 hours, the signature will cover a timestamp, and ' +
  'redirects go. The second draft comes on Thursday.';

/** The replies were recorded, so what happens in the conversation can only be this. */
const AGENDA = [
  { kind: 'parallel', participantIds: ['operations', 'security'] },
  { kind: 'speak', participantId: 'editor' },
  { kind: 'parallel', participantIds: ['operations', 'security'] },
  { kind: 'speak', participantId: 'editor' },
  // The author has the last word: an agent that answered freely typed text would need a reply no log holds.
  { kind: 'wait', participantId: 'author', reason: 'What will you change before the next draft?' },
  { kind: 'finish', reason: 'The author has answered the report.' },
];

const agenda = {
  reference: { id: 'demo/agenda', version: '1' },
  modelCalls: 'none',
  /** The next point: each takes as many turns as it names participants. */
  select({ turns }) {
    let left = turns.length;
    for (const selection of AGENDA) {
      if (left <= 0) return selection;
      left -= selection.kind === 'parallel' ? selection.participantIds.length : 1;
    }
    return AGENDA.at(-1);
  },
};

/** Made-up prices, in cents for a million tokens; a call costs whole cents, rounded up. */
const CENTS_PER_MILLION = {
  'reviewer-large': { input: 500n, output: 2500n },
  'editor-small': { input: 100n, output: 500n },
};

const pricing = {
  version: 'demo-1',
  cost({ modelId, tokens }) {
    const rate = CENTS_PER_MILLION[modelId];
    if (rate === undefined || tokens === undefined) return null;
    const millionths = rate.input * BigInt(tokens.input ?? 0) + rate.output * BigInt(tokens.output ?? 0);
    return { currency: 'USD', minorUnits: String((millionths + 999_999n) / 1_000_000n) };
  },
};

/** A clock that stands still, so that the journal, which holds times, is the same after every run. */
const clock = {
  now: () => Date.UTC(2027, 0, 5, 9),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (handle) => clearTimeout(handle),
};

const CONVERSATION = 'review-of-webhooks';

/**
 * @typedef {object} Setting
 * @property {string} document Markdown
 * @property {Record<string, import('agent-roundtable').ChatProvider>} providers one for each agent: a provider
 *   belongs to one session at a time
 * @property {import('agent-roundtable').ConversationStore} store
 * @property {(event: import('agent-roundtable').RoundtableEvent) => void | Promise<void>} onEvent
 * @property {(participantId: string, call: string) => void} onToolCall
 * @property {(text: string) => void | Promise<void>} saveReport keeps the report, once that is approved
 */

/** A review that begins, whatever the store holds of an earlier one. @param {Setting} setting */
export async function createReview(setting) {
  const { store, onEvent } = setting;
  await store.delete(CONVERSATION).catch(() => undefined);
  return createRoundtable({
    conversationId: CONVERSATION,
    purpose: 'Review the design note on outgoing webhooks before its next draft.',
    participants: [...agents(setting), externalParticipant(AUTHOR)],
    selector: agenda,
    limits: { maxTurnsPerRun: 10, maxModelCallsPerConversation: 20 },
    maxConcurrentParticipants: 2,
    store,
    // Where the store outlives this process, so does a review that waits for somebody.
    recovery: store.durability === 'durable' ? 'durable' : 'none',
    pricing,
    seed: 'demo',
    clock,
    onEvent,
  });
}

/** The review that an earlier process left in the store. @param {Setting} setting */
export function loadReview(setting) {
  const { store, onEvent } = setting;
  const known = new Map(agents(setting).map((agent) => [agent.runtime.id, agent]));
  const registry = {
    resolveParticipant: ({ id }) => ({ reference: known.get(id).runtime, factory: known.get(id).factory }),
    resolveSelector: () => ({ reference: agenda.reference, create: () => agenda }),
  };
  return loadRoundtable({ conversationId: CONVERSATION, store, registry, pricing, clock, onEvent });
}

/** @param {Setting} setting */
function agents({ document, providers, onToolCall, saveReport }) {
  return AGENTS.map(({ id, description, model, task }) => {
    const onCall = (call) => onToolCall(id, call);
    const options = { provider: providers[id], model, systemMessage: `You are ${id}. ${task}` };
    const tools = () => documentTools(document, onCall);
    const who = { id, description, runtime: { id: `demo/${id}`, version: '1' } };
    if (id !== WRITER) return agentParticipant({ ...who, createAgent: () => ({ ...options, tools: tools() }) });
    return sessionParticipant({
      ...who,
      createSessionOptions: () => ({
        ...options,
        tools: [...tools(), reportTool(saveReport, onCall)],
        // Whatever is not named here is asked.
        permissions: { allow: ['list_sections', 'read_section', 'count_words'] },
      }),
    });
  });
}

/** Says yes or no to what an agent asks leave for. */
export function decide(table, request, approved) {
  return table.resume({
    requestId: request.id,
    responseId: `decision-on-${request.id}`,
    expectedRevision: table.snapshot().revision,
    response: { kind: 'approval', approved },
  });
}

/** Answers the open question with the author's words. */
export function answer(table, request, content) {
  return table.submitInput({
    participantId: AUTHOR.id,
    inputId: 'last-word',
    expectedRevision: table.snapshot().revision,
    content,
    replyToRequestId: request.id,
  });
}
