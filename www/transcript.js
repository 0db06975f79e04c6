// Shows a conversation from its events. A card is dashed while its text is a preview, and solid once it is published.
import { formatted } from './format.js';

/** What a card says of its state. */
const STATES = { working: 'at work', prepared: 'ready, not yet published', yielded: 'had nothing to add' };

export class Transcript {
  #root;
  #group = null;
  #cards = new Map();

  /** @param {HTMLElement} root emptied */
  constructor(root) {
    this.#root = root;
    root.replaceChildren();
  }

  /** @param {import('agent-roundtable').RoundtableEvent} event */
  event(event) {
    if (event.type === 'group-started') this.#groupStarted(event.participantIds);
    else if (event.type === 'turn-started') this.#card(event.participantId).state('working');
    else if (event.type === 'delta') this.#card(event.participantId).add(event.text);
    else if (event.type === 'prepared') this.#card(event.participantId).state('prepared');
    else if (event.type === 'published') this.#published(event.messages);
  }

  toolCall(participantId, call) {
    this.#card(participantId).tool(call);
  }

  #groupStarted(participantIds) {
    this.#group = document.createElement('div');
    this.#group.className = participantIds.length > 1 ? 'group together' : 'group';
    this.#cards.clear();
    this.#root.append(this.#group);
    if (participantIds.length === 1) return;
    const note = Object.assign(document.createElement('p'), { className: 'hint' });
    note.textContent = `${participantIds.join(' and ')} at the same time`;
    this.#group.append(note);
  }

  #card(participantId) {
    let card = this.#cards.get(participantId);
    if (!card) {
      card = new Card(participantId);
      this.#cards.set(participantId, card);
      this.#group.append(card.element);
      this.#group.scrollIntoView({ block: 'nearest' });
    }
    return card;
  }

  #published(messages) {
    for (const { participantId, content, revision } of messages) this.#card(participantId).publish(content, revision);
    const speakers = new Set(messages.map((message) => message.participantId));
    for (const [id, card] of this.#cards) if (!speakers.has(id)) card.state('yielded');
  }
}

class Card {
  element = document.createElement('article');
  #text = document.createElement('div');
  #tools = Object.assign(document.createElement('ul'), { className: 'tools' });
  #state = Object.assign(document.createElement('span'), { className: 'state' });
  #streamed = '';

  constructor(participantId) {
    const name = Object.assign(document.createElement('h3'), { textContent: participantId });
    const head = document.createElement('header');
    head.append(name, this.#state);
    this.#text.className = 'text';
    this.#tools.setAttribute('aria-label', `tools that ${participantId} used`);
    this.element.dataset.participant = participantId;
    this.element.setAttribute('aria-label', participantId);
    this.element.append(head, this.#text);
  }

  state(state) {
    this.element.dataset.state = state;
    // Assistive technology reads a card when it is whole.
    this.element.setAttribute('aria-busy', String(state === 'working'));
    this.#state.textContent = STATES[state];
  }

  add(text) {
    this.#streamed += text;
    this.#text.replaceChildren(...formatted(this.#streamed));
  }

  tool(call) {
    if (!this.#tools.isConnected) this.#text.before(this.#tools);
    const item = document.createElement('li');
    item.append(Object.assign(document.createElement('code'), { textContent: call }));
    this.#tools.append(item);
  }

  publish(content, revision) {
    this.#text.replaceChildren(...formatted(content));
    this.state('published');
    this.#state.textContent = `published at revision ${revision}`;
  }
}
