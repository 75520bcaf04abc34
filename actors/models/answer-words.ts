import type { AnswerSchema } from "../../manifests/answer-schema.ts";

/** Returns a correction with the schema in words, because some model servers ignore unknown fields such as `response_format`. */
export function correctionWords(problem: string, schema: AnswerSchema): string {
  return `Your last answer was not taken: ${problem}. Give it again. ${answerWords(schema)}`;
}

/** Returns the instructions for a model that cannot receive a schema. */
export function answerWords({ json }: AnswerSchema): string {
  return `When you give your answer, give it as one JSON object that fits this JSON Schema, with nothing before or after it:\n${json}`;
}
