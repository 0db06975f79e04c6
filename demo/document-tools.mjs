// The tools of the reviewing agents. They work on the document's text alone, in Node and in a browser; what
// keeps the report is the host's.

/** @typedef {import('agent-roundtable').Tool} Tool */

/**
 * @param {string} markdown the document under review
 * @param {(call: string) => void} onCall told each call, such as `read_section("Retries")`
 * @returns {Tool[]} new objects: tools belong to one agent at a time
 */
export function documentTools(markdown, onCall) {
  const sections = splitSections(markdown);
  const find = (title) => {
    const section = sections.find((one) => one.title === title);
    // What a tool throws is told to the model, which may do better.
    if (!section) throw new Error(`there is no section "${title}"; the sections are: ${titles(sections)}`);
    return section;
  };
  const title = { type: 'string', description: 'The title of a section, as list_sections gives it' };
  return [
    {
      name: 'list_sections',
      description: 'Lists the sections of the document and how many words each has.',
      parameters: { type: 'object', properties: {}, additionalProperties: false },
      execute() {
        onCall('list_sections()');
        return sections.map((section) => ({ title: section.title, words: countWords(section.text) }));
      },
    },
    {
      name: 'read_section',
      description: 'Returns the text of one section.',
      parameters: { type: 'object', properties: { title }, required: ['title'], additionalProperties: false },
      execute(args) {
        onCall(`read_section(${JSON.stringify(args.title)})`);
        return find(args.title).text;
      },
    },
    {
      name: 'count_words',
      description: 'Counts the words of the whole document, or of one section.',
      parameters: { type: 'object', properties: { title }, additionalProperties: false },
      execute(args) {
        onCall(`count_words(${args.title === undefined ? '' : JSON.stringify(args.title)})`);
        return countWords(args.title === undefined ? markdown : find(args.title).text);
      },
    },
  ];
}

/**
 * The tool that acts: it leaves a file behind, so an agent must ask before it runs.
 * @param {(text: string) => void | Promise<void>} saveReport
 * @param {(call: string) => void} onCall told each call
 * @returns {Tool}
 */
export function reportTool(saveReport, onCall) {
  return {
    name: 'save_report',
    description: 'Keeps the report as a file for the author.',
    parameters: {
      type: 'object',
      properties: { text: { type: 'string', description: 'The whole report, in Markdown' } },
      required: ['text'],
      additionalProperties: false,
    },
    // The same report again changes nothing.
    idempotent: true,
    async execute({ text }) {
      onCall('save_report()');
      await saveReport(text);
      return { saved: 'report.md' };
    },
  };
}

/** @returns {{title: string, text: string}[]} what stands under each heading of the first and second level */
export function splitSections(markdown) {
  return markdown
    .split(/^(?=##? )/m)
    .map((part) => /^##? (.*)\n([\s\S]*)$/.exec(part))
    .filter(Boolean)
    .map(([, title, text]) => ({ title, text: text.trim() }));
}

function countWords(text) {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

function titles(sections) {
  return sections.map((section) => `"${section.title}"`).join(', ');
}
