// Traces turns inside the server under test. NODE_OPTIONS loads this file into each of its threads. The server has no code for it: this
// file wraps methods, and each wrapper notes a time and calls the original.
import { createRequire } from "node:module";
import { workerData } from "node:worker_threads";
import type { RunOutput } from "../bus/frames/output.ts";
import type { SubmitTurn } from "../bus/protocol/run.ts";
import type { Point } from "./first-word-points.ts";
import { Marks, now } from "./marks.ts";
import { isTurn, turnIn } from "./protocol.ts";

/** The directory of the notes, and the root of the server under test. */
const { PERF_MARKS_DIR: dir, PERF_SVC_ROOT: root = "" } = process.env;

/** The workerData of a thread: the store's thread has the database, others a port to it, and small helper threads neither. */
type ThreadData = { readonly engine?: unknown; readonly storePort?: unknown } | null;

if (dir !== undefined) {
  const marks = new Marks(dir);
  const note: Note = (turn, point, at) => {
    if (turn !== undefined) marks.note(turn, point, at);
  };
  const data: ThreadData = workerData;
  if (data?.engine === "sqlite") watchSqlite(note);
  else if (data === null || data.storePort !== undefined) {
    await watchHttp(note);
    await watchActors(note);
    await watchModels(note);
    await watchStorePort(note);
  }
}

type Note = (turn: string | undefined, point: Point, at?: number) => void;

/** Imports a module of the server under test, in the same instance as the server. */
function load<Module>(path: string): Promise<Module> {
  return import(new URL(path, root).href) as Promise<Module>;
}

async function watchHttp(note: Note): Promise<void> {
  const { Exchange } = await load<typeof import("../http/engines/exchange.ts")>("http/engines/exchange.ts");
  /** Exchanges by their turn until their first token leaves; null for exchanges without a traced turn. */
  const turns = new WeakMap<object, string | null>();
  const turnOf = (exchange: object) => turns.get(exchange) ?? undefined;
  const { body, write, end } = Exchange.prototype;
  const head = Object.getOwnPropertyDescriptor(Exchange.prototype, "head")?.get;
  Object.defineProperty(Exchange.prototype, "head", {
    configurable: true,
    get(this: InstanceType<typeof Exchange>) {
      const value = head?.call(this);
      if (!turns.has(this)) {
        const id = value.headers["x-request-id"];
        turns.set(this, isTurn(id) ? id : null);
        note(turnOf(this), "handler");
      }
      return value;
    },
  });
  Exchange.prototype.body = function (bytesMax) {
    note(turnOf(this), "admitted");
    return body.call(this, bytesMax);
  };
  const noteText = (exchange: object, text: string): void => {
    const turn = turnOf(exchange);
    if (turn === undefined || !text.includes('"text_delta"')) return;
    note(turn, "written");
    turns.set(exchange, null);
  };
  Exchange.prototype.write = function (piece) {
    // Bytes are replayed history, not a live turn.
    if (typeof piece === "string") noteText(this, piece);
    return write.call(this, piece);
  };
  // A turn that ends before its acceptance is sent in one piece.
  Exchange.prototype.end = function (text) {
    noteText(this, text);
    end.call(this, text);
  };
}

async function watchActors(note: Note): Promise<void> {
  const { runActor } = await load<typeof import("../actors/run/run-actor.ts")>("actors/run/run-actor.ts");
  const { threadActor } = await load<typeof import("../actors/thread/thread-actor.ts")>(
    "actors/thread/thread-actor.ts",
  );
  const { RunStream } = await load<typeof import("../actors/run/stream/run-stream.ts")>(
    "actors/run/stream/run-stream.ts",
  );
  /** Turns by run id, until their acceptance. */
  const turns = new Map<string, string>();
  /** Turns by the state of their actor, until their first text. */
  const silent = new Map<Parameters<typeof runActor.on.start>[0], string>();
  /** The turn that owns the output. */
  const turnOf = (output: RunOutput): string | undefined => {
    for (const [state, turn] of silent) {
      if (state.output !== output) continue;
      silent.delete(state);
      return turn;
    }
    return undefined;
  };
  const { start } = runActor.on;
  runActor.on.start = (state, sent: SubmitTurn, context) => {
    const turn = turnIn(sent.request_id);
    note(turn, "run");
    const started = start(state, sent, context);
    if (turn === undefined) return started;
    turns.set(sent.run_id, turn);
    silent.set(state, turn);
    const over = (): void => {
      turns.delete(sent.run_id);
      note(turn, "accepted");
    };
    Promise.resolve(started).then(over, over);
    return started;
  };

  const { open } = threadActor.on;
  threadActor.on.open = (state, asked, context) => {
    const turn = turns.get(asked.run_id);
    note(turn, "threadAsked");
    const opened = Promise.resolve(open(state, asked, context));
    const over = (): void => note(turn, "threadOpened");
    opened.then(over, over);
    return opened;
  };

  const spoken = new WeakSet<object>();
  const { say } = RunStream.prototype;
  RunStream.prototype.say = function (delta) {
    if (!spoken.has(this)) {
      spoken.add(this);
      note(turnOf(this.output), "firstText");
    }
    say.call(this, delta);
  };
}

async function watchModels(note: Note): Promise<void> {
  const { Egress } = await load<typeof import("../governance/egress/egress.ts")>("governance/egress/egress.ts");
  const { HttpCall } = await load<typeof import("../actors/models/http-call.ts")>("actors/models/http-call.ts");
  /** Turns by calls that are not answered yet. */
  const turns = new WeakMap<object, string>();
  const { dispatch } = Egress.prototype;
  Egress.prototype.dispatch = function (target, request, handler) {
    const turn = typeof request.body === "string" ? turnIn(request.body) : undefined;
    if (turn !== undefined) turns.set(handler, turn);
    note(turn, "modelAsked");
    dispatch.call(this, target, request, handler);
  };
  const { onRequestStart, onResponseData } = HttpCall.prototype;
  HttpCall.prototype.onRequestStart = function (controller) {
    note(turns.get(this), "modelSent");
    onRequestStart.call(this, controller);
  };
  HttpCall.prototype.onResponseData = function (chunk) {
    note(turns.get(this), "modelRead");
    turns.delete(this);
    onResponseData.call(this, chunk);
  };
}

/** The first batch of a turn contains its thread id. */
async function watchStorePort(note: Note): Promise<void> {
  const { StorePort } = await load<typeof import("../storage/store/port.ts")>("storage/store/port.ts");
  const { write } = StorePort.prototype;
  StorePort.prototype.write = function (ops, deadlineMs) {
    const turn = ops.flatMap(({ params }) => params).find(isTurn);
    note(turn, "storeAsked");
    const written = write.call(this, ops, deadlineMs);
    if (turn !== undefined) {
      const over = (): void => note(turn, "storeAnswered");
      written.then(over, over);
    }
    return written;
  };
}

/** Traces, in the store's thread, the batch of a turn within its group's transaction. */
function watchSqlite(note: Note): void {
  const Database: typeof import("better-sqlite3") = createRequire(new URL("svc.ts", root))("better-sqlite3");
  const db = new Database(":memory:");
  const prototype: { run(this: { readonly source: string }, ...params: unknown[]): unknown } = Object.getPrototypeOf(
    db.prepare("SELECT 1"),
  );
  db.close();
  const { run } = prototype;
  let group: string[] = [];
  let begunAt = 0;
  prototype.run = function (...params) {
    const { source } = this;
    if (source === "COMMIT") {
      for (const turn of group) note(turn, "storeCommitting");
      const result = run.apply(this, params);
      for (const turn of group) note(turn, "storeCommitted");
      return result;
    }
    if (source === "BEGIN IMMEDIATE") {
      group = [];
      begunAt = now();
    } else {
      const turn = params.find(isTurn);
      if (turn !== undefined) {
        note(turn, "storeBegun", begunAt);
        group.push(turn);
      }
    }
    return run.apply(this, params);
  };
}
