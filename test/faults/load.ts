import assert from "node:assert/strict";
import { join } from "node:path";
import type { TestContext } from "node:test";
import SqliteDatabase from "better-sqlite3";
import type { Dialect } from "../../storage/store/dialect.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, type Item, orLost, snapshotOf, untilCut } from "./support.ts";

// Parallel conversations of all kinds on a server that is killed repeatedly. The answers to the clients are compared
// with the successor's data.

const clientCount = 12;
/** Turns of a conversation before its client starts another one. */
const turnsPerThread = 8;
/**
 * Manifests with models of different speed: slow enough to be cut mid-reply, fast enough to finish between kills, and
 * one with tools.
 */
const manifests = ["mock-paced-3", "mock-trickle", "mock-burst", "mock-tools"] as const;

/** A conversation with the facts that its client has received. */
class Conversation {
  readonly thread: string;
  /** Events below this number are durable. */
  durable = 0;
  /** User messages of ended turns, in order. */
  readonly ended: string[] = [];
  /** Leaf ids that answers have named. */
  readonly leaves: string[] = [];
  /** Number of turns whose end the client has not seen. */
  cut = 0;
  turns = 0;

  constructor(thread: string) {
    this.thread = thread;
  }
}

/** Clients that run turns until they are stopped. After a cut turn they wait for the server and continue the thread. */
class Load {
  readonly conversations: Conversation[] = [];
  framesSeen = 0;
  #server: ProcessServer;
  #serverIsBack = Promise.resolve();
  #stopped = false;
  #watcher: { count: number; reached: () => void } | null = null;
  readonly #clients: Promise<void>[];

  constructor(server: ProcessServer) {
    this.#server = server;
    this.#clients = Array.from({ length: clientCount }, (_, client) => this.#talk(client));
  }

  /** Resolves after clients have received this many more frames and answers. */
  seen(count: number): Promise<void> {
    return new Promise((reached) => {
      this.#watcher = { count: this.framesSeen + count, reached };
    });
  }

  /** From now on, clients with a cut turn wait for `back`. */
  pauseUntil(back: Promise<void>): void {
    this.#serverIsBack = back;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#clients);
  }

  async #talk(client: number): Promise<void> {
    for (let number = 0; !this.#stopped; number++) {
      const conversation = new Conversation(`client-${client}-${number}`);
      this.conversations.push(conversation);
      for (let turn = 0; turn < turnsPerThread && !this.#stopped; turn++) {
        const kind = turnKinds[(client + turn + number) % turnKinds.length] as TurnKind;
        const manifest = manifests[(client + turn) % manifests.length] as string;
        const text = `${conversation.thread} says ${turn}`;
        conversation.turns++;
        const whole = await kind(this.#server, conversation, { text, manifest, frame: () => this.#note() });
        if (whole) {
          conversation.ended.push(text);
          continue;
        }
        conversation.cut++;
        await this.#serverIsBack;
        if (turn % 2 === 0 && !this.#stopped) await this.#goOn(conversation, manifest);
      }
    }
  }

  /** A cut thread accepts a continuation, unless its turn had ended unseen or never begun. */
  async #goOn(conversation: Conversation, manifest: string): Promise<void> {
    const body = { thread_id: conversation.thread, manifest };
    const answer = await orLost(this.#server.post("/chat/continue", body));
    this.#note();
    if (!answer) conversation.cut++;
    else if (answer.status === 200) conversation.leaves.push(answer.json.leaf_id);
    else
      assert.ok(
        ["already_complete", "nothing_to_continue", "manifest_required"].includes(answer.json.error),
        answer.text,
      );
  }

  #note(): void {
    this.framesSeen++;
    if (this.#watcher === null || this.framesSeen < this.#watcher.count) return;
    this.#watcher.reached();
    this.#watcher = null;
  }
}

interface Turn {
  readonly text: string;
  readonly manifest: string;
  /** Called for each frame and answer. */
  frame(): void;
}

/** Runs a turn and records its answer. Returns true if the client has seen the end. */
type TurnKind = (server: ProcessServer, conversation: Conversation, turn: Turn) => Promise<boolean>;

const turnKinds: readonly TurnKind[] = [streamed, answered, streamed, keyedStream, viaOpenAi];

function bodyOf(conversation: Conversation, { manifest, text }: Turn) {
  return { manifest, thread_id: conversation.thread, messages: [{ role: "user", content: text }] };
}

async function streamed(
  server: ProcessServer,
  conversation: Conversation,
  turn: Turn,
  headers: Record<string, string> = {},
): Promise<boolean> {
  const stream = await orLost(server.stream("/chat/stream", bodyOf(conversation, turn), { headers }));
  if (!stream) return false;
  assert.equal(stream.status, 200);
  let done = false;
  await untilCut(stream, ({ name, id }) => {
    turn.frame();
    // The server is alive, so this frame must not be an error.
    assert.notEqual(name, "error");
    if (id !== null) conversation.durable = Math.max(conversation.durable, Number(id));
    if (name === "done") done = true;
  });
  return done;
}

function keyedStream(server: ProcessServer, conversation: Conversation, turn: Turn): Promise<boolean> {
  return streamed(server, conversation, turn, { "idempotency-key": `key-of-${conversation.turns}` });
}

async function answered(server: ProcessServer, conversation: Conversation, turn: Turn): Promise<boolean> {
  const answer = await orLost(server.post("/chat", bodyOf(conversation, turn)));
  turn.frame();
  if (!answer) return false;
  assert.equal(answer.status, 200, answer.text);
  conversation.leaves.push(answer.json.leaf_id);
  return true;
}

async function viaOpenAi(server: ProcessServer, conversation: Conversation, turn: Turn): Promise<boolean> {
  const { messages } = bodyOf(conversation, turn);
  const body = { model: turn.manifest, messages, user: conversation.thread };
  const answer = await orLost(server.post("/v1/chat/completions", body));
  turn.frame();
  if (!answer) return false;
  assert.equal(answer.status, 200, answer.text);
  return true;
}

/** Kills a server under load this many times, and compares the store with the clients' records after each kill. */
export async function killUnderLoad(t: TestContext, dialect: Dialect, times: number): Promise<void> {
  const atEnd = cleanup(t);
  const mock = await startMockModel({ record: false });
  atEnd.after(() => mock.close());
  const database = await databaseOf(dialect, atEnd);
  const server = await startServerProcess({ atEnd, env: { ...envOf(mock, atEnd), ...database.env } });
  const load = new Load(server);

  for (let round = 0; round < times; round++) {
    // Kill at a different moment each time.
    await load.seen(300 + round * 37);
    const back = Promise.withResolvers<void>();
    load.pauseUntil(back.promise);
    assert.equal((await server.kill()).signal, "SIGKILL");
    if (dialect === "sqlite") checkIntegrity(server.dataDir);
    await server.restart();
    const open = await database.rows("SELECT run_id FROM runs WHERE ended_at IS NULL", server.dataDir);
    const claims = await database.rows("SELECT scope FROM idempotency WHERE state = 'in_progress'", server.dataDir);
    assert.deepEqual([open, claims], [[], []]);
    for (const conversation of load.conversations) await checkConversation(server, conversation);
    back.resolve();
  }
  await load.stop();

  const { conversations } = load;
  for (const conversation of conversations) await checkConversation(server, conversation);
  const sum = (of: (conversation: Conversation) => number) => conversations.reduce((all, each) => all + of(each), 0);
  const cut = sum((each) => each.cut);
  t.diagnostic(`${sum((each) => each.turns)} turns in ${conversations.length} threads; ${cut} were cut off`);
  assert.ok(cut >= times);
}

function envOf(mock: MockModel, atEnd: Parameters<typeof manifestEnv>[0]) {
  const agents = manifests.map((id) => [id, { model: { id }, tools: ["calculator"] }]);
  return { ...modelEnv(mock, manifests), ...manifestEnv(atEnd, Object.fromEntries(agents)) };
}

function checkIntegrity(dataDir: string): void {
  const db = new SqliteDatabase(join(dataDir, "svc.db"));
  try {
    assert.deepEqual(db.pragma("integrity_check"), [{ integrity_check: "ok" }]);
  } finally {
    db.close();
  }
}

/** Asserts that every acknowledged event is there in order, every turn has an end, and no run is live. */
async function checkConversation(server: ProcessServer, told: Conversation): Promise<void> {
  const { thread } = told;
  const { transcript, phase } = await snapshotOf(server, thread);
  assert.equal(phase, "idle", thread);
  assert.ok(transcript.length >= told.durable, `${thread}: ${told.durable} events were acknowledged`);
  const ids = new Set(transcript.map(({ id }) => id));
  for (const leaf of told.leaves) assert.ok(ids.has(leaf), `${thread}: ${leaf} was acknowledged`);
  const said = transcript.filter(({ role }) => role === "user").map(({ content }) => content);
  const ended = new Set(told.ended);
  const kept = said.filter((text) => ended.has(text));
  assert.deepEqual(kept, told.ended, `${thread}: what was said and answered`);
  checkEnds(thread, transcript);
  const marks = transcript.filter(({ metadata }) => metadata.type === "run_interrupted");
  assert.ok(marks.length <= told.cut, `${thread}: ${marks.length} marks for ${told.cut} turns that were cut off`);
  assert.equal(new Set(marks.map(({ metadata }) => metadata.run_id)).size, marks.length, `${thread}: marked twice`);
}

/** Asserts an answer or an interruption mark between each two user messages. */
function checkEnds(thread: string, transcript: readonly Item[]): void {
  let open = false;
  for (const { kind, role, metadata, toolCalls, seq } of transcript) {
    if (kind === "message" && role === "user") {
      assert.ok(!open, `${thread}: the turn before event ${seq} has no end`);
      open = true;
    } else if (metadata.type === "run_interrupted") open = false;
    else if (kind === "message" && role === "assistant" && !toolCalls?.length) open = false;
  }
  assert.ok(!open, `${thread}: the last turn has no end`);
}
