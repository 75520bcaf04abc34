// The frames of a stream, as bytes on the wire: `data:` and an envelope `{event, type, data, text}`, structural ones with the
// thread's next sequence number as `id:` (document 1, "SSE stream frames").

/** Ends every stream. */
export const doneMark = "data: [DONE]\n\n";

/** Keeps a silent connection open; a comment, so clients do not see it. */
export const keepAlive = ": keep-alive\n\n";

/**
 * Tells those who pass a conversation on that its past is another one: what they have sent of it no longer holds. It stands among the
 * frames of its topic and goes to no client.
 */
export const rewoundMark = ": rewound\n\n";

/** A frame. `dataJson` and `textJson` are JSON texts; `id` is a sequence number, or -1 for a frame without one. */
function encode(name: string, dataJson: string, textJson: string, id: number): string {
  const line = `data: {"event":"${name}","type":"${name}","data":${dataJson},"text":${textJson}}\n\n`;
  return id < 0 ? line : `id: ${id}\n${line}`;
}

/** Text of the model: the two frames that go with every piece of it. */
export function textFrames(delta: string): string {
  const json = JSON.stringify(delta);
  return (
    encode("session_progress", `{"progress":{"type":"assistant_delta","kind":"text","delta":${json}}}`, '""', -1) +
    encode("text_delta", `{"chunk":{"content":${json}},"delta":${json}}`, json, -1)
  );
}

/** Reasoning of the model, never mixed into the reply. */
export function thinkingFrames(delta: string): string {
  const json = JSON.stringify(delta);
  return (
    encode("session_progress", `{"progress":{"type":"assistant_delta","kind":"thinking","delta":${json}}}`, '""', -1) +
    encode("thinking_delta", `{"chunk":{"content":${json}},"delta":${json}}`, json, -1)
  );
}

export const turnStartedFrame = encode("session_progress", '{"phase":"turn"}', '""', -1);

/** Opens what a live run has said since its last committed event: a client drops uncommitted text that it holds. */
export function turnReplayFrames(text: string, truncated: boolean): string {
  const opening = encode(
    "session_progress",
    `{"phase":"turn","replay":true${truncated ? ',"truncated":true' : ""}}`,
    '""',
    -1,
  );
  return text === "" ? opening : opening + textFrames(text);
}

/** Any other frame; `text` is taken from the data as the specification says. */
export function frame(name: string, data: unknown, id: number): string {
  return encode(name, JSON.stringify(data), JSON.stringify(textOf(data)), id);
}

/** A frame whose data is JSON text already and carries no text. */
export function frameOfJson(name: string, dataJson: string, id: number): string {
  return encode(name, dataJson, '""', id);
}

/** Tells of a failure after the 200 was sent that is not the model's; the message is cut to what a person can read. */
export function errorFrame(message: string): string {
  return errorFrameOf(message, "stream_error");
}

/** The same with another word for what it is. */
export function errorFrameOf(message: string, type: string): string {
  return `event: error\ndata: ${JSON.stringify({ error: { message: message.slice(0, 200), type } })}\n\n`;
}

function textOf(data: unknown): string {
  if (data === null || typeof data !== "object") return "";
  const { chunk, text, delta } = data as { chunk?: { content?: unknown }; text?: unknown; delta?: unknown };
  const found = chunk?.content ?? text ?? delta;
  return typeof found === "string" ? found : "";
}
