import type { ResponseHandler } from "../../../governance/egress/connection.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { readTarget } from "../../../governance/egress/target.ts";

/** A response; null if there was none because the server was killed. */
export type Answer = { readonly status: number; readonly json: Readonly<Record<string, unknown>> } | null;

/** A frame of an event stream. */
export interface StreamFrame {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const silenceMs = 30_000;

/** A client that tolerates the death of the server during any request. */
export class ChaosClient {
  /** Returns the server's current URL. */
  readonly #url: () => string;
  readonly #egress = new Egress("operator");

  constructor(url: () => string) {
    this.#url = url;
  }

  async get(path: string, key: string): Promise<Answer> {
    return this.#call("GET", path, key, null, []);
  }

  async post(path: string, key: string, body: object | null, headers: readonly string[] = []): Promise<Answer> {
    return this.#call("POST", path, key, body === null ? null : JSON.stringify(body), headers);
  }

  /** Reads a stream until it ends or the connection breaks. Returns true if it has ended as a stream does that was accepted. */
  async listen(path: string, key: string, onFrame: (frame: StreamFrame) => void): Promise<boolean> {
    let rest = "";
    const status = await this.#send(
      "GET",
      path,
      ["authorization", `Bearer ${key}`, "accept", "text/event-stream"],
      null,
      (piece) => {
        const blocks = (rest + piece).split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
          const frame = readFrame(block);
          if (frame !== null) onFrame(frame);
        }
      },
    );
    return status === 200;
  }

  close(): Promise<void> {
    return this.#egress.close();
  }

  async #call(
    method: "GET" | "POST",
    path: string,
    key: string,
    body: string | null,
    more: readonly string[],
  ): Promise<Answer> {
    const headers = ["authorization", `Bearer ${key}`, "content-type", "application/json", ...more];
    let text = "";
    const status = await this.#send(method, path, headers, body, (piece) => {
      text += piece;
    });
    if (status === null) return null;
    try {
      return { status, json: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>) };
    } catch {
      return null;
    }
  }

  /** Returns the status after the complete response; null if there was none. */
  #send(
    method: "GET" | "POST",
    path: string,
    headers: string[],
    body: string | null,
    onText: (piece: string) => void,
  ): Promise<number | null> {
    return new Promise((resolve) => {
      let status = 0;
      const decoder = new TextDecoder();
      const handler: ResponseHandler = {
        onRequestStart() {},
        onResponseStart: (head) => {
          status = head.status;
        },
        onResponseData: (piece) => onText(decoder.decode(piece, { stream: true })),
        onResponseEnd: () => resolve(status),
        onResponseError: () => resolve(null),
      };
      try {
        // Use a new connection: a kept one may lead to the killed server.
        const own = [...headers, "connection", "close"];
        this.#egress.dispatch(readTarget(this.#url() + path), { method, headers: own, body, silenceMs }, handler);
      } catch {
        resolve(null);
      }
    });
  }
}

function readFrame(block: string): StreamFrame | null {
  const data = block
    .split("\n")
    .flatMap((line) => (line.startsWith("data: ") ? [line.slice(6)] : []))
    .join("\n");
  if (data === "" || data === "[DONE]") return null;
  const json = JSON.parse(data) as { event?: string; data?: Record<string, unknown> };
  return { event: json.event ?? "", data: json.data ?? {} };
}
