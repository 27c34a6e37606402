// Pi's part in a recording's test: loads the extension that its arguments name, and lets a script of the test's be Pi.
//
// The script has `emit(event, fields)`, which runs the extension's handlers as Pi does, `file(entry)`, which appends to
// the session file, `say(word)` and `wait()`, which speak with the test.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const work = process.cwd();
const folder = path.join(process.env.HOME, ".pi", "agent", "sessions", `--${work.replace(/^\//, "").replaceAll("/", "-")}--`);
const handlers = new Map();
const session = { id: "pi-1", path: undefined, entries: [] };
const usage = { tokens: null, contextWindow: 1000 };
const context = {
  model: { id: "poppy-5", provider: "meadow", contextWindow: 1000 },
  getContextUsage: () => usage,
  sessionManager: {
    getSessionId: () => session.id,
    getSessionFile: () => session.path,
    getEntries: () => session.entries,
  },
};
const pi = {
  on: (name, handler) => handlers.set(name, [...(handlers.get(name) ?? []), handler]),
  getActiveTools: () => ["read", "codemode"],
  getThinkingLevel: () => "high",
};

function open(id) {
  Object.assign(session, { id, path: path.join(folder, `2026_${id}.jsonl`), entries: [] });
  fs.mkdirSync(folder, { recursive: true });
  const header = { type: "session", version: 3, id, timestamp: new Date().toISOString(), cwd: work };
  fs.appendFileSync(session.path, `${JSON.stringify(header)}\n`);
}

function file(message) {
  const parentId = session.entries.at(-1)?.id ?? null;
  const entry = { type: "message", id: `e${session.entries.length}`, parentId, timestamp: new Date().toISOString(), message };
  session.entries.push(entry);
  fs.appendFileSync(session.path, `${JSON.stringify(entry)}\n`);
}

async function load() {
  handlers.clear();
  const given = process.argv[process.argv.indexOf("-e") + 1];
  const { default: extension } = await import(`${given}?${session.id}`);
  await extension(pi);
}

async function emit(type, fields = {}) {
  for (const handler of handlers.get(type) ?? []) {
    const answer = await handler({ type, ...fields }, context);
    if (answer !== undefined) throw new Error(`the extension answered ${type}`);
  }
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const wait = () => lines.next();
const say = (word) => console.log(word);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const names = { open, file, load, emit, wait, say, pause, session, usage, context, process };
const script = fs.readFileSync(process.env.FAKE_SCRIPT, "utf8");
const run = Object.getPrototypeOf(async () => {}).constructor;
await run(...Object.keys(names), script)(...Object.values(names));
process.exit(0);
