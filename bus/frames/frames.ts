// Frames of a stream in their wire form: `data:` and an envelope `{event, type, data, text}`. Structural frames also
// have the thread's next sequence number as `id:` (document 1, "SSE stream frames").

/** Last text of every stream. */
export const doneMark = "data: [DONE]\n\n";

/** Keeps a silent connection open; an SSE comment, which clients ignore. */
export const keepAlive = ": keep-alive\n\n";

/**
 * Tells forwarders of a thread that its history was rewound, so that frames they have sent are invalid. It is part of
 * the topic's text, but is not sent to clients.
 */
export const rewoundMark = ": rewound\n\n";

/**
 * Encodes a frame. `dataJson` and `textJson` are JSON texts; `id` is a sequence number, or -1 for a frame without one.
 */
function encode(name: string, dataJson: string, textJson: string, id: number): string {
  const line = `data: {"event":"${name}","type":"${name}","data":${dataJson},"text":${textJson}}\n\n`;
  return id < 0 ? line : `id: ${id}\n${line}`;
}

/** Returns the two frames of a piece of model text. */
export function textFrames(delta: string): string {
  const json = JSON.stringify(delta);
  return (
    encode("session_progress", `{"progress":{"type":"assistant_delta","kind":"text","delta":${json}}}`, '""', -1) +
    encode("text_delta", `{"chunk":{"content":${json}},"delta":${json}}`, json, -1)
  );
}

/** Returns the two frames of a piece of model reasoning, which never mixes with the reply. */
export function thinkingFrames(delta: string): string {
  const json = JSON.stringify(delta);
  return (
    encode("session_progress", `{"progress":{"type":"assistant_delta","kind":"thinking","delta":${json}}}`, '""', -1) +
    encode("thinking_delta", `{"chunk":{"content":${json}},"delta":${json}}`, json, -1)
  );
}

export const turnStartedFrame = encode("session_progress", '{"phase":"turn"}', '""', -1);

/**
 * Returns the frames that replay a live run's text since its last committed event. A client discards its own
 * uncommitted text first.
 */
export function turnReplayFrames(text: string, truncated: boolean): string {
  const opening = encode(
    "session_progress",
    `{"phase":"turn","replay":true${truncated ? ',"truncated":true' : ""}}`,
    '""',
    -1,
  );
  return text === "" ? opening : opening + textFrames(text);
}

/** Returns any other frame; `text` is derived from the data as the specification says. */
export function frame(name: string, data: unknown, id: number): string {
  return encode(name, JSON.stringify(data), JSON.stringify(textOf(data)), id);
}

/** Returns a frame whose data is already JSON text, with an empty `text`. */
export function frameOfJson(name: string, dataJson: string, id: number): string {
  return encode(name, dataJson, '""', id);
}

/** Returns the frame of a failure that is not the model's, after the 200 was sent. The message is truncated. */
export function errorFrame(message: string): string {
  return errorFrameOf(message, "stream_error");
}

/** Returns the same frame with another type. */
export function errorFrameOf(message: string, type: string): string {
  return `event: error\ndata: ${JSON.stringify({ error: { message: message.slice(0, 200), type } })}\n\n`;
}

function textOf(data: unknown): string {
  if (data === null || typeof data !== "object") return "";
  const { chunk, text, delta } = data as { chunk?: { content?: unknown }; text?: unknown; delta?: unknown };
  const found = chunk?.content ?? text ?? delta;
  return typeof found === "string" ? found : "";
}
