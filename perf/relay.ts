// Entry of the relay's process, the lower bound of a turn's cost: it only passes the turn on. One thread receives the request with
// uWebSockets.js, calls the model with undici, parses every event, and writes it as a frame of svc. All frames of one turn of the event
// loop leave in one write per stream.
import { App, type HttpResponse, us_listen_socket_close, us_socket_local_port } from "uWebSockets.js";
import { type Dispatcher, Pool } from "undici";

interface Turn {
  readonly response: HttpResponse;
  upstream: Dispatcher.DispatchController | undefined;
  /** Frames to write at the end of this turn of the event loop. */
  queued: string;
  waiting: boolean;
  /** True once the head of the response is sent. */
  begun: boolean;
  over: boolean;
  gone: boolean;
}

interface ChatBody {
  readonly manifest: string;
  readonly messages: readonly unknown[];
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
}

const newline = 10;
const models = new Map<string, string>(Object.entries(JSON.parse(process.argv[3] ?? "{}")));
const pool = new Pool(`http://127.0.0.1:${process.argv[2]}`, {
  connections: null,
  pipelining: 1,
  keepAliveTimeout: 60_000,
  headersTimeout: 0,
  bodyTimeout: 0,
});
const dirty: Turn[] = [];

process.on("disconnect", () => process.exit());
App()
  .post("/relay", (response) => {
    const turn: Turn = {
      response,
      upstream: undefined,
      queued: "",
      waiting: false,
      begun: false,
      over: false,
      gone: false,
    };
    let body: Buffer | undefined;
    response.onAborted(() => {
      turn.gone = true;
      turn.upstream?.abort(new Error("the client left"));
    });
    response.onData((bytes, last) => {
      const part = Buffer.from(bytes);
      if (!last) body = Buffer.concat(body === undefined ? [part] : [body, part]);
      else relay(turn, JSON.parse((body === undefined ? part : Buffer.concat([body, part])).toString()));
    });
  })
  .listen("127.0.0.1", 0, (socket) => {
    if (socket === false) process.exit(1);
    process.send?.({ result: us_socket_local_port(socket) });
    process.once("SIGTERM", () => {
      us_listen_socket_close(socket);
      process.exit();
    });
  });

function relay(turn: Turn, body: ChatBody): void {
  const model = models.get(body.manifest) ?? body.manifest;
  const request = { model, messages: body.messages, stream: true, stream_options: { include_usage: true } };
  /** The bytes of an incomplete line. */
  let rest: Buffer | undefined;
  pool.dispatch(
    {
      path: "/v1/chat/completions",
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request),
    },
    {
      onRequestStart(controller) {
        turn.upstream = controller;
        if (turn.gone) controller.abort(new Error("the client left"));
      },
      onResponseStart(_, status) {
        if (status !== 200) fail(turn, `upstream answered ${status}`);
      },
      onResponseData(_, bytes) {
        if (turn.over) return;
        const all = rest === undefined ? bytes : Buffer.concat([rest, bytes]);
        const end = all.lastIndexOf(newline) + 1;
        // A newline is never part of a multi-byte character, so the text before it decodes correctly.
        if (end > 0) send(turn, framesOf(all.toString("utf8", 0, end)));
        rest = end < all.length ? all.subarray(end) : undefined;
      },
      onResponseEnd() {
        if (turn.over) return;
        turn.over = true;
        send(turn, "data: [DONE]\n\n");
      },
      onResponseError(_, error) {
        fail(turn, error.message);
      },
    },
  );
}

/** Converts the events of complete lines into frames. */
function framesOf(lines: string): string {
  let frames = "";
  let start = 0;
  for (let end = lines.indexOf("\n"); end >= 0; end = lines.indexOf("\n", start)) {
    if (lines.startsWith("data: ", start) && !lines.startsWith("[DONE]", start + 6)) {
      const chunk: Chunk = JSON.parse(lines.slice(start + 6, end));
      const content = chunk.choices[0]?.delta.content;
      if (content) {
        const text = JSON.stringify(content);
        frames += `data: {"event":"text_delta","type":"text_delta","data":{"chunk":{"content":${text}},"delta":${text}},"text":${text}}\n\n`;
      }
    }
    start = end + 1;
  }
  return frames;
}

function fail(turn: Turn, message: string): void {
  if (turn.over) return;
  turn.over = true;
  const error = { message, type: "stream_error" };
  send(turn, `event: error\ndata: ${JSON.stringify({ error })}\n\n`);
}

/** Queues frames. The first queued frame in a turn of the event loop schedules the flush. */
function send(turn: Turn, frames: string): void {
  turn.queued += frames;
  // An empty write would end the response.
  if (turn.waiting || turn.queued === "") return;
  turn.waiting = true;
  dirty.push(turn);
  if (dirty.length === 1) setImmediate(flush);
}

function flush(): void {
  for (const turn of dirty) {
    turn.waiting = false;
    if (!turn.gone) turn.response.cork(() => write(turn));
  }
  dirty.length = 0;
}

function write(turn: Turn): void {
  const { response, queued } = turn;
  turn.queued = "";
  if (!turn.begun) {
    turn.begun = true;
    response.writeHeader("content-type", "text/event-stream").writeHeader("cache-control", "no-cache");
  }
  if (turn.over) response.end(queued);
  else response.write(queued);
}
