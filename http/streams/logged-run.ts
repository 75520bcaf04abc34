import { SvcError } from "../../bus/errors.ts";
import { outputFor } from "../../bus/frames/make-output.ts";
import { neverAgain } from "../../bus/frames/openai-error.ts";
import type { Channel } from "../../bus/protocol/channel.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { SubmitTurn, TurnAccepted } from "../../bus/protocol/run.ts";
import { decodeAnswer } from "../../bus/protocol/turn-answer.ts";
import { runOfThread } from "../../storage/tables/runs.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { HttpContext } from "../context.ts";
import { jsonText, type Reply } from "../exchange/reply.ts";
import { channelOf } from "../exchange/sse.ts";
import { namingThread } from "../thread-header.ts";
import { failureOf } from "./logged-output.ts";
import { type FollowedRun, RunFollower } from "./run-follower.ts";

// Answers a repeated request on /v1 from the log of the run that its Idempotency-Key names.

type Logged = Extract<TurnAccepted, { readonly kind: "logged" }>;

/** Marks an answer for which no new run started. */
export const replayedHeader = { "idempotent-replayed": "true" };

/** Returns the whole answer. Refuses with run_not_found if the run was deleted by retention. */
export async function answerAgain(context: HttpContext, turn: SubmitTurn, logged: Logged): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const atEnd: Channel = { writable: true, onWritable: (work) => work(), send: (text, last) => last && resolve(text) };
  const run = await findRun(context, turn, logged);
  follow(context, turn, logged, run, atEnd);
  const { status, body } = decodeAnswer(await promise);
  return named(jsonText(body, status, { ...replayedHeader, ...(status >= 500 && neverAgain) }), turn, logged);
}

/** Returns the answer as a stream. Refuses like `answerAgain`. */
export async function streamAgain(context: HttpContext, turn: SubmitTurn, logged: Logged): Promise<Reply> {
  const run = await findRun(context, turn, logged);
  const reply: Reply = {
    kind: "stream",
    headers: replayedHeader,
    open(stream) {
      const follower = follow(context, turn, logged, run, channelOf(stream));
      stream.onClose(() => follower.close());
    },
  };
  return named(reply, turn, logged);
}

function named(reply: Reply, { principal }: SubmitTurn, { suffix }: Logged): Reply {
  return namingThread(reply, principal.tenant_id, suffix);
}

async function findRun(
  { store }: HttpContext,
  { principal }: SubmitTurn,
  { run_id, suffix }: Logged,
): Promise<FollowedRun> {
  const tenant = store.tenant(principal.tenant_id);
  const thread = await threadBySuffix(tenant, suffix);
  const run = thread && (await runOfThread(tenant, thread.thread_key, run_id));
  if (thread === undefined || run === undefined) throw new SvcError("run_not_found");
  return { thread, run, final: null, failure: failureOf(run) ?? run.status };
}

function follow(
  context: HttpContext,
  turn: SubmitTurn,
  logged: Logged,
  { run }: FollowedRun,
  channel: Channel,
): RunFollower {
  const { response, options } = run.asked;
  const first: SubmitTurn = {
    ...turn,
    run_id: run.run_id,
    thread_suffix: logged.suffix,
    response: response === undefined ? null : { ...response, follows: null },
    ...(options !== undefined && { options: toJsonText(options) }),
  };
  return new RunFollower(context, {
    store: context.store.tenant(turn.principal.tenant_id),
    suffix: logged.suffix,
    firstSeq: run.first_seq ?? 0,
    find: () => findRun(context, turn, logged),
    output: outputFor(first, channel, run.manifest, run.started_at, run.first_seq),
    tellsBegin: false,
  });
}
