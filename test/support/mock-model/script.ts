// An answer as bytes and pauses. A script sets the exact bytes and times on the socket, so it can also break the
// protocol.

/** One action of the server, after the one before it. */
export type Step =
  /** Sends this much of the body in one write. */
  | { readonly send: string | Uint8Array }
  /** Sends the pieces one by one, `gapMs` apart. Late pieces go out together, so that the pace stays. */
  | { readonly paced: readonly (string | Uint8Array)[]; readonly gapMs: number }
  | { readonly waitMs: number }
  /** Continues when the promise settles; "forever" never does. Before the first byte it delays the head too. */
  | { readonly hold: Promise<unknown> | "forever" }
  /** Repeats this until the client leaves or `bytesMax` are out; then the connection is cut. */
  | { readonly endless: string; readonly gapMs: number; readonly bytesMax: number }
  /**
   * Ends the connection here: "end" after the written bytes are out, "reset" at once. Before the first byte no head is
   * sent.
   */
  | { readonly cut: "end" | "reset" };

export interface Script {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The end mark of the body: chunks (the default), content-length (every step is then a `send`), or closing the
   * connection.
   */
  readonly framing?: "chunked" | "length" | "close";
  readonly steps: readonly Step[];
}

/** The actions of the player: bytes are framed, and the first of them contain the head. */
export type Op =
  | Uint8Array
  | { readonly paced: readonly Uint8Array[]; readonly gapMs: number }
  | { readonly waitMs: number }
  | { readonly hold: Promise<unknown> | "forever" }
  | { readonly endless: Uint8Array; readonly gapMs: number; readonly bytesMax: number }
  | { readonly cut: "end" | "reset" };

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  405: "Method Not Allowed",
  429: "Too Many Requests",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

const compiled = new WeakMap<Script, readonly Op[]>();

/** The script as ready bytes. A constant script is prepared once. */
export function compileScript(script: Script): readonly Op[] {
  let ops = compiled.get(script);
  if (ops === undefined) {
    ops = prepare(script);
    compiled.set(script, ops);
  }
  return ops;
}

function prepare(script: Script): Op[] {
  const framing = script.framing ?? "chunked";
  const frame = framing === "chunked" ? chunkOf : bytesOf;
  const ops: Op[] = [];
  for (const step of script.steps) {
    if ("send" in step) ops.push(frame(step.send));
    else if ("paced" in step) ops.push({ paced: step.paced.map(frame), gapMs: step.gapMs });
    else if ("endless" in step) ops.push({ ...step, endless: frame(step.endless) });
    else ops.push(step);
  }
  prepend(ops, Buffer.from(headOf(script, framing)));
  const last = script.steps.at(-1);
  const open = last !== undefined && ("cut" in last || "endless" in last);
  if (!open && framing === "chunked") append(ops, Buffer.from("0\r\n\r\n"));
  if (!open && framing === "close") ops.push({ cut: "end" });
  return ops;
}

function headOf(script: Script, framing: string): string {
  const status = script.status ?? 200;
  const headers: Record<string, string> = {
    "content-type": "text/event-stream; charset=utf-8",
    connection: framing === "close" ? "close" : "keep-alive",
    ...script.headers,
  };
  if (framing === "chunked") headers["transfer-encoding"] = "chunked";
  if (framing === "length") {
    const bytes = script.steps.reduce((sum, step) => sum + ("send" in step ? Buffer.byteLength(step.send) : 0), 0);
    headers["content-length"] = String(bytes);
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${reasons[status] ?? "Unknown"}\r\n${lines.join("")}\r\n`;
}

/** The head leaves with the first bytes of the body; a script that cuts or holds before them has none. */
function prepend(ops: Op[], head: Uint8Array): void {
  const at = ops.findIndex((op) => op instanceof Uint8Array || "paced" in op || "endless" in op);
  const first = ops[at];
  if (first === undefined) {
    if (!ops.some((op) => "cut" in op)) ops.push(head);
  } else if (first instanceof Uint8Array) ops[at] = Buffer.concat([head, first]);
  else if ("paced" in first && first.paced[0] !== undefined) {
    ops[at] = { ...first, paced: first.paced.with(0, Buffer.concat([head, first.paced[0]])) };
  } else ops.splice(at, 0, head);
}

function append(ops: Op[], tail: Uint8Array): void {
  const last = ops.at(-1);
  if (last instanceof Uint8Array) ops[ops.length - 1] = Buffer.concat([last, tail]);
  else if (last !== undefined && "paced" in last && last.paced.length > 0) {
    const end = last.paced.length - 1;
    ops[ops.length - 1] = { ...last, paced: last.paced.with(end, Buffer.concat([last.paced[end] ?? tail, tail])) };
  } else ops.push(tail);
}

function bytesOf(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? Buffer.from(body) : body;
}

function chunkOf(body: string | Uint8Array): Uint8Array {
  const bytes = bytesOf(body);
  // An empty chunk would end the body.
  if (bytes.length === 0) return bytes;
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}
