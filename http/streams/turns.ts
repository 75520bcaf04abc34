import { createHash } from "node:crypto";
import { type Address, durableSuffix, runAddress, threadAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { entryPointOf } from "../../bus/frames/entry-points.ts";
import { outputFor } from "../../bus/frames/make-output.ts";
import { neverAgain } from "../../bus/frames/openai-error.ts";
import type { Channel, ChannelRef } from "../../bus/protocol/channel.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import type { AcceptedRun, SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import { decodeAnswer, encodeAnswer } from "../../bus/protocol/turn-answer.ts";
import { unheardTurn } from "../../bus/protocol/unheard-turn.ts";
import { admitAnonymousTurn } from "../../governance/auth/anonymous.ts";
import { leanMessages } from "../client-messages.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import { namingDropped } from "../dropped-parts.ts";
import { EarlyListener } from "../early-listener.ts";
import type { Exchange } from "../engines/exchange.ts";
import { json, jsonText, type Reply } from "../exchange/reply.ts";
import type { EventStream } from "../exchange/sse.ts";
import type { RouteRequest } from "../route.ts";
import { type Awaited, answerOfRun, isAwaited, streamOfRun } from "./awaited-run.ts";
import { answerAgain, replayedHeader, streamAgain } from "./logged-run.ts";
import { acceptedRunStream, type EarlyIn } from "./run-stream.ts";

// A turn on its HTTP thread. It opens a channel, asks the run's actor to start, and passes the channel's text to the client. Text that
// arrives before the acceptance is buffered; text of a refused turn is dropped.

/** The fields of a turn that its route sets; all other fields are the same for all routes. */
export type TurnFields = Omit<SubmitTurn, "run_id" | "principal" | "request_id" | "idempotency" | "lease" | "channel">;

/**
 * Max asks with the same run id when a deadline leaves the outcome unknown. Before the acceptance, screening may ask a decider and then a
 * model, for 20 seconds each.
 */
const submitAttempts = 6;
const submitDeadlineMs = 10_000;
const idempotencyKeyPattern = /^(?=.{1,255}$)[\x21-\x7e]+$/;

/** The parts of a request that a turn needs. */
export type TurnRequest = Pick<
  RouteRequest<unknown, unknown, unknown>,
  "principal" | "rawBody" | "lease" | "requestId"
> & {
  readonly exchange: Pick<Exchange, "head" | "onAborted"> & Partial<Pick<Exchange, "trace">>;
};

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

/** Runs a turn and returns its answer, for a route that builds its own body from it. */
export async function endOfTurn(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<{ readonly status: number; readonly body: string }> {
  const turn = new Turn(request, fields, context);
  await turn.submit();
  return decodeAnswer(await turn.answer());
}

/** A turn that was not refused. */
export interface StartedTurn {
  /** The id of its run. */
  readonly run_id: string;
  readonly accepted: TurnAccepted;
  /** Resolves at the end of a turn that is not streamed. Never settles if the client disconnects. */
  answer(): Promise<string>;
  /** Passes the output of the turn on. */
  streamTo(stream: TurnStream): void;
}

/** The part of an event stream that a turn writes to. */
export type TurnStream = Pick<EventStream, "onClose" | "write" | "end">;

/** Starts a turn, for a route that decides by its acceptance how to answer. */
export async function startTurn(
  request: RouteRequest<unknown, unknown, unknown>,
  fields: TurnFields,
  context: HttpContext,
): Promise<StartedTurn> {
  const turn = new Turn(request, fields, context);
  const accepted = await turn.submit();
  return {
    run_id: turn.asked.run_id,
    accepted,
    answer: () => turn.answer(),
    streamTo: (stream) => turn.streamTo(stream),
  };
}

/**
 * Runs a turn and passes on its text as it arrives; a durable run sends its answer alone. A disconnect of the client stops a run
 * without a thread, whose answer still arrives. Otherwise the promise never settles after a disconnect.
 */
export async function followTurn(
  request: TurnRequest,
  fields: TurnFields,
  context: HttpContext,
  onText: (text: string) => void,
): Promise<void> {
  const turn = new Turn(request, fields, context, fields.thread_suffix === null);
  const accepted = await turn.submit();
  const awaited = turn.awaited(accepted);
  if (awaited === null) return turn.follow(onText);
  const { status, body } = await answerOfRun(context, awaited, (work) => request.exchange.onAborted(work));
  onText(encodeAnswer(status, body));
}

/** Starts a turn as a durable run in the background. */
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

/** Returns the message parts that the turn left out; undefined if none. */
function droppedOf(accepted: TurnAccepted): readonly string[] | undefined {
  return accepted.kind === "started" || accepted.kind === "accepted" ? accepted.dropped : undefined;
}

/**
 * Starts a durable run without a conversation and without a waiting client. `bytes` is the approximate size of the message on the bus. If
 * the outcome is unknown, asks again with the same id.
 */
export async function acceptTurn(
  asked: Omit<Parameters<typeof unheardTurn>[0], "run_id" | "thread_suffix">,
  bytes: number,
  { bus, env }: Pick<HttpContext, "bus" | "env">,
): Promise<{ readonly resume_token: string; readonly replayed: boolean }> {
  const turn = unheardTurn({ ...asked, run_id: orderedId(env), thread_suffix: null }, bus.node);
  const accepted = await submitTurn(bus, runAddress(turn.principal.tenant_id, null, turn.run_id), turn, bytes);
  if (accepted.kind === "accepted") return { resume_token: accepted.run.resume_token, replayed: accepted.replayed };
  // The answer stored with its key is the one that POST /chat would have returned.
  if (accepted.kind !== "answer") throw new Error(`the acceptance of a durable run was answered with ${accepted.kind}`);
  return { resume_token: (JSON.parse(accepted.body) as AcceptedRun).resume_token, replayed: true };
}

/** Asks the actor to start a turn, and again with the same id if the outcome is unknown. */
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

/**
 * Refuses with shutting_down a request that starts a run. Checked again here, because the server may have begun to stop while the body
 * arrived.
 */
export function admitStart({ closing }: Pick<HttpContext, "closing">): void {
  if (closing()) throw new SvcError("shutting_down");
}

type Accepted = Extract<TurnAccepted, { readonly kind: "accepted" }>;

class Turn implements LiveTurn {
  slot = -1;
  readonly #context: HttpContext;
  #submit: SubmitTurn;
  readonly #address: Address<"run">;
  #node: NodeId;
  readonly #bytes: number;
  /** Text from the channel that was not sent yet. */
  #waiting = "";
  #over = false;
  #accepted = false;
  /** True if the client disconnected before the turn was accepted. */
  #leftEarly = false;
  #stream: TurnStream | null = null;
  readonly #hearsEnd: boolean;
  #onAnswer: ((text: string) => void) | null = null;
  /** Buffers the thread's frames of a turn that is likely to become a durable run; null otherwise. */
  readonly #early: EarlyListener | null;

  /** `hearsEnd` is true if the answer of a run without a thread is awaited after the client has disconnected. */
  constructor(request: TurnRequest, fields: TurnFields, context: HttpContext, hearsEnd = false) {
    admitStart(context);
    this.#hearsEnd = hearsEnd;
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
      ...(context.tracer !== null && { trace: request.exchange.trace ?? null }),
      idempotency: idempotencyOf(request, fields),
      lease: fields.thread_suffix === null ? null : request.lease,
      channel,
    };
    this.#address = runAddress(request.principal.tenant_id, fields.thread_suffix, this.#submit.run_id);
    this.#node = context.bus.nodeOf(this.#address);
    context.turns.add(this);
    const { tenant_id } = request.principal;
    const suffix = fields.thread_suffix ?? durableSuffix(this.#submit.run_id);
    const listens = entryPointOf(fields.surface).keepsStream && context.durableAgents.has(tenant_id, fields.manifest);
    this.#early = listens ? new EarlyListener(context.fanOut, threadAddress(tenant_id, suffix)) : null;
    request.exchange.onAborted(() => {
      this.#early?.leave();
      this.#clientGone();
    });
  }

  /** Resolves once the turn was accepted. */
  async submit(): Promise<TurnAccepted> {
    try {
      const accepted = await submitTurn(this.#context.bus, this.#address, this.#submit, this.#bytes);
      this.#accepted = true;
      // The run may be where its thread was placed before.
      this.#node = this.#context.bus.nodeOf(this.#address);
      if (accepted.kind !== "accepted" || accepted.begun_at === undefined) this.#early?.leave();
      this.#rememberHow(accepted);
      // The turn may last for days, and the run keeps its own copy of the request.
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

  /** Records whether the turn became a durable run, so that the next stream of the agent listens early, or does not. */
  #rememberHow({ kind }: TurnAccepted): void {
    const { surface, principal, manifest } = this.#submit;
    const isDurable = kind === "accepted";
    if (entryPointOf(surface).keepsStream && isDurable !== (this.#early !== null))
      this.#context.durableAgents.note(principal.tenant_id, manifest, isDurable);
  }

  /** Returns the early listener of the durable run; null if there is none. */
  earlyIn({ begun_at }: Accepted): EarlyIn | null {
    return this.#early === null || begun_at === undefined ? null : { listener: this.#early, begun_at };
  }

  /** The request of the turn. */
  get asked(): SubmitTurn {
    return this.#submit;
  }

  /** Returns the durable run that the client waits for without a token; null for other turns. */
  awaited(accepted: TurnAccepted): Awaited | null {
    if (accepted.kind !== "accepted" || !isAwaited(this.#submit)) return null;
    // The output is made from the log, not from the frames of the thread.
    this.#early?.leave();
    const { run, replayed, wait_ms = 0 } = accepted;
    return { turn: this.#submit, run, replayed, wait_ms };
  }

  /** Returns the whole answer of a turn that is not streamed. Never settles if the client disconnects. */
  answer(): Promise<string> {
    return new Promise((resolve) => {
      this.#onAnswer = resolve;
      if (this.#over && !this.#leftEarly) resolve(this.#waiting);
    });
  }

  /** Passes on text as it arrives. Resolves after the last one. */
  follow(onText: (text: string) => void): Promise<void> {
    return new Promise((resolve) => {
      const end = (rest: string): void => {
        onText(rest);
        resolve();
      };
      this.streamTo({ onClose() {}, write: onText, end });
    });
  }

  streamTo(stream: TurnStream): void {
    this.#stream = stream;
    stream.onClose(() => this.#clientGone());
    if (this.#over) stream.end(this.#waiting);
    else stream.write(this.#waiting);
    this.#waiting = "";
  }

  /** Called when a node is lost; fails the turn if that node runs it. */
  lost(node: NodeId): void {
    if (node === this.#node) this.fail(new SvcError("actor_lost"));
  }

  /** Ends the turn with an error in the form that the client requested. */
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

  /**
   * Handles a disconnect. A run on a thread continues; a run without a thread is stopped, unless its idempotency key allows a repeated
   * request.
   */
  #clientGone(): void {
    if (this.#over) return;
    // Before the acceptance the actor has no run to stop.
    if (!this.#accepted) {
      this.#leftEarly = true;
      return;
    }
    if (!this.#hearsEnd) {
      this.#over = true;
      this.#close();
    }
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
 * Returns the fields of an accepted turn that are still needed. A `started` run ends with its own copy of the request; the output of a
 * durable run is made here.
 */
function lean({ options, ...turn }: SubmitTurn, isStarted: boolean): SubmitTurn {
  const { response } = turn;
  const rest = { ...turn, messages: [], template_args: [] };
  if (!isStarted) return { ...rest, ...(options !== undefined && { options }) };
  return { ...rest, response: response && { ...response, instructions: null, metadata: {} } };
}

/**
 * Returns the client's key and the fingerprint that it binds: the route and the raw body, and on /v1/chat/completions also the thread,
 * which a header may name.
 */
function idempotencyOf(
  { exchange, rawBody }: TurnRequest,
  { surface, thread_suffix }: TurnFields,
): SubmitTurn["idempotency"] {
  const key = exchange.head.headers["idempotency-key"];
  // Other routes ignore the header.
  if (key === undefined || entryPointOf(surface).keyPlace === null) return null;
  const isCompletion = entryPointOf(surface).resendsHistory;
  const place = isCompletion ? `${surface} ${JSON.stringify(thread_suffix)}` : surface;
  return { key, fingerprint: createHash("sha256").update(`${place}\n`).update(rawBody).digest("hex") };
}

/** Refuses with invalid_idempotency_key and idempotency_key_requires_thread_id. */
export function checkIdempotencyKey(key: string | undefined, needsThread: boolean, suffix: string | null): void {
  if (key === undefined) return;
  if (!idempotencyKeyPattern.test(key) || key.includes("{") || key.includes("}"))
    throw new SvcError("invalid_idempotency_key");
  if (needsThread && suffix === null) throw new SvcError("idempotency_key_requires_thread_id");
}
