// Each client does what people do with it: chat, stream, tools, schema, count, images.
// usage: SCRIPTED REAL SEEING MANAGED IMAGE.png
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { generateText, generateObject, streamText, streamObject, tool, stepCountIs, Output } from "ai";
import { z } from "zod";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [scripted, real, seeing, managed, picture] = process.argv.slice(2);
let passed = 0, failed = 0;
async function test(name, fn) {
    try {
        await fn();
        passed++;
    } catch (e) {
        failed++;
        console.log(`failed: ${name}\n  ${e.stack ?? e}`);
    }
}
const say = (text) => [{ role: "user", content: `say:${text}` }];
const quiet = { chat_template_kwargs: { enable_thinking: false } };
const call = (name, args) =>
    `Wait.\n<tool_call>\n<function=${name}>\n` +
    Object.entries(args).map(([k, v]) => `<parameter=${k}>\n${v}\n</parameter>\n`).join("") +
    "</function>\n</tool_call>";
const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0, maximum: 150 } },
    required: ["name", "age"],
    additionalProperties: false,
};
const add = { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } }, required: ["a", "b"] };

// ---- openai ----
for (const [where, base] of [["scripted", scripted], ["real", real]]) {
    const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
    const exact = where === "scripted";
    await test(`openai ${where}: models`, async () => {
        const list = await openai.models.list();
        assert.equal(list.data.length, 1);
    });
    await test(`openai ${where}: chat`, async () => {
        const r = await openai.chat.completions.create({ model: "any", messages: say("Hello there."), max_tokens: 20, ...quiet });
        assert.equal(r.object, "chat.completion");
        assert.equal(typeof r.choices[0].message.content, "string");
        assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
        if (exact) assert.equal(r.choices[0].message.content, "Hello there.");
    });
    await test(`openai ${where}: stream`, async () => {
        const s = await openai.chat.completions.create({
            model: "any", messages: say("One two three."), stream: true, stream_options: { include_usage: true }, max_tokens: 20, ...quiet,
        });
        let text = "", usage, reason;
        for await (const c of s) {
            text += c.choices[0]?.delta?.content ?? "";
            reason = c.choices[0]?.finish_reason ?? reason;
            usage = c.usage ?? usage;
        }
        assert.ok(["stop", "length"].includes(reason));
        assert.ok(usage.completion_tokens > 0);
        if (exact) assert.equal(text, "One two three.");
    });
    await test(`openai ${where}: stream helper, tools`, async () => {
        const s = openai.chat.completions.stream({
            model: "any", messages: say(call("add", { a: 3, b: "x" })), tool_choice: exact ? "auto" : "required", max_tokens: 200, ...quiet,
            tools: [{ type: "function", function: { name: "add", parameters: add } }],
        });
        const m = (await s.finalChatCompletion()).choices[0].message;
        const args = JSON.parse(m.tool_calls[0].function.arguments);
        assert.equal(m.tool_calls[0].function.name, "add");
        assert.equal(typeof args.a, "number");
        assert.equal(typeof args.b, "string");
        if (exact) assert.deepEqual(args, { a: 3, b: "x" });
    });
    await test(`openai ${where}: abort`, async () => {
        const s = await openai.chat.completions.create({ model: "any", messages: say("a b c d e f"), stream: true, ...quiet });
        for await (const _ of s) break;
        s.controller.abort();
    });
    await test(`openai ${where}: error`, async () => {
        await assert.rejects(openai.chat.completions.create({ model: "any", messages: [], }), (e) => e.status === 400 && /messages/.test(e.message));
    });
    await test(`openai ${where}: embeddings`, async () => {
        const r = await openai.embeddings.create({ model: "any", input: ["one", "two"] });
        assert.equal(r.data.length, 2);
        const length = Math.hypot(...r.data[0].embedding);
        assert.ok(Math.abs(length - 1) < 1e-4);
        if (exact) assert.equal(r.data[0].embedding.length, 8);
    });
    await test(`openai ${where}: completions`, async () => {
        const r = await openai.completions.create({ model: "any", prompt: "say:one two", max_tokens: 8, logprobs: 1 });
        assert.equal(r.choices[0].logprobs.tokens.length, r.usage.completion_tokens);
        if (exact) assert.equal(r.choices[0].text, "one two");
    });
    await test(`openai ${where}: responses`, async () => {
        const r = await openai.responses.create({ model: "any", input: "say:Hello there.", max_output_tokens: 20, ...quiet });
        assert.equal(typeof r.output_text, "string");
        if (exact) assert.equal(r.output_text, "Hello there.");
    });
    await test(`openai ${where}: responses stream`, async () => {
        const s = openai.responses.stream({
            model: "any", input: "say:" + call("add", { a: 3, b: "x" }), tool_choice: exact ? "auto" : "required", max_output_tokens: 200, ...quiet,
            tools: [{ type: "function", name: "add", parameters: add, strict: true }],
        });
        const seen = [];
        for await (const e of s) seen.push(e.type);
        const r = await s.finalResponse();
        const f = r.output.find((o) => o.type === "function_call");
        assert.equal(f.name, "add");
        assert.equal(typeof JSON.parse(f.arguments).a, "number");
        assert.equal(seen[0], "response.created");
        assert.equal(seen.at(-1), "response.completed");
    });
    if (!exact) {
        await test("openai real: schema", async () => {
            const r = await openai.chat.completions.create({
                model: "any", messages: [{ role: "user", content: "Who are you?" }], max_tokens: 200, ...quiet,
                response_format: { type: "json_schema", json_schema: { name: "person", schema, strict: true } },
            });
            const j = JSON.parse(r.choices[0].message.content);
            assert.deepEqual(Object.keys(j), ["name", "age"]);
            assert.ok(Number.isInteger(j.age));
        });
        await test("openai real: thought and budget", async () => {
            const r = await openai.chat.completions.create({
                model: "any", messages: [{ role: "user", content: "What is 3 + 4?" }], max_tokens: 200,
                chat_template_kwargs: { enable_thinking: true }, thinking_budget_tokens: 5,
            });
            assert.ok(r.usage.completion_tokens_details.reasoning_tokens <= 12);
            assert.ok(r.choices[0].message.content.length > 0);
        });
        await test("openai real: the same ids with and without drafts", async () => {
            const ask = (n) => openai.chat.completions.create({
                model: "any", messages: [{ role: "user", content: "What does ls do?" }], max_tokens: 40, temperature: 0, return_tokens: true,
                speculative: { n_max: n }, cache_prompt: false, ...quiet,
            });
            const [a, b] = await Promise.all([ask(0), ask(3)]);
            assert.deepEqual(a.choices[0].tokens, b.choices[0].tokens);
            assert.ok(!a.timings.draft_n);
        });
    } else {
        await test("openai scripted: thoughts", async () => {
            const r = await openai.chat.completions.create({
                model: "any", messages: say("hm</think>\n\nYes."), chat_template_kwargs: { enable_thinking: true },
            });
            assert.equal(r.choices[0].message.reasoning_content, "hm");
            assert.equal(r.choices[0].message.content, "Yes.");
        });
    }
}

// ---- anthropic ----
for (const [where, base] of [["scripted", scripted], ["real", real]]) {
    const anthropic = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
    const exact = where === "scripted";
    const off = { thinking: { type: "disabled" } };
    await test(`anthropic ${where}: message`, async () => {
        const m = await anthropic.messages.create({ model: "any", max_tokens: 30, messages: say("Hello there."), ...off });
        assert.equal(m.type, "message");
        assert.ok(["end_turn", "max_tokens"].includes(m.stop_reason));
        if (exact) assert.equal(m.content[0].text, "Hello there.");
    });
    await test(`anthropic ${where}: stream with a tool`, async () => {
        const s = anthropic.messages.stream({
            model: "any", max_tokens: 200, messages: say(call("add", { a: 3, b: "x" })), ...off,
            tool_choice: exact ? { type: "auto" } : { type: "tool", name: "add" }, tools: [{ name: "add", input_schema: add }],
        });
        const m = await s.finalMessage();
        const use = m.content.find((b) => b.type === "tool_use");
        assert.equal(use.name, "add");
        assert.equal(typeof use.input.a, "number");
        assert.equal(m.stop_reason, "tool_use");
        if (exact) assert.equal(m.content[0].text, "Wait.");
    });
    await test(`anthropic ${where}: count`, async () => {
        const n = await anthropic.messages.countTokens({ model: "any", messages: say("Hello there.") });
        assert.ok(n.input_tokens > 5);
    });
    await test(`anthropic ${where}: error`, async () => {
        await assert.rejects(anthropic.messages.create({ model: "any", max_tokens: 5, messages: [] }), Anthropic.BadRequestError);
    });
    if (exact)
        await test("anthropic scripted: thinking", async () => {
            const m = await anthropic.messages.create({
                model: "any", max_tokens: 100, messages: say("hm</think>\n\nYes."), thinking: { type: "enabled", budget_tokens: 1024 },
            });
            assert.equal(m.content[0].thinking, "hm");
            assert.equal(m.content[1].text, "Yes.");
        });
}

// ---- ollama ----
for (const [where, base] of [["scripted", scripted], ["real", real]]) {
    const ollama = new Ollama({ host: base });
    const exact = where === "scripted";
    await test(`ollama ${where}: chat`, async () => {
        const r = await ollama.chat({ model: "any", messages: say("Hello there."), think: false, options: { num_predict: 20 } });
        assert.equal(r.message.role, "assistant");
        if (exact) assert.equal(r.message.content, "Hello there.");
    });
    await test(`ollama ${where}: stream`, async () => {
        let text = "", last;
        for await (const p of await ollama.chat({ model: "any", messages: say("One two."), stream: true, think: false, options: { num_predict: 20 } })) {
            text += p.message.content;
            last = p;
        }
        assert.ok(last.done && last.eval_count > 0);
        if (exact) assert.equal(text, "One two.");
    });
    await test(`ollama ${where}: generate, list, show`, async () => {
        const r = await ollama.generate({ model: "any", prompt: "say:ok", think: false, options: { num_predict: 5 } });
        assert.ok(r.done);
        assert.equal((await ollama.list()).models.length, 1);
        assert.ok((await ollama.show({ model: "any" })).details);
        assert.equal((await ollama.ps()).models.length, 1);
    });
    if (!exact)
        await test("ollama real: format", async () => {
            const r = await ollama.chat({ model: "any", messages: [{ role: "user", content: "Who?" }], format: schema, think: false });
            assert.ok(Number.isInteger(JSON.parse(r.message.content).age));
        });
}

// ---- the Vercel AI SDK ----
for (const [where, base] of [["scripted", scripted], ["real", real]]) {
    const provider = createOpenAICompatible({ name: "foretoken", baseURL: `${base}/v1`, includeUsage: true, supportsStructuredOutputs: true });
    const model = provider("any");
    const exact = where === "scripted";
    await test(`ai ${where}: text`, async () => {
        const r = await generateText({ model, prompt: "say:Hello there.", maxOutputTokens: 20, maxRetries: 0 });
        assert.equal(typeof r.text, "string");
        if (exact) assert.equal(r.text, "Hello there.");
    });
    await test(`ai ${where}: stream`, async () => {
        const r = streamText({ model, prompt: "say:One two three.", maxOutputTokens: 20, maxRetries: 0 });
        let text = "";
        for await (const t of r.textStream) text += t;
        assert.ok((await r.usage).outputTokens > 0);
        if (exact) assert.equal(text, "One two three.");
    });
    await test(`ai ${where}: tool loop`, async () => {
        let got;
        const r = await generateText({
            model, prompt: exact ? "say:" + call("add", { a: 3, b: "x" }) : "Add them.", maxOutputTokens: 200, maxRetries: 0,
            toolChoice: exact ? "auto" : "required", stopWhen: stepCountIs(1),
            tools: { add: tool({ description: "adds", inputSchema: z.object({ a: z.number().int(), b: z.string() }), execute: async (x) => { got = x; return "done"; } }) },
        });
        assert.equal(r.toolCalls[0].toolName, "add");
        assert.equal(typeof got.a, "number");
    });
    if (!exact)
        await test("ai real: object", async () => {
            const r = await generateObject({ model, prompt: "Who?", maxRetries: 0, schema: z.object({ name: z.string().max(12), age: z.number().int().min(0).max(150) }) });
            assert.ok(Number.isInteger(r.object.age));
        });
}

// ---- zod schemas, as the clients turn them into JSON schemas ----
{
    const openai = new OpenAI({ baseURL: `${real}/v1`, apiKey: "none", maxRetries: 0 });
    const model = createOpenAICompatible({ name: "foretoken", baseURL: `${real}/v1`, supportsStructuredOutputs: true })("any");
    const person = z.object({
        name: z.string().max(8),
        age: z.number().int(), // bounds of +-9007199254740991
        step: z.number().int().min(0).max(100).multipleOf(5),
        kind: z.enum(["cat", "dog"]),
        pair: z.tuple([z.boolean(), z.literal("x")]),
        tags: z.array(z.string().max(4)).max(2),
        note: z.string().max(5).nullable(),
        when: z.iso.date(),
    });
    const scores = person.extend({ score: z.record(z.string().max(3), z.number().int().min(0).max(9)) });
    const strict = person.omit({ pair: true }); // the client refuses tuples
    const secret = z.object({ password: z.string().regex(/^(?=.*[0-9])[a-z0-9]{1,6}$/) });
    const fits = (shape, value) => assert.ok(shape.safeParse(value).success, JSON.stringify(value));
    const messages = [{ role: "user", content: "Who?" }];
    await test("zod: generateObject", async () => {
        fits(person, (await generateObject({ model, prompt: "Who?", maxRetries: 0, schema: person })).object);
    });
    await test("zod: generateObject of a record", async () => {
        const r = await generateObject({ model, prompt: "Who?", maxRetries: 0, maxOutputTokens: 2000, schema: scores });
        fits(scores, r.object);
    });
    await test("zod: streamObject", async () => {
        const s = streamObject({ model, prompt: "Who?", maxRetries: 0, schema: person });
        let parts = 0;
        for await (const _ of s.partialObjectStream) parts++;
        assert.ok(parts > 1);
        fits(person, await s.object);
    });
    await test("zod: Output.object", async () => {
        const r = await generateText({ model, prompt: "Who?", maxRetries: 0, output: Output.object({ schema: person }) });
        fits(person, r.output);
    });
    await test("zod: zodResponseFormat", async () => {
        const r = await openai.chat.completions.parse({ model: "any", messages, response_format: zodResponseFormat(strict, "person") });
        fits(strict, r.choices[0].message.parsed);
    });
    await test("zod: zodTextFormat", async () => {
        const r = await openai.responses.parse({ model: "any", input: "Who?", text: { format: zodTextFormat(strict, "person") } });
        fits(strict, r.output_parsed);
    });
    await test("zod: what no grammar can enforce is named", async () => {
        const { data, response } = await openai.chat.completions
            .create({ model: "any", messages, max_tokens: 400, response_format: zodResponseFormat(secret, "secret") }).withResponse();
        assert.match(response.headers.get("x-schema-ignored"), /pattern/);
        assert.match(data.warnings[0], /pattern/);
        assert.equal(typeof JSON.parse(data.choices[0].message.content).password, "string");
    });
}

// ---- fields and routes that change a response: each is honoured or refused ----
{
    const at = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
    const openai = at(scripted), own = at(real);
    const anthropic = new Anthropic({ baseURL: scripted, apiKey: "none", maxRetries: 0 });
    const claude = new Anthropic({ baseURL: real, apiKey: "none", maxRetries: 0 });
    const ollama = new Ollama({ host: scripted });
    const off = { thinking: { type: "disabled" } };
    const who = [{ role: "user", content: "Who are you?" }];
    await test("openai: models.retrieve", async () => {
        const { data } = await openai.models.list();
        assert.equal((await openai.models.retrieve(data[0].id)).id, data[0].id);
        await assert.rejects(openai.models.retrieve("none"), (e) => e.status === 404 && e.code === "model_not_found");
    });
    await test("anthropic: models.retrieve", async () => {
        const { data } = await anthropic.models.list();
        const m = await anthropic.models.retrieve(data[0].id);
        assert.equal(m.id, data[0].id);
        assert.equal(m.type, "model");
        await assert.rejects(anthropic.models.retrieve("none"), Anthropic.NotFoundError);
    });
    await test("openai: tool_choice none", async () => {
        const r = await openai.chat.completions.create({
            model: "any", messages: say(call("add", { a: 3, b: "x" })), tool_choice: "none", ...quiet,
            tools: [{ type: "function", function: { name: "add", parameters: add } }],
        });
        assert.equal(r.choices[0].message.tool_calls, undefined);
        assert.ok(!r.choices[0].message.content.includes("<tool_call>"));
    });
    await test("anthropic: tool_choice none", async () => {
        const m = await anthropic.messages.create({
            model: "any", max_tokens: 99, messages: say(call("add", { a: 3, b: "x" })), ...off,
            tool_choice: { type: "none" }, tools: [{ name: "add", input_schema: add }],
        });
        assert.ok(m.content.every((b) => b.type === "text" && !b.text.includes("<tool_call>")));
    });
    await test("ai: toolChoice none", async () => {
        const model = createOpenAICompatible({ name: "foretoken", baseURL: `${scripted}/v1` })("any");
        const r = await generateText({
            model, prompt: "say:" + call("add", { a: 3, b: "x" }), maxRetries: 0, toolChoice: "none",
            tools: { add: tool({ description: "adds", inputSchema: z.object({ a: z.number().int(), b: z.string() }) }) },
        });
        assert.equal(r.toolCalls.length, 0);
        assert.ok(!r.text.includes("<tool_call>"));
    });
    await test("openai: functions", async () => {
        const r = await openai.chat.completions.create({
            model: "any", messages: say(call("add", { a: 3, b: "x" })), functions: [{ name: "add", parameters: add }], ...quiet,
        });
        assert.equal(r.choices[0].finish_reason, "function_call");
        assert.deepEqual(JSON.parse(r.choices[0].message.function_call.arguments), { a: 3, b: "x" });
    });
    await test("openai: guided_json and structured_outputs", async () => {
        for (const more of [{ guided_json: schema }, { structured_outputs: { json: schema } }]) {
            const r = await own.chat.completions.create({ model: "any", messages: who, max_tokens: 200, ...quiet, ...more });
            assert.deepEqual(Object.keys(JSON.parse(r.choices[0].message.content)), ["name", "age"]);
        }
        const r = await own.chat.completions.create({ model: "any", messages: who, ...quiet, guided_choice: ["yes", "no"] });
        assert.match(r.choices[0].message.content, /^(yes|no)$/);
    });
    await test("anthropic: output_config.format", async () => {
        const m = await claude.messages.create({
            model: "any", max_tokens: 200, messages: who, ...off, output_config: { format: { type: "json_schema", schema } },
        });
        assert.deepEqual(Object.keys(JSON.parse(m.content[0].text)), ["name", "age"]);
    });
    await test("openai: responses refuse what the server does not run", async () => {
        const refused = (body, what) => assert.rejects(openai.responses.create({ model: "any", input: "x", ...body }),
            (e) => e.status === 400 && what.test(e.message));
        await refused({ background: true }, /background/);
        await refused({ tools: [{ type: "web_search" }] }, /web_search/);
    });
    await test("openai: log probabilities of a prompt", async () => {
        const score = async (prompt) => {
            const r = await own.completions.create({ model: "any", prompt, max_tokens: 0, logprobs: 1, echo: true });
            assert.equal(r.choices[0].text, prompt);
            const l = r.choices[0].logprobs;
            assert.equal(l.tokens.length, r.usage.prompt_tokens);
            assert.equal(l.token_logprobs[0], null);
            return l.token_logprobs.slice(1).reduce((a, b) => a + b, 0);
        };
        assert.ok((await score("ls lists the files in a folder")) > (await score("ls lists the folder files a in")));
    });
    await test("ollama: embeddings, logprobs, suffix", async () => {
        assert.equal((await ollama.embeddings({ model: "any", prompt: "one two" })).embedding.length, 8);
        const r = await ollama.generate({ model: "any", prompt: "say:one two", think: false, logprobs: true, top_logprobs: 2 });
        assert.equal(r.logprobs.length, r.eval_count);
        assert.equal(r.logprobs[0].top_logprobs.length, 2);
        const f = await ollama.generate({ model: "any", prompt: "say:one", suffix: " two", options: { num_predict: 1 } });
        assert.match(f.response, /^one/);
    });
    await test("ollama: errors have words", async () => {
        const words = (e) => /\w/.test(e.message) && !/\[object/.test(e.message);
        await assert.rejects(ollama.pull({ model: "none" }), (e) => words(e) && /none/.test(e.message));
        await assert.rejects(ollama.copy({ source: "a", destination: "b" }), (e) => words(e) && /--manage-models/.test(e.message));
        await assert.rejects(ollama.generate({ model: "any", prompt: "x", images: ["aGk="] }), (e) => words(e) && /vision tower/.test(e.message));
    });
}

// ---- Ollama: changes of the store ----
{
    const ollama = new Ollama({ host: managed });
    const names = async () => (await ollama.list()).models.map((m) => m.name).sort();
    const generate = async (model, more) => (await ollama.generate({ model, prompt: "one two", options: { num_predict: 4 }, ...more })).eval_count;
    const before = await names();
    await test("ollama: pull with its progress", async () => {
        const seen = [];
        for await (const p of await ollama.pull({ model: "hf.co/me/mine:Q8_0", stream: true })) seen.push(p);
        assert.equal(seen[0].status, "pulling manifest");
        assert.equal(seen.at(-1).status, "success");
        const last = seen.filter((p) => p.total).at(-1);
        assert.equal(last.completed, last.total);
        assert.match(last.digest, /^sha256:/);
        assert.ok((await names()).includes("mine-Q8_0"));
        assert.equal(await generate("hf.co/me/mine:Q8_0"), 4);
        await assert.rejects(ollama.pull({ model: "me/none" }), /not found/);
    });
    await test("ollama: copy and create", async () => {
        assert.equal((await ollama.copy({ source: "mine-Q8_0", destination: "second" })).status, "success");
        assert.equal((await ollama.create({ model: "brief", from: "second", parameters: { num_predict: 1 } })).status, "success");
        assert.equal(await generate("second"), 4);
        assert.equal(await generate("brief", { options: {} }), 1);
    });
    await test("ollama: keep_alive 0 unloads", async () => {
        assert.equal(await generate("second", { keep_alive: 0 }), 4);
        for (let i = 0; i < 100 && (await ollama.ps()).models.some((m) => m.name === "second"); i++)
            await new Promise((done) => setTimeout(done, 50));
        assert.ok(!(await ollama.ps()).models.some((m) => m.name === "second"));
    });
    await test("ollama: delete", async () => {
        await assert.rejects(ollama.delete({ model: "mine-Q8_0" }), /is used by/);
        for (const model of ["brief", "second", "mine-Q8_0"]) assert.equal((await ollama.delete({ model })).status, "success");
        await assert.rejects(ollama.delete({ model: "second" }), /not found/);
        assert.deepEqual((await names()).filter((n) => n !== "foretoken-tiny"), before.filter((n) => n !== "foretoken-tiny"));
    });
}

// ---- Responses: a length stop ----
{
    const openai = new OpenAI({ baseURL: `${real}/v1`, apiKey: "none", maxRetries: 0 });
    const body = { model: "any", input: "Count to a hundred.", max_output_tokens: 4 };
    const cut = (r) => {
        assert.equal(r.status, "incomplete");
        assert.equal(r.incomplete_details.reason, "max_output_tokens");
        assert.ok(r.usage.output_tokens <= 4);
    };
    await test("openai real: responses cut by length", async () => cut(await openai.responses.create(body)));
    await test("openai real: responses cut by length, streamed", async () => {
        let last;
        for await (const e of await openai.responses.create({ ...body, stream: true })) last = e;
        assert.equal(last.type, "response.incomplete");
        cut(last.response);
    });
    await test("openai real: responses cut by length, finalResponse", async () => {
        const r = await openai.responses.stream(body).finalResponse();
        assert.ok(r.id.startsWith("resp_"));
        assert.ok(r.output.length > 0);
    });
}

// ---- images: every client counts the same tokens ----
{
    const image = readFileSync(picture), base64 = image.toString("base64"), url = `data:image/png;base64,${base64}`;
    const text = "What is it?", max = 4;
    const openai = new OpenAI({ baseURL: `${seeing}/v1`, apiKey: "none", maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL: seeing, apiKey: "none", maxRetries: 0 });
    const ollama = new Ollama({ host: seeing });
    const ask = (content) => openai.chat.completions.create({ model: "any", max_tokens: max, messages: [{ role: "user", content }] });
    const plain = (await ask(text)).usage.prompt_tokens;
    const part = { type: "image_url", image_url: { url } };
    let with_image;
    await test("openai: the model sees", async () => {
        assert.ok((await openai.models.list()).data[0].capabilities.includes("multimodal"));
        assert.ok((await ollama.show({ model: "any" })).capabilities.includes("vision"));
    });
    await test("openai: image", async () => {
        const r = await ask([part, { type: "text", text }]);
        with_image = r.usage.prompt_tokens;
        assert.ok(with_image > plain + 2);
        assert.equal(r.usage.completion_tokens, max);
    });
    await test("openai: two images, streamed", async () => {
        const s = await openai.chat.completions.create({
            model: "any", max_tokens: max, stream: true, stream_options: { include_usage: true },
            messages: [{ role: "user", content: [part, { type: "text", text }, part] }],
        });
        let usage;
        for await (const c of s) usage = c.usage ?? usage;
        assert.equal(usage.prompt_tokens, plain + 2 * (with_image - plain));
    });
    await test("openai: responses with an image", async () => {
        const r = await openai.responses.create({
            model: "any", max_output_tokens: max,
            input: [{ role: "user", content: [{ type: "input_image", image_url: url, detail: "auto" }, { type: "input_text", text }] }],
        });
        assert.equal(r.usage.input_tokens, with_image);
    });
    await test("openai: an address is refused", async () => {
        const far = { type: "image_url", image_url: { url: "https://example.org/a.png" } };
        await assert.rejects(ask([far, { type: "text", text }]), (e) => e.status === 400 && /--allow-image-urls/.test(e.message));
    });
    await test("anthropic: image", async () => {
        const content = [{ type: "image", source: { type: "base64", media_type: "image/png", data: base64 } }, { type: "text", text }];
        const messages = [{ role: "user", content }];
        assert.equal((await anthropic.messages.create({ model: "any", max_tokens: max, messages, thinking: { type: "enabled", budget_tokens: 1024 } })).usage.input_tokens, with_image);
        assert.equal((await anthropic.messages.countTokens({ model: "any", messages, thinking: { type: "enabled", budget_tokens: 1024 } })).input_tokens, with_image);
    });
    await test("ollama: image", async () => {
        const options = { num_predict: max };
        assert.equal((await ollama.chat({ model: "any", messages: [{ role: "user", content: text, images: [image] }], options })).prompt_eval_count, with_image);
        assert.equal((await ollama.generate({ model: "any", prompt: text, images: [base64], options })).prompt_eval_count, with_image);
    });
    await test("ai: image", async () => {
        const model = createOpenAICompatible({ name: "foretoken", baseURL: `${seeing}/v1`, includeUsage: true })("any");
        const r = await generateText({ model, maxOutputTokens: max, maxRetries: 0, messages: [{ role: "user", content: [{ type: "image", image }, { type: "text", text }] }] });
        assert.equal(r.usage.inputTokens, with_image);
    });
}

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
