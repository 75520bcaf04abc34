import { splitThreadId } from "../../bus/address.ts";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { entryPointOf } from "../../bus/frames/entry-points.ts";
import { outputFor } from "../../bus/frames/make-output.ts";
import { neverAgain } from "../../bus/frames/openai-error.ts";
import type { Channel } from "../../bus/protocol/channel.ts";
import type { AcceptedRun, SubmitTurn } from "../../bus/protocol/run.ts";
import { decodeAnswer } from "../../bus/protocol/turn-answer.ts";
import { threadByKey } from "../../storage/tables/threads.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import { type JsonReply, jsonText, type Reply } from "../exchange/reply.ts";
import { channelOf } from "../exchange/sse.ts";
import { durableRun } from "../run-record.ts";
import { namingThread } from "../thread-header.ts";
import { replayedHeader } from "./logged-run.ts";
import { type FollowedRun, RunFollower } from "./run-follower.ts";

// A durable run whose client waits for its end, as on the OpenAI protocol, which knows no resume token. The run is independent of the
// request: it continues when the client disconnects or its maximum wait is over.

/** True if the client of a turn waits for the end of its durable run. */
export function isAwaited({ surface }: Pick<SubmitTurn, "surface">): boolean {
  return entryPointOf(surface).awaitsDurable;
}

/** The turn whose run the client waits for. */
export interface Awaited {
  /** The original request; its messages are not needed. */
  readonly turn: SubmitTurn;
  readonly run: AcceptedRun;
  /** True if an earlier request with the same idempotency key started the run. */
  readonly replayed: boolean;
  readonly wait_ms: number;
}

/**
 * Returns the answer of a durable run when it ends. `onGone` registers a callback for the client's disconnect. Rejects with errors of the
 * store.
 */
export async function answerOfRun(
  context: HttpContext,
  awaited: Awaited,
  onGone: (work: () => void) => void,
): Promise<JsonReply> {
  const found = await findRun(context, awaited);
  const { promise, resolve } = Promise.withResolvers<string>();
  const atEnd: Channel = { writable: true, onWritable: (work) => work(), send: (text, last) => last && resolve(text) };
  const awaiting = new AwaitedRun(context, awaited, found, atEnd);
  onGone(() => awaiting.close());
  const { status, body } = decodeAnswer(await promise);
  return named(jsonText(body, status, status < 400 ? undefined : neverAgain), awaited);
}

/** Returns the stream of a durable run. Rejects with errors of the store. */
export async function streamOfRun(context: HttpContext, awaited: Awaited): Promise<Reply> {
  const found = await findRun(context, awaited);
  const reply: Reply = {
    kind: "stream",
    open(stream) {
      const awaiting = new AwaitedRun(context, awaited, found, channelOf(stream));
      stream.onClose(() => awaiting.close());
    },
  };
  return named(reply, awaited);
}

/** Adds the replay mark and the thread of the first request, if the request is a repeated one. */
function named<R extends Reply>(reply: R, { run, replayed, turn }: Awaited): R {
  if (!replayed) return reply;
  const suffix = run.thread_id === null ? null : splitThreadId(run.thread_id).suffix;
  const headers = { ...reply.headers, ...replayedHeader };
  return namingThread({ ...reply, headers }, turn.principal.tenant_id, suffix);
}

/** Refuses with run_not_found. */
async function findRun({ store }: HttpContext, { turn, run }: Awaited): Promise<FollowedRun> {
  const tenant = store.tenant(turn.principal.tenant_id);
  const found = await durableRun(tenant, run.resume_token);
  const key = found?.run.thread_key ?? null;
  const thread = key === null ? undefined : await threadByKey(tenant, key);
  if (found === null || thread === undefined) throw new SvcError("run_not_found");
  const { final, error } = found.durable;
  return { run: found.run, thread, final, failure: error?.replace(/^(model|tool)_failed: /, "") ?? found.run.status };
}

/** A client that waits for a durable run. It gets the same output as from a turn. */
class AwaitedRun implements LiveTurn {
  slot = -1;
  readonly #context: HttpContext;
  readonly #follower: RunFollower;
  readonly #limit: Timer;

  constructor(context: HttpContext, awaited: Awaited, { run, thread }: FollowedRun, client: Channel) {
    const { turn, wait_ms } = awaited;
    this.#context = context;
    context.turns.add(this);
    this.#limit = context.env.timer(wait_ms, () => this.fail(new SvcError("run_goes_on", { subject: run.run_id })));
    const channel: Channel = {
      get writable() {
        return client.writable;
      },
      onWritable: (work) => client.onWritable(work),
      send: (text, last) => {
        if (last) this.close();
        client.send(text, last);
      },
    };
    this.#follower = new RunFollower(context, {
      store: context.store.tenant(turn.principal.tenant_id),
      suffix: thread.suffix,
      firstSeq: run.first_seq ?? 0,
      find: () => findRun(context, awaited),
      // A repeated request has another run id and, for a first response, another thread; the output uses those of the run.
      output: outputFor(
        { ...turn, run_id: run.run_id, ...(turn.response !== null && { thread_suffix: thread.suffix }) },
        channel,
        run.manifest,
        run.started_at,
        run.first_seq,
      ),
      tellsBegin: false,
    });
  }

  /** Another node resumes the run, so a lost node does not end the wait. */
  lost(): void {}

  fail(error: SvcError): void {
    this.#follower.fail(error);
  }

  close(): void {
    this.#limit.cancel();
    this.#follower.close();
    this.#context.turns.delete(this);
  }
}
