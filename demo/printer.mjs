// Prints a review as it grows: the same bytes whatever the pace and the terminal.
import { AUTHOR } from './review.mjs';

const WIDTH = 92;
const INDENT = '  ';

export class Printer {
  #write;
  #calls = new Map();
  /** Whose turns are open. */
  #members = [];
  /** The turn whose text is being shown while it streams. */
  #streaming = null;

  /** @param {(text: string) => void} write */
  constructor(write) {
    this.#write = write;
  }

  title(text) {
    this.#write(`${text}\n${'='.repeat(text.length)}\n\n`);
  }

  toolCall(participantId, call) {
    this.#calls.set(participantId, [...(this.#calls.get(participantId) ?? []), call]);
  }

  /** @param {import('agent-roundtable').RoundtableEvent} event */
  event(event) {
    if (event.type === 'group-started') this.#groupStarted(event.participantIds);
    else if (event.type === 'delta') this.#delta(event);
    else if (event.type === 'published') this.#published(event.messages);
    else if (event.type === 'requested') for (const request of event.requests) this.#asked(request);
  }

  table(columns, rows) {
    const widths = columns.map((column, i) => Math.max(column.length, ...rows.map((row) => row[i].length)));
    const line = (cells) => cells.map((cell, i) => (i < 2 ? cell.padEnd(widths[i]) : cell.padStart(widths[i])));
    for (const cells of [columns, widths.map((width) => '-'.repeat(width)), ...rows]) {
      this.#write(`${line(cells).join('  ').trimEnd()}\n`);
    }
    this.#write('\n');
  }

  line(text) {
    this.#write(`${text}\n`);
  }

  /** What happened beside the talk. */
  note(text) {
    this.#write(`[${text}]\n\n`);
  }

  #groupStarted(ids) {
    this.#calls.clear();
    this.#members = ids;
    if (ids.length > 1) this.note(`${ids.join(' and ')} at the same time`);
  }

  // A turn that runs alone is shown while it streams; turns that run together when they are published.
  #delta({ participantId, attemptId, text }) {
    if (this.#members.length > 1) return;
    if (this.#streaming?.attemptId !== attemptId) {
      this.#heading(participantId);
      this.#streaming = { attemptId, participantId, wrapped: new Wrapped(this.#write) };
    }
    this.#streaming.wrapped.add(text);
  }

  #published(messages) {
    for (const { participantId, content } of messages) {
      const streamed = this.#streaming?.participantId === participantId ? this.#streaming.wrapped : null;
      if (!streamed) this.#heading(participantId);
      const wrapped = streamed ?? new Wrapped(this.#write);
      if (!streamed) wrapped.add(content);
      wrapped.end();
      this.#write('\n');
    }
    const silent = this.#members.filter((id) => id !== AUTHOR.id && !messages.some((m) => m.participantId === id));
    for (const id of silent) this.#write(`${id} yields\n\n`);
    this.#members = [];
    this.#streaming = null;
  }

  #heading(participantId) {
    this.#write(`${participantId}\n`);
    const calls = this.#calls.get(participantId) ?? [];
    for (const call of calls) this.#write(`${INDENT}> ${call}\n`);
    if (calls.length > 0) this.#write('\n');
  }

  #asked({ kind, reason, participantId, data }) {
    if (kind === 'approval') this.note(`${participantId} asks leave to run ${data.toolName}`);
    else this.note(`the author is asked: ${reason}`);
  }
}

/** Text that comes in pieces, broken into lines between words. */
class Wrapped {
  #write;
  #column = 0;
  #word = '';
  /** What the lines that continue a line begin with: as far in as the text of a list's item. */
  #hanging = INDENT;

  constructor(write) {
    this.#write = write;
  }

  add(text) {
    for (const char of text) {
      if (char === ' ' || char === '\n') this.#endWord();
      if (char === '\n') this.#newLine(INDENT);
      else if (char !== ' ') this.#word += char;
    }
  }

  end() {
    this.#endWord();
    if (this.#column > 0) this.#newLine(INDENT);
  }

  #endWord() {
    const word = this.#word;
    if (word === '') return;
    this.#word = '';
    const begins = this.#column === 0 && this.#hanging === INDENT;
    if (this.#column > 0 && this.#column + 1 + word.length > WIDTH) this.#newLine(this.#hanging);
    const before = this.#column === 0 ? this.#hanging : ' ';
    if (begins && /^(-|\d+\.)$/.test(word)) this.#hanging = INDENT + ' '.repeat(word.length + 1);
    this.#write(before + word);
    this.#column += before.length + word.length;
  }

  #newLine(next) {
    this.#write('\n');
    this.#column = 0;
    this.#hanging = next;
  }
}
