// Runs every *.test.mjs of this folder and ends with "N passed, N failed".
import fs from 'node:fs';
import { results } from './test.mjs';

const here = new URL('.', import.meta.url);
for (const name of fs.readdirSync(here).filter((n) => n.endsWith('.test.mjs')).sort()) await import(new URL(name, here));
console.log(`${results.passed} passed, ${results.failed} failed`);
process.exit(results.failed ? 1 : 0);
