import { createHash } from "node:crypto";
import { type Address, durableSuffix, runAddress, threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { orderedId } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { outputFor } from "../bus/frames/make-output.ts";
import { neverAgain } from "../bus/frames/openai-error.ts";
import type { Channel, ChannelRef } from "../bus/protocol/channel.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import { type AcceptedRun, decodeAnswer, type SubmitTurn, type TurnAccepted } from "../bus/protocol/run.ts";
import { unheardTurn } from "../bus/protocol/unheard-turn.ts";
import { admitAnonymousTurn } from "../governance/auth/anonymous.ts";
import { type Awaited, answerOfRun, isAwaited, streamOfRun } from "./awaited-run.ts";
import { leanMessages } from "./client-messages.ts";
import type { HttpContext, LiveTurn } from "./context.ts";
import { namingDropped } from "./dropped-parts.ts";
import { EarlyListener } from "./early-listener.ts";
import { json, jsonText, type Reply } from "./exchange/reply.ts";
import type { EventStream } from "./exchange/sse.ts";
import { answerAgain, replayedHeader, streamAgain } from "./logged-run.ts";
import type { RouteRequest } from "./route.ts";
import { acceptedRunStream, type EarlyIn } from "./run-stream.ts";

// A turn as its http thread sees it: opens a channel, asks the thread's actor to run the turn, and hands what comes over the
// channel to the client. What comes before the turn is accepted waits; what comes of a turn that is refused is dropped.

/** What a route says about a turn; the rest is the same for all of them. */
export type TurnFields = Omit<SubmitTurn, "run_id" | "principal" | "request_id" | "idempotency" | "lease" | "channel">;

/** Asks again by id when it is unknown whether the turn was accepted. */
const submitAttempts = 3;
const submitDeadlineMs = 10_000;
const idempotencyKeyPattern = /^(?=.{1,255}$)[\x21-\x7e]+$/;

/** Runs a turn and answers with one JSON body at its end. */
export async function answerTurn(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<Reply> {
  const turn = new Turn(request, fields, context);
  const accepted = await turn.submit();
  return namingDropped(await answerOf(request, turn, accepted, context), droppedOf(accepted));
}

async function answerOf(
  request: RouteRequest<unknown, unknown, unknown>,
  turn: Turn,
  accepted: TurnAccepted,
  context: HttpContext,
): Promise<Reply> {
  const awaited = turn.awaited(accepted);
  if (awaited !== null) return answerOfRun(context, awaited, (work) => request.exchange.onAborted(work));
  if (accepted.kind === "accepted") return json(accepted.run, 202, accepted.replayed ? replayedHeader : undefined);
  if (accepted.kind === "logged") return answerAgain(context, turn.asked, accepted);
  if (accepted.kind === "answer") {
    const isFinal = isAwaited(turn.asked) && accepted.status >= 500;
    return jsonText(accepted.body, accepted.status, { ...replayedHeader, ...(isFinal && neverAgain) });
  }
  const { status, body, headers } = decodeAnswer(await turn.answer());
  return jsonText(body, status, headers);
}

/** Runs what answers with a body of its own kind, and answers with that. */
export async function endOfTurn(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<{ readonly status: number; readonly body: string }> {
  const turn = new Turn(request, fields, context);
  await turn.submit();
  return decodeAnswer(await turn.answer());
}

/** Has a turn accepted as a durable run. */
export async function acceptRun(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<Accepted> {
  const accepted = await new Turn(request, fields, context).submit();
  if (accepted.kind !== "accepted") throw new Error("a turn in the background was not accepted as a run");
  return accepted;
}

/** Runs a turn and answers with an event stream. */
export async function streamTurn(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<Reply> {
  const turn = new Turn(request, fields, context);
  const accepted = await turn.submit();
  return namingDropped(await streamOf(request, turn, accepted, context), droppedOf(accepted));
}

async function streamOf(
  request: RouteRequest<unknown, unknown, unknown>,
  turn: Turn,
  accepted: TurnAccepted,
  context: HttpContext,
): Promise<Reply> {
  const awaited = turn.awaited(accepted);
  if (awaited !== null) return streamOfRun(context, awaited);
  if (accepted.kind === "accepted") {
    const { run, replayed } = accepted;
    const opened = await acceptedRunStream(context, request.principal, run, replayed, turn.earlyIn(accepted));
    return replayed ? { ...opened, headers: replayedHeader } : opened;
  }
  if (accepted.kind === "logged") return streamAgain(context, turn.asked, accepted);
  if (accepted.kind === "replay")
    return { kind: "stream", headers: replayedHeader, open: (stream) => stream.end(accepted.frames) };
  return { kind: "stream", open: (stream) => turn.streamTo(stream) };
}

/** What of a turn that has begun was left out; absent for nothing. */
function droppedOf(accepted: TurnAccepted): readonly string[] | undefined {
  return accepted.kind === "started" || accepted.kind === "accepted" ? accepted.dropped : undefined;
}

/**
 * Has a durable run accepted that no client waits for, and that has no conversation. `bytes` is about what the bus carries.
 * Asked again by id when it is unknown whether it was.
 */
export async function acceptTurn(
  asked: Omit<Parameters<typeof unheardTurn>[0], "run_id" | "thread_suffix">,
  bytes: number,
  { bus, env }: Pick<HttpContext, "bus" | "env">,
): Promise<{ readonly resume_token: string; readonly replayed: boolean }> {
  const turn = unheardTurn({ ...asked, run_id: orderedId(env), thread_suffix: null }, bus.node);
  const accepted = await submitTurn(bus, runAddress(turn.principal.tenant_id, null, turn.run_id), turn, bytes);
  if (accepted.kind === "accepted") return { resume_token: accepted.run.resume_token, replayed: accepted.replayed };
  // Its key was settled as it was accepted: with what POST /chat would have answered.
  if (accepted.kind !== "answer") throw new Error(`a durable run was ${accepted.kind}`);
  return { resume_token: (JSON.parse(accepted.body) as AcceptedRun).resume_token, replayed: true };
}

/** Asks for a turn, and again by its id when it is unknown whether it was accepted. */
async function submitTurn(bus: Bus, to: Address<"run">, turn: SubmitTurn, bytes: number): Promise<TurnAccepted> {
  const options = { deadlineMs: submitDeadlineMs, bytes };
  for (let attempt = 1; ; attempt++) {
    try {
      return await bus.ask(to, "start", turn, options);
    } catch (error) {
      const unknownOutcome = error instanceof SvcError && error.code === "deadline_exceeded";
      if (!unknownOutcome || attempt === submitAttempts) throw error;
    }
  }
}

/** Refuses with shutting_down a request that sets a run going where none begins any more: its body may have come too late. */
export function admitStart({ closing }: Pick<HttpContext, "closing">): void {
  if (closing()) throw new SvcError("shutting_down");
}

type Accepted = Extract<TurnAccepted, { readonly kind: "accepted" }>;

class Turn implements LiveTurn {
  slot = -1;
  readonly #context: HttpContext;
  #submit: SubmitTurn;
  readonly #address: Address<"run">;
  readonly #node: NodeId;
  readonly #bytes: number;
  /** What came over the channel and went nowhere yet. */
  #waiting = "";
  #over = false;
  #accepted = false;
  /** The client went away before it was known whether there is a run. */
  #leftEarly = false;
  #stream: EventStream | null = null;
  #onAnswer: ((text: string) => void) | null = null;
  /** Of a stream that may well be one of a durable run: it is known by then what the run has said. */
  readonly #early: EarlyListener | null;

  constructor(request: RouteRequest<unknown, unknown, unknown>, fields: TurnFields, context: HttpContext) {
    admitStart(context);
    admitAnonymousTurn(request.principal, fields.thread_suffix, request.exchange.head.headers["idempotency-key"]);
    this.#context = context;
    const bytes = fields.bytes ?? request.rawBody.length;
    this.#bytes = bytes + 512;
    const channel: ChannelRef = context.bus.openChannel((text, last) => this.#take(text, last));
    this.#submit = {
      ...fields,
      bytes,
      messages: leanMessages(fields.messages),
      run_id: orderedId(context.env),
      principal: request.principal,
      request_id: request.requestId,
      idempotency: idempotencyOf(request, fields),
      lease: fields.thread_suffix === null ? null : request.lease,
      channel,
    };
    this.#address = runAddress(request.principal.tenant_id, fields.thread_suffix, this.#submit.run_id);
    this.#node = context.bus.nodeOf(this.#address);
    context.turns.add(this);
    const { tenant_id } = request.principal;
    const suffix = fields.thread_suffix ?? durableSuffix(this.#submit.run_id);
    const listens = fields.surface === "chat_stream" && context.durableAgents.has(tenant_id, fields.manifest);
    this.#early = listens ? new EarlyListener(context.fanOut, threadAddress(tenant_id, suffix)) : null;
    request.exchange.onAborted(() => {
      this.#early?.leave();
      this.#clientGone();
    });
  }

  /** Resolves when the turn was accepted. */
  async submit(): Promise<TurnAccepted> {
    try {
      const accepted = await submitTurn(this.#context.bus, this.#address, this.#submit, this.#bytes);
      this.#accepted = true;
      if (accepted.kind !== "accepted" || accepted.begun_at === undefined) this.#early?.leave();
      this.#rememberHow(accepted);
      // It may wait for days: what it was sent is the run's to keep.
      this.#submit = lean(this.#submit, accepted.kind === "started");
      if (accepted.kind !== "started") this.#close();
      else if (this.#leftEarly) this.#clientGone();
      return accepted;
    } catch (error) {
      this.#early?.leave();
      this.#close();
      throw error;
    }
  }

  /** So that the next stream of the agent is listened to early, or is not. */
  #rememberHow({ kind }: TurnAccepted): void {
    const { surface, principal, manifest } = this.#submit;
    const isDurable = kind === "accepted";
    if (surface === "chat_stream" && isDurable !== (this.#early !== null))
      this.#context.durableAgents.note(principal.tenant_id, manifest, isDurable);
  }

  /** By whom the durable run that it has become is listened to already. */
  earlyIn({ begun_at }: Accepted): EarlyIn | null {
    return this.#early === null || begun_at === undefined ? null : { listener: this.#early, begun_at };
  }

  /** What was asked for. */
  get asked(): SubmitTurn {
    return this.#submit;
  }

  /** What its client waits for where the turn is a durable run of which it is told no token; null elsewhere. */
  awaited(accepted: TurnAccepted): Awaited | null {
    if (accepted.kind !== "accepted" || !isAwaited(this.#submit)) return null;
    const { run, replayed, wait_ms = 0 } = accepted;
    return { turn: this.#submit, run, replayed, wait_ms };
  }

  /** The one text of a turn that is not streamed. Never settles when the client has gone. */
  answer(): Promise<string> {
    return new Promise((resolve) => {
      this.#onAnswer = resolve;
      if (this.#over && !this.#leftEarly) resolve(this.#waiting);
    });
  }

  streamTo(stream: EventStream): void {
    this.#stream = stream;
    stream.onClose(() => this.#clientGone());
    if (this.#over) stream.end(this.#waiting);
    else stream.write(this.#waiting);
    this.#waiting = "";
  }

  /** The node that runs the turn is gone. */
  lost(node: NodeId): void {
    if (node === this.#node) this.fail(new SvcError("actor_lost"));
  }

  /** Nothing more will come: the client is told so, in the form that it has asked for. */
  fail(error: SvcError): void {
    if (this.#over) return;
    const toClient: Channel = {
      writable: true,
      onWritable: (work) => work(),
      send: (text, last) => this.#take(text, last),
    };
    outputFor(this.#submit, toClient, this.#submit.manifest, this.#context.env.now(), null).failed(error);
  }

  #take(text: string, last: boolean): void {
    if (last) this.#over = true;
    if (this.#stream) {
      if (last) this.#stream.end(text);
      else this.#stream.write(text);
    } else {
      this.#waiting += text;
      if (last) this.#onAnswer?.(this.#waiting);
    }
    if (last) this.#close();
  }

  /** A run on a thread goes on without its client; one without a thread ends, unless it can be asked for again. */
  #clientGone(): void {
    if (this.#over) return;
    // Told before it has its run, the actor would have nothing to stop.
    if (!this.#accepted) {
      this.#leftEarly = true;
      return;
    }
    this.#over = true;
    this.#close();
    const { bus } = this.#context;
    const { thread_suffix, idempotency } = this.#submit;
    if (thread_suffix !== null) bus.tell(this.#address, "detach", {});
    else if (idempotency === null) bus.tell(this.#address, "abort", { reason: "client" });
  }

  #close(): void {
    this.#context.turns.delete(this);
    this.#context.bus.closeChannel(this.#submit.channel);
  }
}

/**
 * What is needed of a turn that has been accepted. A run that has `started` tells its end with what it was asked itself; that of a
 * durable run is told here.
 */
function lean({ options, ...turn }: SubmitTurn, isStarted: boolean): SubmitTurn {
  const { response } = turn;
  const rest = { ...turn, messages: [], template_args: [] };
  if (!isStarted) return { ...rest, ...(options !== undefined && { options }) };
  return { ...rest, response: response && { ...response, instructions: null, metadata: {} } };
}

/**
 * The client's key and what it binds: the route and the body, as it was sent; on /v1/chat/completions the thread too, which a header may
 * name.
 */
function idempotencyOf(
  { exchange, rawBody }: RouteRequest<unknown, unknown, unknown>,
  { surface, thread_suffix }: TurnFields,
): SubmitTurn["idempotency"] {
  const key = exchange.head.headers["idempotency-key"];
  // Other routes ignore the header.
  if (key === undefined || !keyedEntryPoints.has(surface)) return null;
  const isCompletion = surface === "openai" || surface === "openai_stream";
  const place = isCompletion ? `${surface} ${JSON.stringify(thread_suffix)}` : surface;
  return { key, fingerprint: createHash("sha256").update(`${place}\n`).update(rawBody).digest("hex") };
}

const keyedEntryPoints: ReadonlySet<TurnFields["surface"]> = new Set([
  "chat",
  "chat_stream",
  "openai",
  "openai_stream",
  "responses",
  "responses_stream",
]);

/** Refuses with invalid_idempotency_key and idempotency_key_requires_thread_id. */
export function checkIdempotencyKey(key: string | undefined, needsThread: boolean, suffix: string | null): void {
  if (key === undefined) return;
  if (!idempotencyKeyPattern.test(key) || key.includes("{") || key.includes("}"))
    throw new SvcError("invalid_idempotency_key");
  if (needsThread && suffix === null) throw new SvcError("idempotency_key_requires_thread_id");
}
