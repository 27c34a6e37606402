// What Pi runs of omn while it is recorded: tells a recorder, over the socket in its folder, of this session's events.
//
// Each event is a line of JSON, stamped before it is looked at. What is told is listed here by name: never what a model
// or a tool said, and without content neither a prompt nor what a tool was given. It changes nothing of what Pi does: it
// answers no event, waits for the recorder only when a session ends, and is silent where nobody records. A Pi that this
// one starts loads it too, and tells which session it came from.
import { ChildProcess } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = process.env.OMN_AGENT_FOLDER;
const HAS_CONTENT = process.env.OMN_AGENT_CONTENT === "on";
const MOST_WAITING = 8 << 20;
const MOST_MODEL_CALLS = 4096;
const PATIENCE_MS = 1000;
const COMMAND = /^[a-z][a-z-]*$/;
const HERE = fileURLToPath(import.meta.url);
const STATE = Symbol.for("omn-agent");
const MODEL_CALL = /^models\.(classify|generateImages)$/;
const MODEL_NAME = /^[\w.:@-]{1,100}\/[\w.:@/-]{1,200}$/;

/** What one process has, however often its extensions are loaded anew: the session that it was started by. */
function getState() {
  if (globalThis[STATE] === undefined) {
    globalThis[STATE] = { parent: process.env.OMN_AGENT_SESSION || undefined };
    followChildren();
  }
  return globalThis[STATE];
}

/** Lets a Pi that this one starts by its own program load this file; every other program is started as it is. */
function followChildren() {
  const { spawn } = ChildProcess.prototype;
  ChildProcess.prototype.spawn = function (options) {
    const [program, script, ...rest] = options?.args ?? [];
    const isPi = options?.file === process.execPath && script === process.argv[1];
    if (!isPi || COMMAND.test(rest[0] ?? "")) return spawn.call(this, options);
    return spawn.call(this, { ...options, args: [program, script, "-e", HERE, ...rest] });
  };
}

/** Connects to the recorder; gives nothing where there is none. The path may be longer than an address can be. */
function connect() {
  return new Promise((resolve) => {
    let folder;
    try {
      folder = fs.openSync(FOLDER, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    } catch {
      return resolve(undefined);
    }
    const socket = net.connect(`/proc/self/fd/${folder}/events`);
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
    socket.on("connect", () => resolve(socket.unref()));
    fs.closeSync(folder);
  });
}

/** Counts an event that nobody took, in the recorder's spool: a byte for each. */
function drop() {
  try {
    fs.appendFileSync(path.join(FOLDER, "spool", "drops"), ".");
  } catch {
    // the recording is over
  }
}

function describeUsage(usage) {
  if (!usage) return undefined;
  const { input, output, cacheRead, cacheWrite, totalTokens } = usage;
  return { input, output, cacheRead, cacheWrite, totalTokens };
}

function describeModel(model) {
  return model ? { model: model.id, provider: model.provider, context_window: model.contextWindow } : {};
}

function countBytes(value) {
  return Buffer.byteLength(JSON.stringify(value) ?? "");
}

export default async function (pi) {
  if (!FOLDER) return;
  const { parent } = getState();
  const socket = await connect();
  let isOver = socket === undefined;
  let dropped = 0;
  let contextMessages;
  let inputSource;
  let message;
  let latest;
  const updates = new Map();
  const modelCalls = new Map();

  function send(name, stamp, ctx, fields) {
    if (isOver || socket.destroyed) return drop();
    if (socket.writableLength > MOST_WAITING) {
      dropped += 1;
      return undefined;
    }
    const told = { ...fields, dropped: dropped || undefined };
    const session = JSON.stringify(ctx.sessionManager.getSessionId());
    const head = `{"harness":"pi","event":"${name}","stamp_ns":${stamp},"pid":${process.pid},"session_id":${session}`;
    socket.write(`${head},"input":${JSON.stringify(told)}}\n`, (error) => error && drop());
    return undefined;
  }

  /** Tells of an event by what `describe` makes of it; nothing where that is undefined. */
  function tell(name, describe) {
    pi.on(name, (event, ctx) => {
      const stamp = process.hrtime.bigint();
      try {
        const fields = describe(event, ctx, stamp);
        if (fields !== undefined) send(name, stamp, ctx, fields);
      } catch {
        dropped += 1;
      }
    });
  }

  function describeConfiguration(model) {
    const labels = pi.getActiveTools().includes("codemode") ? ["codemode"] : [];
    return { ...describeModel(model), effort: pi.getThinkingLevel(), labels };
  }

  const sampling = setInterval(() => {
    if (latest) send("sample", process.hrtime.bigint(), latest, { heap_bytes: process.memoryUsage().heapUsed });
  }, 1000).unref();

  tell("session_start", (event, ctx) => {
    latest = ctx;
    const manager = ctx.sessionManager;
    const isOld = event.reason === "startup" && manager.getEntries().some((entry) => entry.type === "message");
    const source = isOld ? "resume" : event.reason;
    process.env.OMN_AGENT_SESSION = manager.getSessionId();
    const told = { source, transcript_path: manager.getSessionFile(), parent_session: parent };
    return { ...told, ...describeConfiguration(ctx.model) };
  });
  tell("model_select", (event) => describeConfiguration(event.model));
  tell("thinking_level_select", (event, ctx) => ({ ...describeConfiguration(ctx.model), effort: event.level }));

  tell("input", (event) => {
    inputSource = event.source;
  });
  tell("before_agent_start", (event) => {
    if (typeof event.prompt !== "string") return undefined;
    const text = HAS_CONTENT ? { prompt: event.prompt } : { prompt_length: event.prompt.length };
    return { ...text, prompt_source: inputSource };
  });
  tell("agent_start", () => ({}));
  tell("agent_end", (event) => ({
    stop_reason: event.messages?.findLast((row) => row.role === "assistant")?.stopReason,
  }));
  tell("agent_settled", (event) => ({ stop_reason: event.aborted ? "aborted" : undefined }));
  tell("turn_start", (event) => ({ index: event.turnIndex }));
  tell("turn_end", (event) => ({ index: event.turnIndex }));

  tell("context", (event) => {
    contextMessages = event.messages.length;
  });
  tell("before_provider_request", (event, ctx) => ({
    ...describeModel(ctx.model),
    context_messages: contextMessages,
    context_tokens: ctx.getContextUsage()?.tokens ?? undefined,
  }));
  tell("after_provider_response", (event) => ({ status_code: event.status }));

  tell("message_start", ({ message: row }, ctx, stamp) => {
    if (row.role !== "assistant") return undefined;
    message = { stamp, updates: 0, bytes: 0 };
    return { timestamp: row.timestamp, model: row.model, provider: row.provider };
  });
  tell("message_update", ({ assistantMessageEvent: update }, ctx, stamp) => {
    const delta = update?.delta;
    if (message && typeof delta === "string" && delta !== "") {
      message.first ??= stamp;
      message.updates += 1;
      message.bytes += Buffer.byteLength(delta);
    }
  });
  tell("message_end", ({ message: row }, ctx, stamp) => {
    if (row.role !== "assistant") return undefined;
    const begun = message;
    message = undefined;
    return {
      timestamp: row.timestamp,
      model: row.model,
      provider: row.provider,
      stop_reason: row.stopReason,
      usage: describeUsage(row.usage),
      first_content_ns: begun?.first === undefined ? undefined : Number(begun.first - begun.stamp),
      updates: begun?.updates,
      bytes: begun?.bytes,
    };
  });

  tell("tool_execution_start", (event) => ({
    call_id: event.toolCallId,
    tool_name: event.toolName,
    parent_call_id: event.parentToolCallId,
    tool_input: HAS_CONTENT ? event.args : undefined,
  }));
  tell("tool_call", (event) => ({ call_id: event.toolCallId }));
  tell("tool_execution_update", (event, ctx, stamp) => {
    updates.set(event.toolCallId, (updates.get(event.toolCallId) ?? 0) + 1);
    for (const call of event.partialResult?.details?.calls ?? []) {
      if (MODEL_CALL.test(call.name)) tellModelCall(event.toolCallId, call, ctx, stamp);
    }
  });
  tell("tool_result", (event) => ({
    call_id: event.toolCallId,
    is_error: event.isError,
    usage: describeUsage(event.usage),
  }));
  tell("tool_execution_end", (event) => {
    const seen = updates.get(event.toolCallId) ?? 0;
    updates.delete(event.toolCallId);
    modelCalls.delete(event.toolCallId);
    return {
      call_id: event.toolCallId,
      tool_name: event.toolName,
      parent_call_id: event.parentToolCallId,
      is_error: event.isError,
      updates: seen,
      bytes: HAS_CONTENT ? countBytes(event.result) : 0,
      duration_ms: event.durationMs,
    };
  });

  /** Tells of a model that a script called, once when it is seen running and once when it is seen done. */
  function tellModelCall(script, call, ctx, stamp) {
    const known = modelCalls.get(script) ?? new Map();
    modelCalls.set(script, known);
    const before = known.get(call.id);
    if (before === call.status || (before === undefined && known.size >= MOST_MODEL_CALLS)) return;
    known.set(call.id, call.status);
    const named = MODEL_NAME.test(call.args) ? call.args : undefined;
    const fields = { call_id: script, id: call.id, name: call.name, status: call.status, model: named };
    send("model_call", stamp, ctx, fields);
  }

  tell("session_before_compact", (event) => ({
    trigger: event.reason,
    will_retry: event.willRetry,
    tokens_before: event.preparation?.tokensBefore,
  }));
  tell("session_compact", (event) => ({
    trigger: event.reason,
    will_retry: event.willRetry,
    tokens_before: event.compactionEntry?.tokensBefore,
    usage: describeUsage(event.compactionEntry?.usage),
  }));
  tell("session_compact_failed", (event) => ({
    trigger: event.reason,
    will_retry: event.willRetry,
    is_aborted: event.aborted,
  }));

  pi.on("session_shutdown", async (event, ctx) => {
    clearInterval(sampling);
    try {
      send("session_shutdown", process.hrtime.bigint(), ctx, { reason: event.reason, dropped: dropped || undefined });
      isOver = true;
      if (socket === undefined || socket.destroyed) return;
      await new Promise((resolve) => {
        const patience = setTimeout(resolve, PATIENCE_MS);
        socket.ref().end(() => resolve(clearTimeout(patience)));
      });
    } catch {
      // the recorder is gone, which is nothing to Pi
    }
  });
}
