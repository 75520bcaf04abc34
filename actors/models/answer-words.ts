import type { AnswerSchema } from "../../manifests/answer-schema.ts";

/** A correction with the schema in words: model servers ignore what they do not know of a request, `response_format` too. */
export function correctionWords(problem: string, schema: AnswerSchema): string {
  return `Your last answer was not taken: ${problem}. Give it again. ${answerWords(schema)}`;
}

/** What a model is told that cannot be given a schema for its answer. */
export function answerWords({ json }: AnswerSchema): string {
  return `When you give your answer, give it as one JSON object that fits this JSON Schema, with nothing before or after it:\n${json}`;
}
