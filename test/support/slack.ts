import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

// A stand-in for Slack: it signs events, keeps posted messages, limits the rate of calls and serves files.

/** A message that the bot has posted. */
export interface SlackPost {
  readonly channel: string;
  readonly thread_ts: string;
  readonly ts: string;
  text: string;
  edits: number;
}

/** A file that the stand-in serves. */
interface SlackFile {
  readonly type: string;
  readonly bytes: Buffer;
  /** Redirects instead. */
  readonly location?: string;
}

/** Seconds of Retry-After, or an error code of the Web API, or a status. */
type Refusal = { readonly retryAfter: number } | { readonly error: string } | { readonly status: number };

/** The headers of a request that Slack has signed. */
export function slackHeaders(body: string, secret: string, at = Math.floor(Date.now() / 1000)): Record<string, string> {
  const hex = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
  return {
    "x-slack-request-timestamp": String(at),
    "x-slack-signature": `v0=${hex}`,
    "content-type": "application/json",
  };
}

/** Starts a stand-in for Slack. */
export async function startSlack(token: string) {
  const posts: SlackPost[] = [];
  const calls: string[] = [];
  const tokens = new Set<string | undefined>();
  const files = new Map<string, SlackFile>();
  const refusals: Refusal[] = [];
  let count = 0;
  let held: Promise<unknown> | null = null;

  const api = (method: string, fields: URLSearchParams, response: ServerResponse): void => {
    const refusal = refusals.shift();
    if (refusal !== undefined && "retryAfter" in refusal) {
      response.writeHead(429, { "retry-after": String(refusal.retryAfter) }).end();
      return;
    }
    if (refusal !== undefined && "status" in refusal) {
      response.writeHead(refusal.status).end("no");
      return;
    }
    const answer = refusal !== undefined ? { ok: false, error: refusal.error } : answered(method, fields);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  };
  const answered = (method: string, fields: URLSearchParams): object => {
    const channel = fields.get("channel") ?? "";
    const text = fields.get("text") ?? "";
    assert.ok(text !== "" && text.length <= 4_000, `a text of ${text.length} characters`);
    if (method === "chat.postMessage") {
      assert.deepEqual([fields.get("unfurl_links"), fields.get("unfurl_media")], ["false", "false"]);
      const ts = `1700000000.${String(++count).padStart(6, "0")}`;
      posts.push({ channel, thread_ts: fields.get("thread_ts") ?? "", ts, text, edits: 0 });
      return { ok: true, channel, ts };
    }
    const post = posts.find((one) => one.ts === fields.get("ts") && one.channel === channel);
    if (method !== "chat.update" || post === undefined) return { ok: false, error: "message_not_found" };
    post.text = text;
    post.edits++;
    return { ok: true, channel, ts: post.ts };
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? "/", "http://slack");
    tokens.add(request.headers.authorization);
    let body = "";
    for await (const part of request) body += part;
    if (held !== null) await held;
    const file = files.get(pathname);
    const isAllowed = request.headers.authorization === `Bearer ${token}`;
    if (pathname.startsWith("/api/")) {
      const method = pathname.slice("/api/".length);
      calls.push(method);
      if (isAllowed) api(method, new URLSearchParams(body), response);
      else response.writeHead(200, { "content-type": "application/json" }).end('{"ok":false,"error":"invalid_auth"}');
    } else if (file?.location !== undefined) response.writeHead(302, { location: file.location }).end();
    else if (file !== undefined && isAllowed) response.writeHead(200, { "content-type": file.type }).end(file.bytes);
    else response.writeHead(200, { "content-type": "text/html" }).end("<html>Sign in</html>");
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    /** For SVC_SLACK_API_URL. */
    apiUrl: `${url}/api/`,
    posts,
    calls,
    /** The Authorization headers of all requests. */
    tokens,
    refusals,
    /** Serves a file. Returns its private URL. */
    serve(path: string, file: SlackFile): string {
      files.set(path, file);
      return url + path;
    },
    /** Makes calls wait. */
    hold(until: Promise<unknown> | null): void {
      held = until;
    },
    /** The texts of a conversation, in order. */
    said: (thread: string): string[] => posts.filter(({ thread_ts }) => thread_ts === thread).map(({ text }) => text),
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

export type Slack = Awaited<ReturnType<typeof startSlack>>;

let events = 0;

/** The fields of an event of Slack's Events API. */
interface Said {
  readonly text?: string;
  readonly user?: string;
  readonly channel?: string;
  readonly ts?: string;
  readonly thread_ts?: string;
  readonly type?: string;
  /** Fields of the event, then of the payload around it. */
  readonly event?: object;
  readonly payload?: object;
}

/** The id of the bot's user. */
const botUser = "UBOT";

/** A new time of a message, which is its id. */
export function newTs(): string {
  return `1531420618.${String(++events).padStart(6, "0")}`;
}

/** The payload of an event: a mention of the bot, unless the fields say otherwise. */
export function slackEvent({
  text = "Hello",
  user = "U1",
  channel = "C1",
  ts = newTs(),
  thread_ts,
  type = "app_mention",
  event,
  payload,
}: Said) {
  const shown = type === "app_mention" ? `<@${botUser}> ${text}` : text;
  return {
    type: "event_callback",
    team_id: "T1",
    event_id: `Ev${String(++events)}`,
    authorizations: [{ team_id: "T1", user_id: botUser, is_bot: true }],
    event: { type, channel, user, ts, text: shown, ...(thread_ts !== undefined && { thread_ts }), ...event },
    ...payload,
  };
}
