import { bool, int, optionalSeconds, path, text } from "./setting.ts";

/** Settings of skills. */
export const skillSettings = {
  skillsDir: path("SKILLS_DIR", "", "Directory with a folder for each skill of this server; empty for none."),
  skillPublishMinQuality: int(
    "SKILL_PUBLISH_MIN_QUALITY",
    0,
    [0, 100],
    "Minimum quality score of a skill that is published. A tenant may ask for more.",
  ),
  skillPublishBlockOnAdvisory: bool(
    "SKILL_PUBLISH_BLOCK_ON_ADVISORY",
    false,
    "Refuses to publish a skill whose security scan has an advisory finding.",
  ),
  skillPublishRequireEval: bool(
    "SKILL_PUBLISH_REQUIRE_EVAL",
    false,
    "Refuses to publish a skill without an evaluation that succeeded.",
  ),
  skillPublishMinEvalUplift: optionalSeconds(
    "SKILL_PUBLISH_MIN_EVAL_UPLIFT",
    [-100, 100],
    "Minimum improvement in points that an evaluation must show; unset for none.",
    { defaultWords: "unset" },
  ),
  skillEvalModel: text(
    "SKILL_EVAL_MODEL",
    "",
    "Model route that answers the scenarios of evaluations of skills; empty for the default model.",
  ),
  skillEvalJudgeModel: text(
    "SKILL_EVAL_JUDGE_MODEL",
    "",
    "Model route that judges those answers; empty for the one that wrote them.",
  ),
  skillImproveModel: text(
    "SKILL_IMPROVE_MODEL",
    "",
    "Model route that rewrites skills from accepted feedback, and writes scenarios; empty for the default model.",
  ),
  skillEvalMaxScenarios: int(
    "SKILL_EVAL_MAX_SCENARIOS",
    10,
    [1, 10],
    "Max scenarios of an evaluation of a skill. Each costs four model calls.",
  ),
  skillEvalMaxTokens: int(
    "SKILL_EVAL_MAX_TOKENS",
    2_048,
    [64, 32_000],
    "Max output tokens of a model call of an evaluation of a skill.",
  ),
  skillImproveMaxTokens: int(
    "SKILL_IMPROVE_MAX_TOKENS",
    8_192,
    [256, 64_000],
    "Max output tokens of a model call that rewrites a skill.",
  ),
  skillJobDeadlineSeconds: int(
    "SKILL_JOB_DEADLINE_SECONDS",
    1_200,
    [1, 86_400],
    "Max time of an evaluation or a rewrite of a skill, after which it fails.",
  ),
  skillJobsMaxQueued: int(
    "SKILL_JOBS_MAX_QUEUED",
    20,
    [1, 10_000],
    "Max evaluations and rewrites of skills of one tenant that have not ended.",
  ),
  skillJobsDailyLimit: int(
    "SKILL_JOBS_DAILY_LIMIT",
    200,
    [1, 100_000],
    "Max evaluations and rewrites of skills that one tenant begins in a day of UTC.",
  ),
};
