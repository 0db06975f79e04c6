// A process of its own that holds a conversation: `node write-conversation.mjs <file|sqlite> <place> <turns>`.
import { createRoundtable, externalParticipant } from 'agent-roundtable';
import { fileStore, sqliteStore } from 'agent-roundtable/node';

const [kind, place, turns] = process.argv.slice(2);
const store = kind === 'file' ? fileStore({ directory: place }) : sqliteStore({ path: place });
let said = 0;
const agent = (id) => ({
  kind: 'agent',
  id,
  runtime: { id: 'r', version: '1' },
  factory: {
    openSession: async () => ({
      session: {
        async runTurn() {
          await new Promise((resolve) => setTimeout(resolve, 5));
          said += 1;
          return { kind: 'speak', content: `${id} ${said}` };
        },
      },
      release: async () => {},
    }),
  },
});
let asked = 0;
const roundtable = createRoundtable({
  conversationId: 'c',
  participants: [agent('ana'), agent('bo'), externalParticipant({ id: 'pia' })],
  selector: {
    select({ turns: done }) {
      if (done.length >= Number(turns)) return { kind: 'finish', reason: 'enough' };
      asked += 1;
      return asked % 2 === 0
        ? { kind: 'speak', participantId: 'ana' }
        : { kind: 'parallel', participantIds: ['bo', 'ana'] };
    },
  },
  limits: { maxTurnsPerRun: 3 },
  store,
});
// The first call that writes makes the record.
await roundtable.submitInput({ participantId: 'pia', inputId: 'i', content: 'begin', expectedRevision: 0 });
process.send('written');
for (let result = await roundtable.run(); result.status === 'limited'; ) result = await roundtable.run();
await roundtable.dispose();
await store.close?.();
process.disconnect();
