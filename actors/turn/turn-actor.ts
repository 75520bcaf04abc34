import { SvcError } from "../../bus/errors.ts";
import { outputFor } from "../../bus/frames/make-output.ts";
import type { SubmitTurn, TurnAccepted } from "../../bus/protocol/thread.ts";
import { requestMs } from "../../storage/store/store.ts";
import { releaseKeyOp } from "../../storage/tables/idempotency.ts";
import { admitCaller, admitMaxTokens, admitModel } from "../run/admission.ts";
import { contextMessage } from "../run/context/message.ts";
import { turnStartOf } from "../run/context/working-set.ts";
import { claimOps, earlierAnswer, keyScope, settleOps, storedAnswer } from "../run/idempotency.ts";
import { takeMessages } from "../run/intake.ts";
import type { PatternDeps } from "../run/pattern.ts";
import { Run } from "../run/run.ts";
import { statelessJournal } from "../run/stateless-journal.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";

interface TurnState {
  run: Run | null;
  runId: string;
}

/** Owns one turn without a thread: nothing is kept of it, and it ends when its client leaves (decision 32). */
export const turnActor = defineActor<"turn", TurnState, PatternDeps>({
  kind: "turn",
  mailboxLimit: 8,
  interleaves: ["abort"],
  reserved: ["abort"],
  passivateAfterMs: 10_000,
  load: () => ({ run: null, runId: "" }),
  idle: (state) => state.run === null,
  crashed: (state) => state.run?.abort("worker_lost"),

  on: {
    submit: submitStateless,
    abort(state, { reason }) {
      state.run?.abort(reason);
    },
  },
});

async function submitStateless(
  state: TurnState,
  turn: SubmitTurn,
  { deps, env, bus }: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  if (state.runId === turn.run_id) return { kind: "started" };
  const agent = await admitCaller(turn, deps);
  const store = deps.store.tenant(turn.principal.tenant_id);
  const earlier = await earlierAnswer(store, turn, env.now());
  if (earlier) return storedAnswer(earlier.answer);
  const routes = admitModel(turn, agent, deps);
  const intake = takeMessages(turn, agent);
  if (intake.droppedParts.length > 0)
    deps.log.warn({ request_id: turn.request_id, parts: intake.droppedParts }, "message parts dropped");

  const startedAt = env.now();
  const claims = claimOps(store, turn, {
    owner: deps.owner,
    now: startedAt,
    ttlSeconds: deps.settings.idempotencyTtlSeconds,
    fromSeq: 0,
  });
  if (claims.length > 0) await claim(store.write(claims, requestMs));
  const branch = intake.entries.map((entry) =>
    contextMessage({ role: entry.role ?? "user", content: entry.content, name: entry.extra?.name }),
  );
  const run = new Run(
    {
      run_id: turn.run_id,
      request_id: turn.request_id,
      surface: turn.surface,
      principal: turn.principal,
      agent,
      routes,
      temperature: turn.temperature ?? agent.model.temperature,
      max_tokens: admitMaxTokens(turn, agent),
      thread_suffix: null,
      branch,
      turnStart: turnStartOf(branch, 0),
      nudge: null,
      userText: intake.userText,
      startedAt,
      origin: null,
      settle: (outcome) => settleOps(store, turn, outcome, { from: 0, to: 0 }),
    },
    statelessJournal(deps.store),
    outputFor(turn, bus.channel(turn.channel), agent.name, startedAt),
    deps,
  );
  state.run = run;
  state.runId = turn.run_id;
  void run.ended.then((written) => {
    state.run = null;
    // The answer was not kept, so the key must not say that it was: the request can be sent again.
    if (!written && turn.idempotency !== null)
      void store.write([releaseKeyOp(store, keyScope(turn, turn.idempotency.key), turn.run_id)]).catch(() => {});
  });
  return { kind: "started" };
}

async function claim(write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    const refusal = SvcError.from(error);
    throw refusal.code === "conflict" ? new SvcError("idempotency_in_progress") : refusal;
  }
}
