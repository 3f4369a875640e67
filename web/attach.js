/* Files that go with the next message: by button, paste or drop. */
import { $, icon, iconButton, make, toast } from './dom.js';
import { size } from './format.js';
import { has, load } from './load.js';
import { chosenModel, takesImages } from './server.js';

const MAX_TEXT = 1 << 20, MAX_IMAGE = 10 << 20, MAX_PDF = 50 << 20, MAX_FILES = 10, MAX_PAGES = 500;
const IMAGE = /^image\//, SERVER_IMAGE = /^image\/(png|jpeg|webp)$/; /* formats that the server decodes */

let files = [];

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const r = new FileReader();
    r.onload = () => resolve(r.result);
    r.onerror = () => reject(new Error(`${file.name} cannot be read`));
    r.readAsDataURL(file);
  });
}

async function readText(file) {
  if (file.size > MAX_TEXT) throw new Error(`${file.name} has ${size(file.size)}, the maximum is ${size(MAX_TEXT)}`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    text = '\0';
  }
  if (text.includes('\0')) throw new Error(`${file.name} is not a text file`);
  return { kind: 'text', name: file.name, text };
}

/* Other formats, such as GIF, as PNG: what the browser shows, of an animation the first picture. */
async function asPng(file) {
  const picture = await createImageBitmap(file).catch(() => { throw new Error(`${file.name} cannot be read as an image`); });
  const canvas = make('canvas');
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext('2d').drawImage(picture, 0, 0);
  picture.close();
  return canvas.toDataURL('image/png');
}

async function readImage(file) {
  if (!takesImages()) throw new Error(`${file.name}: the model ${chosenModel()?.id ?? ''} does not take images`);
  if (file.size > MAX_IMAGE) throw new Error(`${file.name} has ${size(file.size)}, the maximum is ${size(MAX_IMAGE)}`);
  return { kind: 'image', name: file.name, url: await (SERVER_IMAGE.test(file.type) ? dataUrl(file) : asPng(file)) };
}

async function readPdf(file) {
  if (!has('pdf.js', 'pdf.worker.js')) throw new Error(`${file.name}: this server was built without PDF support`);
  if (file.size > MAX_PDF) throw new Error(`${file.name} has ${size(file.size)}, the maximum is ${size(MAX_PDF)}`);
  await load('pdf.js');
  const pdfjs = window['pdfjs-dist/build/pdf'];
  pdfjs.GlobalWorkerOptions.workerSrc = 'web/pdf.worker.js';
  const task = pdfjs.getDocument({ data: await file.arrayBuffer(), isEvalSupported: false, disableFontFace: true, verbosity: 0 });
  const doc = await task.promise.catch((e) => { throw new Error(`${file.name} cannot be read as a PDF: ${e.message}`); });
  const pages = [];
  for (let i = 1; i <= Math.min(doc.numPages, MAX_PAGES); i++) {
    const { items } = await (await doc.getPage(i)).getTextContent();
    pages.push(items.map((t) => t.str + (t.hasEOL ? '\n' : '')).join(''));
  }
  await task.destroy();
  const text = pages.join('\n\n').trim();
  if (!text) throw new Error(`${file.name} has no text; it may be a scan`);
  return { kind: 'text', name: file.name, text: text.slice(0, MAX_TEXT) };
}

function read(file) {
  if (IMAGE.test(file.type)) return readImage(file);
  return file.type === 'application/pdf' || /\.pdf$/i.test(file.name) ? readPdf(file) : readText(file);
}

function thumbnail(f) {
  const img = make('img', 'thumbnail');
  img.src = f.url;
  img.alt = '';
  return img;
}

function draw() {
  $('attached').replaceChildren(...files.map((f) => {
    const remove = iconButton('close', `Remove ${f.name}`, () => {
      files = files.filter((x) => x !== f);
      draw();
      $('input').focus();
    });
    return make('li', '', f.kind === 'image' ? thumbnail(f) : icon('file'), make('span', '', f.name), remove);
  }));
  $('attached').hidden = !files.length;
}

export async function attach(list) {
  for (const file of list) {
    if (files.length >= MAX_FILES) {
      toast(`A message takes at most ${MAX_FILES} files.`);
      break;
    }
    try {
      files.push(await read(file));
    } catch (e) {
      toast(`${e.message}.`);
    }
    draw();
  }
}

export const attached = () => files;

/* The files, which are then no longer pending. */
export function takeAttached() {
  const out = files;
  files = [];
  draw();
  return out;
}

export function start() {
  $('attach').addEventListener('click', () => $('attach-file').click());
  $('attach-file').addEventListener('change', (e) => {
    attach([...e.target.files]);
    e.target.value = '';
  });
  $('input').addEventListener('paste', (e) => {
    const list = [...(e.clipboardData?.files ?? [])];
    if (!list.length) return;
    e.preventDefault();
    attach(list);
  });
  addEventListener('dragover', (e) => {
    if (![...(e.dataTransfer?.types ?? [])].includes('Files')) return;
    e.preventDefault();
    document.body.classList.add('drop');
  });
  addEventListener('dragleave', (e) => { if (!e.relatedTarget) document.body.classList.remove('drop'); });
  addEventListener('drop', (e) => {
    document.body.classList.remove('drop');
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    attach([...e.dataTransfer.files]);
  });
}
