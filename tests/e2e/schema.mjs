// Every case of tests/data/schema: documents sampled from the grammar must pass an independent validator;
// schemas that are to be refused must be, and by name. usage: node schema.mjs NODE_FOLDER BUILD N
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { spawnSync } from 'node:child_process';

const [folder, build, samples] = process.argv.slice(2);
const require = createRequire(path.resolve(folder, 'x.js'));
const Ajv7 = require('ajv').default;
const Ajv2020 = require('ajv/dist/2020').default;
const addFormats = require('ajv-formats').default;

const data = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../data/schema');
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'schema-'));
let passed = 0, failed = 0, documents = 0;

function fail(name, why) {
  failed++;
  console.log(`FAIL ${name}: ${why}`);
}

function check(name, test) {
  const file = path.join(tmp, 'schema.json');
  fs.writeFileSync(file, JSON.stringify(test.schema));
  const run = spawnSync(path.join(build, 'tests/schema_sample'), [file, samples, '1'],
    { encoding: 'utf8', maxBuffer: 1 << 30 });
  if (test.expect === 'refuse') {
    if (run.status !== 1) return fail(name, `not refused (status ${run.status})`);
    if (!run.stderr.includes(test.says)) return fail(name, `says "${run.stderr.trim()}", want "${test.says}"`);
    return passed++;
  }
  if (run.status !== 0) return fail(name, run.stderr.trim() || `status ${run.status}`);
  const ajv = new (test.draft === 7 ? Ajv7 : Ajv2020)({ strict: false, allErrors: false });
  addFormats(ajv);
  const valid = ajv.compile(test.schema);
  const seen = new Set();
  for (const line of run.stdout.split('\n').slice(0, -1)) {
    let doc;
    documents++;
    seen.add(line);
    try {
      doc = JSON.parse(line);
    } catch (e) {
      return fail(name, `not JSON: ${line}`);
    }
    if (!valid(doc)) return fail(name, `${JSON.stringify(valid.errors[0])} for ${line}`);
  }
  if (samples >= 1000 && test.distinct && seen.size < test.distinct) return fail(name, `${seen.size} different documents, want ${test.distinct}`);
  passed++;
}

for (const file of fs.readdirSync(data).sort())
  for (const test of JSON.parse(fs.readFileSync(path.join(data, file), 'utf8')))
    check(`${file}: ${test.name}`, test);
fs.rmSync(tmp, { recursive: true });
console.log(`${documents} documents`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
