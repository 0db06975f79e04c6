// A little Markdown: headings, paragraphs, lists and code, all as text nodes.

/** @returns {HTMLElement[]} */
export function formatted(text) {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '');
  return blocks.map(block);
}

function block(text) {
  const heading = /^(#{1,2}) (.*)$/.exec(text.trim());
  if (heading) return filled(heading[1].length === 1 ? 'h3' : 'h4', heading[2]);
  const lines = text.trim().split('\n');
  const numbered = /^\d+\. /;
  if (numbered.test(lines[0])) return list('ol', lines, numbered);
  if (lines[0].startsWith('- ')) return list('ul', lines, /^- /);
  return filled('p', lines.join(' '));
}

function list(kind, lines, mark) {
  const element = document.createElement(kind);
  element.append(...lines.map((line) => filled('li', line.replace(mark, ''))));
  return element;
}

function filled(kind, text) {
  const element = document.createElement(kind);
  for (const [i, part] of text.split('`').entries()) {
    if (i % 2 === 0) element.append(part);
    else element.append(Object.assign(document.createElement('code'), { textContent: part }));
  }
  return element;
}
