/** Writes src/types.ts from the published schemas, or a file that is named: `npm run types`. */

import { readFile, readdir, writeFile } from 'node:fs/promises';
import { compile } from 'json-schema-to-typescript';

const SCHEMAS = new URL('../../holdfast/schemas/', import.meta.url);
const OUTPUT = process.argv[2] ?? new URL('src/types.ts', import.meta.url);
const BANNER = '/* Written by `make schemas` from holdfast/schemas/*.schema.json. */';
const REFERENCES = / \*\n \* This interface was referenced by `Schemas`[^]*? \*\/\n/g;
// Which properties of an object go together: no type expresses it, and the generator tries.
const RULES = ['if', 'then', 'not', 'anyOf', 'oneOf'];
// What holds any JSON, and what holds any keyword.
const ANY = { JsonValue: 'unknown', JsonSchema: 'boolean | { [keyword: string]: unknown }' };

/** A schema that names the types of its references: the generator copies some of them. */
function withNames(value) {
  if (Array.isArray(value)) return value.map(withNames);
  if (value === null || typeof value !== 'object') return value;
  const { $ref, description } = value;
  if (typeof $ref === 'string') {
    return { tsType: $ref.replace('#/$defs/', ''), ...(description && { description }) };
  }
  const isRule = (key) =>
    value.type === 'object' && RULES.includes(key) && !JSON.stringify(value[key]).includes('$ref');
  const entries = Object.entries(value).filter(([key]) => !isRule(key));
  return Object.fromEntries(entries.map(([key, each]) => [key, withNames(each)]));
}

// One module: a definition that several schemas share is one type.
const definitions = {};
const files = (await readdir(SCHEMAS)).filter((name) => name.endsWith('.schema.json')).sort();
for (const file of files) {
  const text = await readFile(new URL(file, SCHEMAS), 'utf8');
  const { $schema, $id, $defs, examples, ...root } = JSON.parse(text);
  const name = root.title.replace(/ ([a-z])/g, (_, first) => first.toUpperCase());
  for (const [key, schema] of Object.entries({ ...$defs, [name]: root })) {
    const tsType = ANY[key] && { tsType: ANY[key] };
    const made = withNames({ ...schema, title: key, ...tsType });
    if (JSON.stringify(definitions[key] ?? made) !== JSON.stringify(made)) {
      throw new Error(`${file}: another schema has another ${key}: rename one of their models`);
    }
    definitions[key] = made;
  }
}
const types = await compile({ $defs: definitions }, 'Schemas', {
  additionalProperties: false,
  bannerComment: BANNER,
  ignoreMinAndMaxItems: true,
  style: { printWidth: 100, singleQuote: true },
  unreachableDefinitions: true,
});
await writeFile(OUTPUT, types.replace(REFERENCES, ' */\n'));
