// Conversations through every template of a folder: ours against @huggingface/jinja.
// usage: template.mjs FOLDER_WITH_NODE_MODULES BUILD TEMPLATES
//
// A template of the families this program runs (Qwen 3.5, Gemma 4) must agree in every case. For the
// others, where the reference differs (it adds texts and lists, for one) Python has the last word.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const here = path.dirname(new URL(import.meta.url).pathname);
const [folder, build, templates] = process.argv.slice(2);
const require = createRequire(path.resolve(folder, "package.json"));
const { Template } = require("@huggingface/jinja");

// ---- conversations ----

const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: 'Weather "now" <here> & there, ünï',
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "name of the city" },
          unit: { type: "string", enum: ["c", "f"] },
          days: { type: "integer", description: "how many" },
          opts: {
            type: "object",
            properties: { a: { type: "number" }, B: { type: "array", items: { type: "string" } } },
            required: ["a"],
          },
        },
        required: ["city"],
      },
    },
  },
  { type: "function", function: { name: "noop", description: "nothing", parameters: { type: "object", properties: {} } } },
];
const call = (id, name, args) => ({ id, type: "function", function: { name, arguments: args } });
const user = (content) => ({ role: "user", content });
const assistant = (content, more) => ({ role: "assistant", content, ...more });
const system = (content) => ({ role: "system", content });
const result = (id, name, content) => ({ role: "tool", tool_call_id: id, name, content });

const conversations = [
  [user("Hello")],
  [system("You are  helpful.\n"), user("  Hi there \n")],
  [user("a"), assistant("b"), user("c")],
  [system("s"), user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("d", { reasoning_content: "because" }), user("e")],
  [user("weather?"), assistant("", { tool_calls: [call("call00001", "get_weather", { city: "Zürich", opts: { B: ["x", "y"] } })] }), result("call00001", "get_weather", '{"t": 20}')],
  [
    system("s"),
    user("weather?"),
    assistant("let me look", { reasoning_content: "think", tool_calls: [call("call00001", "get_weather", { city: "A", unit: "c" }), call("call00002", "noop", {})] }),
    result("call00001", "get_weather", "sunny"),
    result("call00002", "noop", "ok"),
    assistant("It is sunny"),
    user("thanks"),
  ],
  [user("weather?"), assistant("", { tool_calls: [call("call00001", "get_weather", { city: "B" })] })],
  [user([{ type: "text", text: "part one" }, { type: "text", text: " part two " }])],
  [user("emoji 😀 \t tab 'quote' \"dq\" \\ back <b>&amp;</b>")],
  [assistant("nobody asked")],
  [user("x"), system("late")],
  [{ role: "weird", content: "x" }],
];

const inputs = [];
for (const messages of conversations)
  for (const t of [undefined, tools])
    for (const add_generation_prompt of [true, false])
      for (const enable_thinking of [undefined, true, false]) {
        const input = { messages, add_generation_prompt, bos_token: "<bos>", eos_token: "<eos>" };
        if (t) input.tools = t;
        if (enable_thinking !== undefined) input.enable_thinking = enable_thinking;
        inputs.push(input);
      }

// ---- both sides ----

function reference(source) {
  let template;
  try {
    template = new Template(source);
  } catch (e) {
    return { broken: String(e.message ?? e) };
  }
  return inputs.map((input) => {
    try {
      return { prompt: template.render(structuredClone(input)) };
    } catch (e) {
      return { error: String(e.message ?? e) };
    }
  });
}

function ours(file) {
  const run = spawnSync(path.join(build, "foretoken"), ["template", "--file", file, "--jsonl"], {
    input: inputs.map((i) => JSON.stringify(i)).join("\n") + "\n",
    maxBuffer: 1 << 30,
    encoding: "utf8",
  });
  if (run.status !== 0) return { broken: run.stderr || `signal ${run.signal}` };
  return run.stdout.trim().split("\n").map((l) => JSON.parse(l));
}

// Python's Jinja2 is what model hubs render with: where the two differ it decides, if it is there.
const python = [process.env.PYTHON, "python3", "/usr/bin/python3"].find(
  (p) => p && spawnSync(p, ["-c", "import jinja2"]).status === 0,
);

function judge(source) {
  if (!python) return null;
  const run = spawnSync(python, [path.join(here, "template_python.py")], {
    input: JSON.stringify({ source, inputs }),
    maxBuffer: 1 << 30,
    encoding: "utf8",
  });
  return run.status === 0 ? JSON.parse(run.stdout) : null;
}

let passed = 0, failed = 0, apart = 0, cases = 0;
for (const name of readdirSync(templates).filter((f) => f.endsWith(".jinja")).sort()) {
  const file = path.join(templates, name);
  const source = readFileSync(file, "utf8");
  const must = /qwen3\.5|gemma-4/i.test(name);
  const b = ours(file);
  let a = reference(source), python_says, bad = 0, by_python = 0, skipped = 0, first = "";
  if (a.broken) a = inputs.map(() => ({ error: a.broken }));
  for (let i = 0; i < inputs.length && !b.broken; i++) {
    cases++;
    if (a[i].prompt === b[i].prompt) continue;
    if (!must) {
      python_says ??= judge(source) ?? "none";
      if (python_says === "none" || (python_says[i].error && a[i].prompt)) {
        skipped++; // nobody to ask, or Python cannot render it at all
        continue;
      }
      if (python_says[i].prompt === b[i].prompt) {
        by_python++;
        continue;
      }
    }
    bad++;
    first ||= `input ${i}\n  reference: ${JSON.stringify(a[i]).slice(0, 600)}\n  ours:      ${JSON.stringify(b[i]).slice(0, 600)}`;
  }
  if (b.broken) {
    bad = 1;
    first = `ours: ${b.broken}`;
  }
  apart += skipped;
  if (bad) failed++;
  else passed++;
  const same = inputs.length - bad - skipped - by_python;
  console.log(`${bad ? "FAIL" : "ok  "} ${name}: ${same} same, ${by_python} as Python, ${skipped} apart, ${bad} different`);
  if (bad) console.log("  " + first);
}
console.log(`${cases} cases, ${apart} set apart${python ? "" : " (no Python with jinja2 to decide)"}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
