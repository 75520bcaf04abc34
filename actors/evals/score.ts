import { cutText } from "../../bus/cut-text.ts";
import type { ReadRubric, Verdict } from "../../governance/evals/rubric.ts";
import type { EvalOutcome, EvalScoreRow, EvalSums } from "../../storage/tables/eval-runs.ts";
import type { ItemEnd } from "./item-run.ts";
import { readJudgement } from "./judge.ts";

/** The score of an item, as clients read it. */
export interface Score {
  readonly item_id: string;
  readonly pass: boolean;
  /** 0 to 1. */
  readonly score: number;
  readonly rule: string;
  readonly reason?: string;
  /** The beginning of the answer. */
  readonly answer?: string;
  readonly error?: string;
  readonly duration_ms: number;
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly cost_usd: number;
  readonly judge_cost_usd: number;
  readonly tool_calls: number;
  readonly tool_errors: number;
  readonly judge_fallback: boolean;
  readonly judge_error: string | null;
}

/** A score, its outcome, and what it adds to the sums of its run. */
export interface Scored {
  readonly outcome: EvalOutcome;
  readonly score: Score;
  readonly added: EvalSums;
}

/** Max characters of an answer in a score; the thread has all of it. */
const answerCharsMax = 2_000;
const errorCharsMax = 1_000;

/** Returns the score of an item that only its rules have judged. */
export function ruleScore(item: EvalScoreRow, end: ItemEnd, { pass, rule, reason }: Verdict): Scored {
  const base = { ...baseOf(item, end), answer: cutText(end.transcript.answer, answerCharsMax) };
  return scored({ ...base, pass, score: pass ? 1 : 0, rule, ...(reason !== undefined && { reason }) });
}

/** Returns the score of an item without an answer. */
export function errorScore(item: EvalScoreRow, error: string, end: ItemEnd | null): Scored {
  const base = { ...baseOf(item, end), error: cutText(error, errorCharsMax) };
  return scored({ ...base, pass: false, score: 0, rule: "error" });
}

/** Returns the score of an item after its judge. Without a judgement the rules decide, which have let the answer pass. */
export function judgedScore(item: EvalScoreRow, answer: ItemEnd, judge: ItemEnd, { rubric }: ReadRubric): Scored {
  const judgement = judge.error === null ? readJudgement(judge.transcript.answer) : null;
  const judge_cost_usd = judge.usage?.cost.total ?? 0;
  const base = {
    ...baseOf(item, answer),
    answer: cutText(answer.transcript.answer, answerCharsMax),
    judge_cost_usd,
  };
  if (judgement === null) {
    const judge_error = cutText(judge.error ?? "the reply of the judge is no judgement", errorCharsMax);
    return scored({ ...base, pass: true, score: 1, rule: rubric.answer.rule, judge_fallback: true, judge_error });
  }
  const { score, reason } = judgement;
  return scored({ ...base, pass: score >= rubric.judge_threshold, score, rule: "llm_judge", reason });
}

type Base = Omit<Score, "pass" | "score" | "rule">;

function baseOf({ item_id }: EvalScoreRow, end: ItemEnd | null): Base {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, cost } = end?.usage ?? {};
  return {
    item_id,
    duration_ms: end?.duration_ms ?? 0,
    tokens_input: input + cacheRead + cacheWrite,
    tokens_output: output,
    cost_usd: cost?.total ?? 0,
    judge_cost_usd: 0,
    tool_calls: end?.transcript.tool_calls.length ?? 0,
    tool_errors: end?.transcript.tool_errors ?? 0,
    judge_fallback: false,
    judge_error: null,
  };
}

function scored(score: Score): Scored {
  const { duration_ms, tokens_input, tokens_output, cost_usd, judge_cost_usd, tool_calls, tool_errors } = score;
  const added = { duration_ms, tokens_input, tokens_output, cost_usd, judge_cost_usd, tool_calls, tool_errors };
  return {
    outcome: score.error !== undefined ? "error" : score.pass ? "pass" : "fail",
    score,
    added: { ...added, judge_fallbacks: score.judge_fallback ? 1 : 0 },
  };
}
