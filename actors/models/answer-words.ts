import type { AnswerSchema } from "../../manifests/answer-schema.ts";

/** What a model is told that cannot be given a schema for its answer. */
export function answerWords({ json }: AnswerSchema): string {
  return `When you give your answer, give it as one JSON object that fits this JSON Schema, with nothing before or after it:\n${json}`;
}
