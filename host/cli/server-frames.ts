import type { ResponseControl, ResponseHandler } from "../../governance/egress/connection.ts";
import { Egress } from "../../governance/egress/egress.ts";
import { readTarget } from "../../governance/egress/target.ts";
import type { ServerAnswer } from "../../plugins/command.ts";
import { noAnswer, type ServerRequest, sentHeaders } from "./server-call.ts";

/** A frame of a stream. */
export interface StreamFrame {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** The `id:` of the frame; null if it has none. */
  readonly id: number | null;
}

/** How a stream ended. `refused`: the response is not a stream; `lost`: the connection broke. */
export type StreamEnd =
  | { readonly kind: "done" }
  | { readonly kind: "refused"; readonly answer: ServerAnswer }
  | { readonly kind: "no_answer"; readonly message: string }
  | { readonly kind: "lost" }
  | { readonly kind: "closed" };

/** A stream that is being read. */
export interface OpenStream {
  readonly ended: Promise<StreamEnd>;
  /** Stops reading; the stream ends as `closed`. */
  close(): void;
}

/** The server sends a keep-alive every 15 seconds. */
const silenceMs = 120_000;
/** Max characters of one frame, and of a response that is not a stream. */
const charactersMax = 256 * 1024 * 1024;

/** Requests an event stream and passes on its frames. */
export function openFrames(request: ServerRequest, onFrame: (frame: StreamFrame) => void): OpenStream {
  const { method, url, key, body, headers = [] } = request;
  const egress = new Egress("operator");
  const { promise, resolve } = Promise.withResolvers<StreamEnd>();
  const decoder = new TextDecoder();
  let control: ResponseControl | null = null;
  let status = 0;
  let isStream = false;
  let text = "";
  const end = (how: StreamEnd): void => {
    resolve(how);
    void egress.close();
  };
  const take = (piece: string): void => {
    text += piece;
    if (text.length > charactersMax) end({ kind: "lost" });
    if (text.length > charactersMax || !isStream) return;
    const frames = text.split("\n\n");
    text = frames.pop() ?? "";
    for (const each of frames) {
      const read = readFrame(each);
      if (read === "done") end({ kind: "done" });
      else if (read !== null) onFrame(read);
    }
  };
  const handler: ResponseHandler = {
    onRequestStart(given) {
      control = given;
    },
    onResponseStart(head) {
      status = head.status;
      isStream = status === 200 && (head.header("content-type") ?? "").startsWith("text/event-stream");
    },
    onResponseData: (piece) => take(decoder.decode(piece, { stream: true })),
    onResponseEnd: () => end(isStream ? { kind: "lost" } : { kind: "refused", answer: { status, body: text } }),
    onResponseError: (error) =>
      end(status === 0 ? { kind: "no_answer", message: noAnswer(url, error).message } : { kind: "lost" }),
  };
  const sent = body === null ? null : JSON.stringify(body);
  const all = [...sentHeaders(key, sent !== null), ...headers];
  egress.dispatch(readTarget(url), { method, headers: all, body: sent, silenceMs }, handler);
  return {
    ended: promise,
    close() {
      resolve({ kind: "closed" });
      control?.abort();
      void egress.close();
    },
  };
}

/** Parses the lines of a frame; null for a comment or a malformed frame. */
function readFrame(lines: string): StreamFrame | "done" | null {
  let event = "";
  let data = "";
  let id: number | null = null;
  for (const line of lines.split("\n")) {
    if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = Number(line.slice(4));
  }
  if (data === "[DONE]") return "done";
  if (data === "") return null;
  try {
    const json = JSON.parse(data) as { event?: unknown; data?: StreamFrame["data"]; error?: StreamFrame["data"] };
    if (event === "error") return { name: "error", data: json.error ?? {}, id };
    return { name: String(json.event), data: json.data ?? {}, id };
  } catch {
    return null;
  }
}
