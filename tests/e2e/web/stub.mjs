// A server between the page and the real one. It passes requests on, except those that a test
// answers itself; it can be taken down and brought up again at the same address.
import http from 'node:http';

export async function startStub(target) {
  const stub = { answers: new Map(), chats: [], requests: [], chat: null, target };
  const sockets = new Set();
  let server = null, port = 0;

  function pass(req, res, body) {
    /* the server answers its own page only */
    const headers = { ...req.headers, host: new URL(stub.target).host };
    if (headers.origin) headers.origin = stub.target;
    const out = http.request(stub.target + req.url, { method: req.method, headers }, (r) => {
      res.writeHead(r.statusCode, r.headers);
      r.pipe(res);
    });
    out.on('error', () => res.destroy());
    res.on('close', () => out.destroy());
    out.end(body);
  }

  async function handle(req, res) {
    const parts = [];
    for await (const p of req) parts.push(p);
    const body = Buffer.concat(parts), path = req.url.split('?')[0];
    stub.requests.push(`${req.method} ${path}`);
    const answer = stub.answers.get(path);
    if (path === '/v1/chat/completions') {
      stub.chats.push(JSON.parse(body));
      if (stub.chat) return stub.chat(new Stream(res), stub.chats.at(-1), req);
    } else if (answer) {
      const value = typeof answer === 'function' ? answer(req, body) : answer;
      res.writeHead(value.status ?? 200, { 'Content-Type': value.type ?? 'application/json' });
      return res.end(value.text ?? JSON.stringify(value.json ?? value));
    }
    return pass(req, res, body);
  }

  stub.up = () => new Promise((resolve) => {
    server = http.createServer((req, res) => handle(req, res).catch(() => res.destroy()));
    server.on('connection', (s) => { sockets.add(s); s.on('close', () => sockets.delete(s)); });
    server.listen(port, '127.0.0.1', () => { port = server.address().port; resolve(); });
  });
  stub.down = () => new Promise((resolve) => {
    for (const s of sockets) s.destroy();
    server.close(resolve);
  });
  await stub.up();
  stub.address = `http://127.0.0.1:${port}`;
  return stub;
}

export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

// A streamed response, written by a test.
export class Stream {
  constructor(res) {
    this.res = res;
    this.closed = false;
    this.n = 0;
    res.on('close', () => { this.closed = true; });
  }

  send(delta, more = {}) {
    if (!this.res.headersSent) this.res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    this.n++;
    const timings = { predicted_n: this.n, predicted_ms: this.n * 20, predicted_per_second: 50, prompt_n: 10, prompt_ms: 5, prompt_per_second: 2000, cache_n: 0 };
    this.res.write('data: ' + JSON.stringify({ choices: [{ index: 0, delta, finish_reason: more.finish ?? null }], timings, ...more }) + '\n\n');
  }

  text(content, more) {
    this.send({ content }, more);
  }

  end(more = {}) {
    this.send({}, { finish: 'stop', ...more });
    this.res.end('data: [DONE]\n\n');
  }

  fail(status, error) {
    this.res.writeHead(status, { 'Content-Type': 'application/json' });
    this.res.end(JSON.stringify({ error }));
  }

  // The text in pieces of n characters, one every ms.
  async slowly(text, n = 8, ms = 10) {
    for (let i = 0; i < text.length && !this.closed; i += n) {
      this.text(text.slice(i, i + n));
      await sleep(ms);
    }
  }
}
