/**
 * How providers say that a prompt is longer than their model takes. There is no code that all of them have: OpenAI's is
 * `context_length_exceeded`, Anthropic has words alone, others repeat the words of either.
 */
const words = [
  /context_length_exceeded/,
  /prompt is too long/i,
  /maximum context length/i,
  /(?:exceeds?|exceeded|larger than|longer than) (?:the |this )?(?:model'?s? |available |maximum )*(?:context|input)[ -](?:window|length|size|limit)/i,
  /input (?:is too long|length and `max_tokens` exceed)/i,
  /input token count .{0,40}exceeds the maximum/i,
] as const;

/** Whether an answer of this status, with this body, says so. */
export function isOverflow(status: number, body: string): boolean {
  if (status === 413) return true;
  return (status === 400 || status === 422) && words.some((pattern) => pattern.test(body));
}
