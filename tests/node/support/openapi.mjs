// Values made from a JSON Schema, sound or broken, and a check of values against one: as much of both as the
// description of the HTTP interface uses.

/** A source of chance that a seed repeats. */
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return {
    next,
    chance: (p) => next() < p,
    below: (n) => Math.floor(next() * n),
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}

const resolve = (api, schema) => (schema.$ref ? api.components.schemas[schema.$ref.split('/').at(-1)] : schema);
const LETTERS = ['a', 'Z', ' ', 'é', '😀', '"', '\\', '/', '<', '\u202e'];
const ODD = [
  null,
  true,
  -1,
  0,
  1.5,
  1e300,
  '',
  ' ',
  '\0',
  '\n',
  [],
  {},
  [[]],
  ['', null],
  { a: 1 },
  'x'.repeat(10_001),
];

/** A value that the schema takes; or, where it is not to be sound, perhaps one that it does not. */
export function generated(rng, api, given, isSound) {
  const schema = resolve(api, given);
  if (!isSound && rng.chance(0.25)) return rng.pick(ODD);
  if (schema.enum) return rng.pick(schema.enum);
  switch (Array.isArray(schema.type) ? rng.pick(schema.type) : schema.type) {
    case 'object': {
      const members = {};
      for (const [name, member] of Object.entries(schema.properties)) {
        const isWanted = schema.required.includes(name) ? isSound || rng.chance(0.9) : rng.chance(0.3);
        if (isWanted) members[name] = generated(rng, api, member, isSound);
      }
      if (!isSound && rng.chance(0.3)) members.from = 'fac';
      return members;
    }
    case 'array':
      return Array.from({ length: (schema.minItems ?? 0) + rng.below(3) }, () =>
        generated(rng, api, schema.items, isSound),
      );
    case 'integer': {
      const { minimum = -10, maximum = 10_000 } = schema;
      return minimum + rng.below(Math.min(maximum - minimum, 20) + 1);
    }
    case 'boolean':
      return rng.chance(0.5);
    default: {
      const longest = Math.min(schema.maxLength ?? 20, rng.chance(0.1) ? 10_000 : 20);
      const inner = Array.from({ length: rng.below(Math.max(longest - 2, 1)) }, () => rng.pick(LETTERS)).join('');
      return `w${inner}w`;
    }
  }
}

/** What is wrong with a value; nothing where the schema takes it. */
export function conform(api, given, value, path = '$') {
  const schema = resolve(api, given);
  const types = [schema.type].flat();
  const type =
    value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value;
  if (!types.includes(type)) return [`${path}: ${type} is not ${types}`];
  const wrong = [];
  const rule = (holds, what) => holds || wrong.push(`${path}: ${what}`);
  if (schema.enum) rule(schema.enum.includes(value), 'not of the enumeration');
  if (type === 'string') {
    const length = [...value].length;
    rule(
      length >= (schema.minLength ?? 0) && length <= (schema.maxLength ?? Number.POSITIVE_INFINITY),
      `length ${length}`,
    );
    if (schema.pattern) rule(new RegExp(schema.pattern, 'u').test(value), `not like ${schema.pattern}`);
    if (schema.format === 'date-time') rule(new Date(value).toISOString() === value, 'no instant');
    if (schema.format === 'uuid') rule(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value), 'no UUID');
  }
  if (type === 'integer') {
    rule(value >= (schema.minimum ?? value) && value <= (schema.maximum ?? value), `${value} is out of range`);
  }
  if (type === 'array') {
    rule(
      value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? value.length),
      `${value.length} items`,
    );
    for (const [index, item] of value.entries()) wrong.push(...conform(api, schema.items, item, `${path}[${index}]`));
  }
  if (type === 'object') {
    for (const name of schema.required) rule(name in value, `${name} is missing`);
    for (const [name, member] of Object.entries(value)) {
      if (schema.properties[name] === undefined) wrong.push(`${path}: ${name} is not described`);
      else wrong.push(...conform(api, schema.properties[name], member, `${path}.${name}`));
    }
  }
  return wrong;
}
