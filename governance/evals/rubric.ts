// Rubrics of evaluation items: how the answer of an agent, and the calls that led to it, are scored. Rules about calls can
// only reject. Then one rule about the answer decides, and after it the judge, if the item or its run asks for one.

/** A rubric with values of the right types. */
export interface Rubric {
  readonly tools_called: readonly string[];
  readonly tools_not_called: readonly string[];
  readonly max_tool_calls: number | null;
  readonly max_errors: number | null;
  readonly answer: AnswerRule;
  readonly llm_judge: boolean;
  readonly judge_criteria: string | null;
  readonly judge_threshold: number;
  readonly judge_model: string | null;
  readonly mock: Transcript;
}

/** The one rule about the answer. */
type AnswerRule =
  | { readonly rule: "expect" | "contains"; readonly text: string }
  | { readonly rule: "min_chars"; readonly chars: number }
  | { readonly rule: "nonempty" };

/** The answer of an agent to an item, and its calls. */
export interface Transcript {
  readonly answer: string;
  /** Names of the called tools, in order. */
  readonly tool_calls: readonly string[];
  /** Calls that failed or were denied. */
  readonly tool_errors: number;
}

/** The verdict of a rubric. `rule` is the rule that decided. */
export interface Verdict {
  readonly pass: boolean;
  readonly rule: string;
  /** Why it fails; absent if it passes. */
  readonly reason?: string;
}

/** A rubric that was read, with its problems. */
export interface ReadRubric {
  readonly rubric: Rubric;
  /** Sentences about keys that have no effect or a wrong type. */
  readonly problems: readonly string[];
  /** True if no answer could fail it. */
  readonly isInvalid: boolean;
}

/** The threshold of a judge that the rubric does not set. */
const judgeThresholdDefault = 0.7;
/** Max characters of the texts that a verdict quotes. */
const quotedMax = 200;

const isText = (value: unknown): value is string => typeof value === "string";
const isTextList = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isShare = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= 1;
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";

/** The keys of a rubric, with the check and the name of their types. */
const keys: Readonly<Record<string, readonly [holds: (value: unknown) => boolean, type: string]>> = {
  tools_called: [isTextList, "a list of texts"],
  tools_not_called: [isTextList, "a list of texts"],
  max_tool_calls: [isCount, "a whole number"],
  max_errors: [isCount, "a whole number"],
  expect: [isText, "a text"],
  equals: [isText, "a text"],
  contains: [isText, "a text"],
  min_chars: [isCount, "a whole number"],
  llm_judge: [isBoolean, "a boolean"],
  judge_criteria: [isText, "a text"],
  criteria: [isText, "a text"],
  judge_threshold: [isShare, "a number from 0 to 1"],
  judge_model: [isText, "a text"],
  mock_answer: [isText, "a text"],
  mock_tool_calls: [isTextList, "a list of texts"],
  mock_tool_errors: [isCount, "a whole number"],
};
/** Keys that can reject an answer. */
const rejecting = ["tools_called", "tools_not_called", "max_tool_calls", "max_errors"];
const answerKeys = ["expect", "equals", "contains", "min_chars"];

/** Reads a rubric. Values of a wrong type count as absent. */
export function readRubric(given: Readonly<Record<string, unknown>>): ReadRubric {
  const problems: string[] = [];
  const found: Record<string, unknown> = {};
  let isMistaken = false;
  for (const [key, value] of Object.entries(given)) {
    const known = Object.hasOwn(keys, key) ? keys[key] : undefined;
    if (known === undefined) problems.push(`${JSON.stringify(key)} is no key of a rubric`);
    else if (!known[0](value)) {
      problems.push(`${key} must be ${known[1]}`);
      isMistaken ||= rejecting.includes(key) || answerKeys.includes(key);
    } else found[key] = value;
  }
  const of = <T>(key: string, fallback: T): T => (found[key] as T | undefined) ?? fallback;
  const answers = answerKeys.filter((key) => found[key] !== undefined);
  if (answers.length > 1 && !(answers.length === 2 && found.expect === found.equals))
    problems.push(`only one of ${answers.join(", ")} has an effect: ${answers[0]}`);
  const rubric: Rubric = {
    tools_called: of("tools_called", []),
    tools_not_called: of("tools_not_called", []),
    max_tool_calls: of("max_tool_calls", null),
    max_errors: of("max_errors", null),
    answer: answerRule(found),
    llm_judge: of("llm_judge", false),
    judge_criteria: of("judge_criteria", of<string | null>("criteria", null)),
    judge_threshold: of("judge_threshold", judgeThresholdDefault),
    judge_model: of("judge_model", null),
    mock: {
      answer: of("mock_answer", ""),
      tool_calls: of("mock_tool_calls", []),
      tool_errors: of("mock_tool_errors", 0),
    },
  };
  // A rubric of misspelt keys only would pass every answer that is not empty.
  const isMisspelt = Object.keys(given).length > 0 && Object.keys(found).length === 0;
  const isInvalid = isMistaken || isMisspelt || !mayReject(rubric);
  return { rubric, problems, isInvalid };
}

/** Scores a transcript without the judge. */
export function scoreByRules({ rubric, isInvalid }: ReadRubric, transcript: Transcript): Verdict {
  if (isInvalid)
    return { pass: false, rule: "invalid_rubric", reason: "the rubric has a mistake, or can reject no answer" };
  return scoreCalls(rubric, transcript) ?? scoreAnswer(rubric.answer, transcript.answer);
}

function answerRule(found: Readonly<Record<string, unknown>>): AnswerRule {
  const expected = found.expect ?? found.equals;
  if (expected !== undefined) return { rule: "expect", text: expected as string };
  if (found.contains !== undefined) return { rule: "contains", text: found.contains as string };
  if (found.min_chars !== undefined) return { rule: "min_chars", chars: found.min_chars as number };
  return { rule: "nonempty" };
}

/** True if some transcript fails the rubric. */
function mayReject(rubric: Rubric): boolean {
  const { answer } = rubric;
  const hasCallRule =
    rubric.tools_called.length + rubric.tools_not_called.length > 0 ||
    rubric.max_tool_calls !== null ||
    rubric.max_errors !== null;
  if (hasCallRule || (rubric.llm_judge && rubric.judge_threshold > 0)) return true;
  if (answer.rule === "contains") return answer.text !== "";
  return answer.rule !== "min_chars" || answer.chars > 0;
}

/** Returns the rejection by a rule about calls; null if all hold. */
function scoreCalls(rubric: Rubric, { tool_calls, tool_errors }: Transcript): Verdict | null {
  const called = new Set(tool_calls);
  const missing = rubric.tools_called.find((name) => !called.has(name));
  if (missing !== undefined) return rejected("tools_called", `${quoted(missing)} was not called`);
  const unwanted = rubric.tools_not_called.find((name) => called.has(name));
  if (unwanted !== undefined) return rejected("tools_not_called", `${quoted(unwanted)} was called`);
  const { max_tool_calls: calls, max_errors: errors } = rubric;
  if (calls !== null && tool_calls.length > calls)
    return rejected("max_tool_calls", `${tool_calls.length} calls, and at most ${calls} are allowed`);
  if (errors !== null && tool_errors > errors)
    return rejected("max_errors", `${tool_errors} failed calls, and at most ${errors} are allowed`);
  return null;
}

function scoreAnswer(asked: AnswerRule, answer: string): Verdict {
  switch (asked.rule) {
    case "expect":
      return answer.trim() === asked.text.trim()
        ? passed("expect")
        : rejected("expect", `the answer is not ${quoted(asked.text.trim())}`);
    case "contains":
      return answer.toLowerCase().includes(asked.text.toLowerCase())
        ? passed("contains")
        : rejected("contains", `the answer does not contain ${quoted(asked.text)}`);
    case "min_chars":
      return answer.trim().length >= asked.chars
        ? passed("min_chars")
        : rejected("min_chars", `the answer has ${answer.trim().length} characters, and needs ${asked.chars}`);
    case "nonempty":
      return answer.trim() === "" ? rejected("nonempty", "the answer is empty") : passed("nonempty");
  }
}

function passed(rule: string): Verdict {
  return { pass: true, rule };
}

function rejected(rule: string, reason: string): Verdict {
  return { pass: false, rule, reason };
}

function quoted(text: string): string {
  const cut = text.length > quotedMax ? `${text.slice(0, quotedMax).toWellFormed()}…` : text;
  return JSON.stringify(cut);
}
