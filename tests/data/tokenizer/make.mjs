// Makes torture.jsonl and the two small vocabularies. usage: node make.mjs [TOKENIZER.json]
// With the path of foretoken-tiny's tokenizer.json, bytes.json becomes its first merges; chars.json is
// trained here, on torture.jsonl and this file. Everything is repeatable.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
let seed = 20240607;
const rnd = (n) => {
  seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5;
  return (seed >>> 0) % n;
};
const pick = (list) => list[rnd(list.length)];
const lines = [];
const add = (...texts) => lines.push(...texts);

// ---- scripts: letters, marks and digits of each ----
const scripts = `Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Nko Samaritan Mandaic Devanagari Bengali Gurmukhi
Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee
Canadian_Aboriginal Ogham Runic Tagalog Hanunoo Buhid Tagbanwa Khmer Mongolian Limbu Tai_Le New_Tai_Lue Buginese Tai_Tham
Balinese Sundanese Batak Lepcha Ol_Chiki Glagolitic Coptic Tifinagh Hiragana Katakana Bopomofo Han Yi Lisu Vai Bamum
Syloti_Nagri Phags_Pa Saurashtra Kayah_Li Rejang Javanese Cham Meetei_Mayek Linear_B Gothic Deseret Brahmi Kaithi Chakma
Cuneiform Egyptian_Hieroglyphs Adlam`.split(/\s+/);
const pools = [];
for (const s of scripts) {
  const re = new RegExp(`^(?=\\p{Script=${s}})[\\p{L}\\p{M}\\p{N}]$`, 'u');
  const all = [];
  for (let c = 0x41; c < 0x20000; c++) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const t = String.fromCodePoint(c);
    if (re.test(t)) all.push(t);
  }
  const chars = all.slice(0, 96);
  pools.push(chars);
  add(chars.slice(0, 40).join(''));
  let words = '';
  for (let w = 0; w < 8; w++) {
    for (let k = 1 + rnd(9); k > 0; k--) words += pick(chars);
    words += pick([' ', ', ', '. ', '-', ' (', ') ', '\u00a0', '\n', '1 ']);
  }
  add(words, words.normalize('NFD'), words.normalize('NFC'));
}

// ---- white space, line ends, invisible characters ----
const spaces = [' ', '  ', '   ', '\t', '\t\t', '\n', '\n\n', '\r\n', '\r\n\r\n', '\r', '\v', '\f', '\x1c', '\x1f', '\u0085',
  '\u00a0', '\u1680', '\u180e', '\u2000', '\u2003', '\u200a', '\u200b', '\u200c', '\u200d', '\u2028', '\u2029', '\u202f',
  '\u205f', '\u2060', '\u3000', '\ufeff', '\0', '\x7f'];
for (const s of spaces) add(s, s + s, `a${s}b`, `a${s}${s}b`, `a ${s} b`, `.${s}\n${s}x`, `1${s}2${s}${s}`, `${s}'s${s}'LL`);
for (let n = 1; n < 70; n += n < 20 ? 1 : 7) add(`x${' '.repeat(n)}y`, `x${'\n'.repeat(n)}y`, `x${'\t'.repeat(n)}y`, `${' '.repeat(n)}\n${' '.repeat(n)}`);
add('', ' ', '\n', '\0', 'a\0b', '\u0001\u0002', 'tab\tseparated\tvalues\t', 'trailing   ', '   leading', ' \n \n z  ',
  'Hello  world\'s 123\n\n  x', 'I\'LL go\t\tnow...\n', 'x = (1+2);\r\n\r\n y');

// ---- contractions, digits, punctuation ----
for (const s of ["'s", "'S", "'t", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'lL", "'d", "'D", "'x", "'", "''s", "'\u017f", "'\u212a"])
  add(`it${s}`, `${s}`, ` ${s} `, `it${s}elf`, `1${s}2`, `"${s}"`);
add('0123456789', '3.14159', '1,000,000', '١٢٣٤٥٦٧٨٩٠', '१२३४५६७८९०', '一二三〇', 'Ⅷ ½ ² ③ ㊿', '0x1F, 1e-9, 10%', '\u{1d7d8}\u{1d7d9}');
for (let c = 0x20; c < 0x7f; c++) { const t = String.fromCharCode(c); add(t + t + t + ' ' + t + 'a' + t + '1'); }
add('…—–“”‘’«»„‚‹›', '¡¿§¶†‡•‣', '←↑→↓⇒∀∃∑√∞≠≤≥', '$€£¥₹₿', '©®™ªº', '—a—b —', '-'.repeat(200), '='.repeat(65) + '>', '#'.repeat(7));

// ---- emoji ----
add('😀', '👨‍👩‍👧‍👦', '🤷🏽‍♀️', '🏳️‍🌈', '🇩🇪🇫🇷', '1️⃣2️⃣', '👍🏻👍🏿', '❤️ vs ❤', '🧑🏾‍🚀 go', '😀😀😀', 'a😀b', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', '☕️.', '🤷 \n🤷');

// ---- normalisation ----
add('e\u0301', 'é', 'E\u0302\u0301', 'Å \u212b A\u030a', '\u2126 \u212a', 'q\u0307\u0323', 'q\u0323\u0307', '\u1e9b\u0323', '\u0344', '\u0958 \u0929',
  '\u0915\u093c', '\ufb1d \ufb2a', '\u2adc', '\u1100\u1161\u11a8', '\uac00\u11a8', '\u1100\u1161', '\u1161\u11a8', '\u1112\u119e\u11ab',
  '\u110b\u1175\u1100\u1165\u11ba', '각각', '\uf900\uf901', '\u{2f800}', 'a\u0323\u0307\u0301\u0316b', 'ﬁ ﬃ ſ ʼn', '\u3099か\u3099 \u309a', 'ガギ ｶﾞ',
  'Việt Nam', 'Việt Nam'.normalize('NFD'), 'ẛ̣', '\u0b47\u0b57 \u0dd9\u0dcf', '\u{1109b}\u{110ba}', '\u{1d15e}', 'x\u0334\u0338\u0335', '\u0300alone');
add('\u0301'.repeat(40), 'a' + '\u0301\u0323'.repeat(30), ('o\u0308').repeat(20));

// ---- special tokens, whole and in part ----
for (const t of ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<think>', '</think>', '<tool_call>', '<bos>', '<eos>', '<turn|>', '<|turn>', '<unused7>', '<0x41>', '<table>', '▁▁'])
  add(t, `a${t}b`, ` ${t} `, `${t}${t}`, t.slice(0, -1), t.slice(1), `e${t}\u0301`);
add('<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n', '<<|im_end|>>', '<|im_<|im_end|>');

// ---- prose and code ----
add('The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs!',
  'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.', 'Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis.',
  'Съешь же ещё этих мягких французских булок, да выпей чаю.', 'مرحبا بالعالم، كيف حالك؟', 'שלום עולם \u200fRTL\u200e mixed', 'いろはにほへと ちりぬるを', '天地玄黃，宇宙洪荒。日月盈昃',
  '모든 인간은 태어날 때부터 자유로우며', 'सभी मनुष्यों को गौरव और अधिकारों', 'มนุษย์ทั้งหลายเกิดมามีอิสระ', 'Mọi người sinh ra đều được tự do');
add('int main(void)\n{\n    return 0;\n}\n', 'for (let i = 0; i < n; ++i) { a[i] *= 2; } // twice', 'def f(x):\n\treturn x**2 if x else None\n', '<a href="x?y=1&z=2">t</a>',
  'SELECT * FROM t WHERE a>=1 AND b<>\'it\'\'s\';', '{"k": [1, 2.5e3, null, "\\u00e9"]}', 'a_b-c.d/e\\f@g:h#i', 'https://example.com/?q=%20a+b', '```sh\nls -la | grep "x" > /dev/null 2>&1\n```',
  'camelCaseAndPascalCase snake_case SCREAMING_CASE', 'pneumonoultramicroscopicsilicovolcanoconiosis'.repeat(6), 'ab'.repeat(100), 'x'.repeat(300), 'aA1'.repeat(50));

// ---- everything mixed ----
const bits = [...spaces, ...pools.flatMap((p) => p.slice(0, 12)), "'s", "'Ll", '12', '.', '...', '!?', '\u0301', '\u0323', '\u200d', '😀', '<think>', 'the', ' of', 'Über', '한', '\u1161', '\u11a8'];
for (let i = 0; i < 150; i++) { let t = ''; for (let k = 1 + rnd(40); k > 0; k--) t += pick(bits); add(t); }

const texts = [...new Set(lines)];
writeFileSync(join(here, 'torture.jsonl'), texts.map((t) => JSON.stringify({ text: t })).join('\n') + '\n');

// ---- vocabularies ----
const token = (id, content, special) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special });

function train(corpus, vocab, merges, rounds) { // plain BPE over words of characters
  let words = new Map();
  const taken = new Set(merges.map((m) => m.join('\0'))); // a rule that is there keeps its rank
  for (const w of corpus) words.set(w, (words.get(w) ?? 0) + 1);
  words = [...words].map(([w, n]) => ({ s: [...w], n }));
  for (let r = 0; r < rounds; r++) {
    const count = new Map();
    for (const { s, n } of words) for (let i = 0; i + 1 < s.length; i++) { const k = s[i] + '\0' + s[i + 1]; count.set(k, (count.get(k) ?? 0) + n); }
    let best = null;
    for (const [k, n] of count) if (taken.has(k) || k.replace("\0", "").startsWith("<0x")) continue; else if (!best || n > best[1] || (n === best[1] && k < best[0])) best = [k, n];
    if (!best || best[1] < 2) break;
    const [a, b] = best[0].split('\0');
    taken.add(best[0]);
    merges.push([a, b]);
    if (!(a + b in vocab)) vocab[a + b] = Object.keys(vocab).length;
    for (const w of words) for (let i = 0; i + 1 < w.s.length; i++) if (w.s[i] === a && w.s[i + 1] === b) w.s.splice(i, 2, a + b);
  }
}

const vocab = {}, merges = [], added = [];
const put = (t) => { if (!(t in vocab)) vocab[t] = Object.keys(vocab).length; return vocab[t]; };
for (const t of ['<pad>', '<eos>', '<bos>', '<unk>', '<|turn>', '<turn|>']) added.push(token(put(t), t, true));
for (const t of ['<|channel>', '<channel|>', '<table>', '<unused7>']) added.push(token(put(t), t, false));
for (let n = 1; n <= 12; n++) added.push(token(put('\n'.repeat(n)), '\n'.repeat(n), false));
for (let n = 2; n <= 12; n++) added.push(token(put('▁'.repeat(n)), '▁'.repeat(n), false));
for (let b = 0; b < 256; b++) put(`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
put('▁');
for (let n = 12; n >= 2; n--) for (let k = n - 1; k >= 1; k--) { merges.push(['▁'.repeat(k), '▁'.repeat(n - k)]); merges.push(['\n'.repeat(k), '\n'.repeat(n - k)]); }
for (const t of texts.filter((_, i) => i % 3 === 0)) for (const c of t) if (!/[\s\0\ud800-\udfff]/.test(c)) put(c);
const source = readFileSync(join(here, 'make.mjs'), 'utf8') + texts.join('\n');
train(source.split(/\n|(?= )/).map((w) => [...w.replaceAll(' ', '▁')].filter((c) => c in vocab).join('')).filter((w) => w.length > 1), vocab, merges, 900);
writeFileSync(join(here, 'chars.json'), JSON.stringify({
  version: '1.0', truncation: null, padding: null, added_tokens: added,
  normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
  pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false },
  post_processor: null,
  decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }] },
  model: { type: 'BPE', dropout: null, unk_token: '<unk>', continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: true, byte_fallback: true, ignore_merges: false, vocab, merges },
}) + '\n');

if (process.argv[2]) { // the first merges of a larger byte-level vocabulary are a smaller one
  const t = JSON.parse(readFileSync(process.argv[2], 'utf8'));
  const keep = 4000, results = new Set();
  t.model.merges = t.model.merges.slice(0, keep);
  for (const [a, b] of t.model.merges) results.add(a + b);
  const texts0 = Object.keys(t.model.vocab).filter((k) => [...k].length === 1 || results.has(k) || t.added_tokens.some((x) => x.content === k));
  texts0.sort((a, b) => t.model.vocab[a] - t.model.vocab[b]);
  t.model.vocab = Object.fromEntries(texts0.map((k, i) => [k, i]));
  for (const x of t.added_tokens) { x.id = t.model.vocab[x.content]; x.special = !/think|tool/.test(x.content); }
  t.normalizer = { type: 'NFC' };
  writeFileSync(join(here, 'bytes.json'), JSON.stringify(t) + '\n');
}
