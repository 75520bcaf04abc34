import { Type } from "typebox";
import type { Decider } from "../../actors/models/decider.ts";
import type { Embedder } from "../../actors/models/embedder.ts";
import type { ModelProvider } from "../../actors/models/provider.ts";
import { modelStep } from "../../actors/run/model/model-step.ts";
import { workingSet } from "../../actors/run/prompt/working-set.ts";
import { answered, failedCall, limited, stopped } from "../../actors/run/steps/endings.ts";
import type { Pattern } from "../../actors/run/steps/pattern.ts";
import { defineActor } from "../../actors/runtime/define.ts";
import { defineTool } from "../../actors/tools/tool.ts";
import { type PluginErrorCode, SvcError } from "../../bus/errors.ts";
import { lengthOf } from "../../bus/protocol/embedder.ts";
import { auditOp } from "../../governance/audit.ts";
import type { PluginAuditType } from "../../governance/audit-types.ts";
import { pass } from "../../governance/controls/verdicts.ts";
import { int, text as textSetting } from "../../governance/settings/setting.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import { json } from "../../http/exchange/reply.ts";
import { actorFails, route } from "../../http/route.ts";
import { streamTurn } from "../../http/streams/turns.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { type PluginCommand, UsageError } from "../../plugins/command.ts";
import { deliveryOps, wakeLane } from "../../plugins/outbox.ts";
import {
  definePlugin,
  type PluginActorDeps,
  type PluginContextSource,
  type PluginControl,
  type PluginEntryPoint,
  type PluginOutbox,
  type PluginToolContext,
  type PluginToolSource,
} from "../../plugins/plugin.ts";
import { callerTurn, followRun, newRunId, startRun, storedRun } from "../../plugins/runs.ts";
import { list } from "../../storage/store/list.ts";
import { systemSql } from "../../storage/store/statements.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { insertInto, integer, type RowIn, table, text } from "../../storage/store/table.ts";

// A plugin that uses every extension point: notes of a tenant, in a table of its own.

const notesMax = int("NOTES_MAX", 3, [1, 100], "Notes that a tenant may keep.");
const notesKey = textSetting("NOTES_KEY", "", "What a note must not hold.", { secret: true });

const notesTable = table("notes_items", { id: text, ts: integer, author: text, body: text });
const insertNote = insertInto(notesTable);
const notes = list(notesTable, []);
const deleteRubbish = systemSql("notes_delete_rubbish", "DELETE FROM notes_items WHERE body = ? RETURNING id");
type Note = RowIn<typeof notesTable>;

const noteKept: PluginAuditType = { name: "notes_kept", help: "A note was kept." };
const noteCensored: PluginAuditType = { name: "notes_censored", help: "A note was refused as rude." };
const notesFull: PluginErrorCode = {
  code: "notes_full",
  status: 409,
  retryable: true,
  help: "The tenant has as many notes as it may keep.",
};

interface NotesMessages {
  /** Stores a note. Refuses with notes_full when the tenant has the maximum. */
  add: { body: { author: string; body: string }; reply: { id: string } };
  /** Every note, newest first, and the number that this actor has stored since it was loaded. */
  list: { body: Record<string, never>; reply: { items: Note[]; added: number } };
}
declare module "../../bus/protocol/kinds.ts" {
  interface Protocols {
    notes: NotesMessages;
  }
}
const address = (tenantId: string) => ({ kind: "notes", key: tenantId }) as const;

/** Owns the notes of one tenant. */
const notesActor = defineActor<"notes", { readonly store: TenantStore; added: number }, PluginActorDeps>({
  kind: "notes",
  mailboxLimit: 64,
  interleaves: ["list"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, deps }) => ({ store: deps.store.tenant(key), added: 0 }),
  idle: () => true,
  crashed: () => {},
  on: {
    async add(state, { author, body }, { deps, env, bus }) {
      const { rows } = await notes.page(state.store, {}, null, 100);
      if (rows.length >= settingOf(deps.settings, notesMax)) throw new SvcError(notesFull);
      const id = env.id();
      await state.store.write([
        insertNote(state.store, { id, ts: env.now(), author, body }),
        ...(body.startsWith("post ")
          ? deliveryOps(state.store, { kind: "notes", lane: author, source: id, type: "notes.kept", body })
          : []),
        auditOp(
          state.store,
          { env, mask: deps.mask },
          { event_type: noteKept, status: "ok", manifest_id: "", principal_subj: author, payload: { note: id, body } },
        ),
      ]);
      wakeLane(bus, state.store.tenantId, "notes", author);
      state.added += 1;
      return { id };
    },
    async list({ store, added }) {
      const { rows } = await notes.page(store, {}, null, 100);
      return { items: rows, added };
    },
  },
});

const addNote = defineTool({
  name: "add_note",
  description: "Keeps a note.",
  parameters: Type.Object({ body: Type.String({ description: "What it says." }) }, { additionalProperties: false }),
  effect: "once",
  risk: "writes",
  async execute({ body }, { bus, tenantId }: PluginToolContext) {
    await bus.ask(address(tenantId), "add", { author: "model", body });
    return { text: `noted: ${body}` };
  },
});

const countNotes = defineTool({
  name: "count_notes",
  description: "Counts the notes.",
  parameters: Type.Object({}, { additionalProperties: false }),
  effect: "read",
  risk: "reads",
  async execute(_args, { store }: PluginToolContext) {
    return { text: String((await notes.page(store, {}, null, 100)).rows.length) };
  },
});

const wants = ({ manifest }: CompiledAgent, what: string): boolean =>
  (manifest.spec.extensions.notes as Record<string, unknown> | undefined)?.[what] === true;

/** Tools that no manifest names: an archive has one for each agent that wants it. */
const archive: PluginToolSource = {
  name: "notes_archive",
  serves: (agent) => wants(agent, "archive"),
  async open(agent, _tenantId, { count, observe }) {
    count("svc_notes_archives_total", {});
    observe("svc_notes_archive_seconds", { shelf: "top" }, 0.2);
    const search = defineTool({
      name: "search_archive",
      description: `Searches the archive of ${agent.name}.`,
      parameters: Type.Object({ word: Type.String() }, { additionalProperties: false }),
      effect: "read",
      risk: "reads",
      execute({ word }, { progress, services }: PluginToolContext) {
        progress({ done: 1, total: 2, message: "searching" });
        const { agent, internet, operator } = services.egress;
        const ways = Object.keys({ agent, internet, operator }).join(" and ");
        return { text: `nothing about ${word}, by ${ways}` };
      },
    });
    return { tools: [{ ...search, transport: "remote" }] };
  },
};

/** A source that opens when a note of the tenant asks for it. */
const shelf: PluginToolSource = {
  name: "notes_shelf",
  serves: (agent) => wants(agent, "shelf"),
  async open(_agent, tenantId, { store, env }) {
    for (const until = env.monotonic() + 9_000; env.monotonic() < until; ) {
      const { rows } = await notes.page(store.tenant(tenantId), {}, null, 100);
      if (rows.some(({ body }) => body === "open the shelf")) break;
      await new Promise<void>((resolve) => env.timer(20, resolve));
    }
    return { tools: [{ ...countNotes, name: "count_shelf" }] };
  },
};

const unreachable: PluginToolSource = {
  name: "notes_unreachable",
  serves: (agent) => wants(agent, "unreachable"),
  open: () => Promise.reject(new Error("nobody answers")),
};

const verdict: AnswerSchema = {
  json: '{"type":"object","properties":{"rude":{"type":"boolean"}},"required":["rude"],"additionalProperties":false}',
  schema: {
    type: "object",
    properties: { rude: { type: "boolean" } },
    required: ["rude"],
    additionalProperties: false,
  },
  isStrict: true,
};

/** Refuses words of callers, and results that a model calls rude. */
const censor: PluginControl = {
  name: "notes_censor",
  make(run) {
    return {
      name: "guardrails",
      denials: { event_type: noteCensored, counter: "svc_notes_censored_total", text: () => "[censored]" },
      async after({ tool }, { text }) {
        if (tool !== "add_note" || !text.includes("perhaps rude")) return pass;
        const said = await run.askModel({ task: "Is the note rude?", given: { note: text }, answer: verdict });
        return (said as { rude: boolean } | null)?.rude === false
          ? pass
          : { verdict: "block", rule: "rude", detail: "the note is rude" };
      },
    };
  },
  input: () => ({
    name: "screening",
    input({ text }) {
      if (text.includes("forbidden word")) return { verdict: "deny", rule: "notes_words", detail: "a forbidden word" };
      return text.includes("softened") ? { verdict: "replace", text: text.replace("softened", "soft") } : pass;
    },
  }),
};

/** Adds the newest note to each request of an agent that has an archive. */
const latest: PluginContextSource = {
  name: "notes_latest",
  async contribute({ agent, store }) {
    if (!wants(agent, "archive")) return null;
    const { rows } = await notes.page(store, {}, null, 1);
    return { system: ["Notes are from people."], messages: [`The newest note: ${rows[0]?.body ?? "none"}`] };
  },
};

const tag = "notes";
const Listed = Type.Object({
  items: Type.Array(Type.Object({ id: Type.String(), author: Type.String(), body: Type.String() })),
  added: Type.Integer(),
});

const listRoute = route({
  method: "GET",
  path: "/notes",
  summary: "The notes of the tenant.",
  tag,
  access: ["notes:read"],
  reply: { description: "All of them, newest first.", schema: Listed },
  fails: actorFails,
  handle: async ({ principal }, { bus }) => json(await bus.ask(address(principal.tenant_id), "list", {})),
});

const addRoute = route({
  method: "POST",
  path: "/notes",
  summary: "Keeps a note.",
  tag,
  access: ["notes:write"],
  body: Type.Object({ body: Type.String({ minLength: 1 }) }, { additionalProperties: false }),
  reply: { status: 201, description: "It is kept.", schema: Type.Object({ id: Type.String() }) },
  fails: [notesFull, ...actorFails],
  handle: async ({ principal, body }, { bus }) =>
    json(await bus.ask(address(principal.tenant_id), "add", { author: principal.sub, body: body.body }), 201),
});

const background = "background:notes_answers" as const;
/** Runs that answer a question about the notes, and no client reads. */
const answers: PluginEntryPoint = {
  form: "background",
  help: "A question about the notes.",
  scheme: "notes",
  grants: () => [{ tenant_id: "acme", sub: "notes:", scopes: ["notes:read"] }],
  threads: () => ["notes-"],
};

/** Starts a run, and answers with its frames and its end. */
const askRoute = route({
  method: "POST",
  path: "/notes/ask",
  summary: "An answer about the notes.",
  tag,
  access: ["notes:read"],
  body: Type.Object(
    { manifest: Type.String(), question: Type.String(), thread: Type.String() },
    { additionalProperties: false },
  ),
  reply: { description: "What the run has sent, and its end.", schema: Type.Unknown() },
  fails: actorFails,
  async handle({ principal, body }, { bus, env, store }) {
    const place = { tenant_id: principal.tenant_id, suffix: body.thread, run_id: newRunId(env) };
    const names: string[] = [];
    const stop = followRun(place, (frames) => names.push(...frames.map(({ name }) => name)), { bus });
    const caller = { ...principal, scheme: "notes", sub: `notes:${principal.sub}`, scopes: ["notes:read"] };
    const quoted = [{ source: "notes", note: "A note of somebody else.", text: "Notes are short." }];
    const turn = { surface: background, principal: caller, manifest: body.manifest, quoted };
    try {
      await startRun({ ...turn, run_id: place.run_id, thread: place.suffix, content: body.question }, { bus, env });
      for (;;) {
        const found = await storedRun(store.tenant(place.tenant_id), place.run_id);
        if (found?.end != null || found?.standing.waiting_on != null)
          return json({ names, end: found.end, waiting_on: found.standing.waiting_on });
        await new Promise<void>((resolve) => env.timer(20, resolve));
      }
    } finally {
      stop();
    }
  },
});

/** Streams a turn of the caller. */
const talkRoute = route({
  method: "POST",
  path: "/notes/talk",
  summary: "A talk about the notes.",
  tag,
  access: ["notes:read"],
  body: Type.Object({ manifest: Type.String(), text: Type.String() }, { additionalProperties: false }),
  reply: { description: "The frames of POST /chat/stream.", contentType: "text/event-stream" },
  fails: actorFails,
  handle: (request, context) => {
    const { manifest, text: content } = request.body;
    return streamTurn(request, callerTurn({ surface: "stream:notes_talk", manifest, thread: null, content }), context);
  },
});

/** Keeps a note about each posted one. The first attempt fails. */
const posts: PluginOutbox = {
  ...{ attemptsMax: 3, timeoutMs: 5_000, pauseMs: 50 },
  async send({ body, attempts, tenant_id, lane }, { env, store }) {
    if (body.includes("dead")) return { outcome: "dead", reason: "it is dead" };
    if (attempts === 0) throw new Error("the first attempt fails");
    const tenant = store.tenant(tenant_id);
    const said = `posted by ${lane} after ${attempts}`;
    return {
      outcome: "sent",
      ops: [insertNote(tenant, { id: env.id(), ts: env.now(), author: "outbox", body: said })],
    };
  },
};

/** One answer of the model, without tools, and a signature. */
const signed: Pattern = async (runContext) => {
  const { messages, turnStart } = runContext.branch;
  const shown = workingSet(messages, runContext.spec.agent.session, turnStart);
  const outcome = await modelStep(runContext, shown, runContext.step.ephemeralInstruction);
  if (outcome.kind === "breach") return limited(runContext, outcome.breach, outcome.partial);
  if (outcome.kind === "stopped") return stopped(runContext, outcome.partial);
  if (outcome.kind === "failure") return failedCall(runContext, outcome.failure, outcome.partial);
  const signature = " (signed)";
  runContext.stream.say(signature);
  return answered(runContext, { ...outcome.reply, text: outcome.reply.text + signature, tool_calls: [] });
};

/** Repeats the last message of the thread, as often as the seconds in its options. */
function parrot(times: number): ModelProvider {
  return {
    name: "parrot",
    start({ messages }, events) {
      const last = (JSON.parse(messages) as { content: string }[]).at(-1)?.content ?? "";
      const said = Array.from({ length: times }, () => last).join(" ");
      const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
      const reply = Promise.resolve().then(() => {
        events.text(said);
        return { text: said, reasoning: "", tool_calls: [], stop_reason: "end_turn" as const, usage };
      });
      return { reply, abort() {}, pause() {}, resume() {} };
    },
  };
}

/** Vectors of two numbers: the length of a text, and the seconds in its options. */
function measure(times: number): Embedder {
  return {
    start({ inputs }) {
      const numbers = Float32Array.from(inputs.flatMap((input) => [lengthOf(input), times]));
      const reply = { vectors: new Uint8Array(numbers.buffer), dimensions: 2, tokens: 7, isBinary: true };
      return { reply: Promise.resolve(reply), abort() {} };
    },
  };
}

/** Chooses the option that the message names, or else the first one. */
const chooser: Decider = {
  decide({ state, options }) {
    const names = Object.keys(options);
    const named = names.find((name) => String(state.message).includes(name));
    if (named === undefined && String(state.message).includes("broken")) throw new Error("the chooser is broken");
    return {
      choice: named ?? String(names[0]),
      confidence: named === undefined ? 0.6 : 1,
      probabilities: null,
      tokens: 3,
    };
  },
};

/** Lists or keeps notes, as `svc notes`. */
const notesCommand: PluginCommand = {
  summary: "List notes, or keep one.",
  options: { reverse: { type: "boolean", help: "Oldest first." } },
  positionals: ["[BODY]"],
  async run({ positionals: [body], options }, { ask, note, settings }) {
    if (body === "") throw new UsageError("BODY is empty.");
    note(`A tenant may keep ${settingOf(settings, notesMax)} notes.`);
    const answer = await (body === undefined ? ask("GET", "/notes") : ask("POST", "/notes", { body }));
    const json = JSON.parse(answer.body) as { error?: string; items?: readonly Note[]; id?: string };
    if (answer.status >= 300) return { code: 2, json: { ok: false, ...json }, text: String(json.error) };
    const bodies = (json.items ?? []).map((one) => one.body);
    const lines = options.reverse ? bodies.reverse() : bodies;
    return { code: 0, json: { ok: true, ...json }, text: body === undefined ? lines.join("\n") : `kept ${json.id}` };
  },
};

/** Uses every extension point. */
export const plugin = definePlugin({
  name: "notes",
  description: "Notes of a tenant.",
  settings: [notesMax, notesKey],
  tables: [notesTable],
  migrations: [
    {
      revision: "notes_0001",
      name: "items",
      up: [
        `CREATE TABLE notes_items (
          tenant_id TEXT NOT NULL,
          id TEXT NOT NULL,
          ts BIGINT NOT NULL,
          author TEXT NOT NULL,
          body TEXT NOT NULL,
          PRIMARY KEY (tenant_id, id)
        )`,
        "CREATE INDEX notes_items_by_time ON notes_items (tenant_id, ts, id)",
      ],
      down: ["DROP TABLE notes_items"],
    },
  ],
  routes: [listRoute, addRoute, askRoute, talkRoute],
  console: {
    folder: new URL("./notes-console/", import.meta.url),
    screens: [{ name: "notes", title: "Notes", icon: "copy", route: "GET /notes", module: "notes.js" }],
  },
  scopes: { "notes:read": "Read the notes of the tenant.", "notes:write": "Keep notes." },
  commands: { notes: notesCommand },
  auditTypes: [noteKept, noteCensored],
  errorCodes: [notesFull],
  tools: [addNote, countNotes],
  extension: Type.Object(
    Object.fromEntries(["archive", "shelf", "unreachable"].map((name) => [name, Type.Optional(Type.Boolean())])),
    { additionalProperties: false },
  ),
  toolSources: [archive, shelf, unreachable],
  controls: [censor],
  contextSources: [latest],
  metrics: {
    svc_notes_censored_total: { type: "counter", help: "Results that the censor refused.", labels: [] },
    svc_notes_archives_total: { type: "counter", help: "Archives that were opened.", labels: [] },
    svc_notes_archive_seconds: { type: "histogram", help: "Time to open an archive.", labels: ["shelf"] },
    svc_notes_swept: { type: "histogram", help: "Notes that one sweep deleted.", labels: [], buckets: [1, 10] },
  },
  kinds: [notesActor],
  entryPoints: { notes_answers: answers, notes_talk: { form: "stream", help: "A talk about the notes." } },
  callerBudgets: () => [{ id: "talks", sub: "notes-budget:", period: "day", tokens: 1_000 }],
  outbox: { notes: posts },
  patterns: { signed },
  stepKinds: [
    {
      kind: "note",
      description: "Counts twice, and then has a note.",
      config: Type.Object({ prefix: Type.String() }, { additionalProperties: false }),
      inputs: [{ name: "body", type: "text", required: true }],
      outputs: [{ name: "note", type: "text", required: true }],
      async advance({ config, inputs, state, attempt }) {
        const calls = ((state as number | null) ?? 0) + 1;
        if (inputs.body === "endless") return { again_seconds: Number.NaN };
        if (inputs.body === "huge") return { output: { note: 10n } };
        if (inputs.body === "absent") return { output: [] as never };
        if (calls < 3) return { again_seconds: 0.0005, state: calls };
        if (inputs.body === "bad" && attempt === 1) throw new Error("the note is bad");
        return { output: { note: `${config.prefix}${inputs.body} after ${calls}, try ${attempt}` } };
      },
    },
  ],
  modelProviders: [
    {
      name: "parrot",
      open: ({ options }) => parrot(options.timeout ?? 1),
      openEmbedder: ({ options }) => measure(options.timeout ?? 1),
    },
    { name: "chooser", openDecider: () => chooser },
  ],
  tasks: [
    {
      name: "notes_rubbish",
      async run({ store, observe }) {
        const [rows = []] = await store.system.write([store.system.op(deleteRubbish, ["rubbish"])]);
        if (rows.length > 0) observe("svc_notes_swept", {}, rows.length);
        return 20;
      },
    },
  ],
  hooks: [
    {
      name: "notes_guard",
      beforeTool({ args }, { settings }) {
        const words = JSON.stringify(args);
        if (words.includes("broken")) throw new Error("the guard is broken");
        const key = settingOf(settings, notesKey);
        return key !== "" && words.includes(key) ? "a note does not hold the key" : null;
      },
      afterTool: ({ tool }, text) => (tool === "add_note" ? `${text} (seen)` : text),
    },
  ],
});
