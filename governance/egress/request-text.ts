import { EgressError } from "./failure.ts";
import type { Target } from "./target.ts";

/** A request to a target. */
export interface EgressRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Names and values alternate. */
  readonly headers: readonly string[];
  readonly body: string | null;
  /** Max silence: until the response head is complete, then between two reads. */
  readonly silenceMs: number;
}

/** The request on the wire: the head in Latin-1, the body in UTF-8. */
export interface RequestText {
  readonly head: string;
  readonly body: string;
  /** True if the body is ASCII, so that head and body can be written as one Latin-1 string. */
  readonly isLatin: boolean;
  /** True if the request has `connection: close`. */
  readonly closes: boolean;
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const value = /^[\t\x20-\x7e\x80-\xff]*$/;
const targetText = /^[!-~]+$/;

/** Headers that the egress sets itself, or that would change how the message is framed. */
const own: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "keep-alive", "upgrade", "expect"]);

interface HeaderLines {
  readonly lines: string;
  readonly host: string | null;
  readonly closes: boolean;
}

/** Cache of rendered headers: callers pass the same list again and again. */
const written = new WeakMap<readonly string[], HeaderLines>();

/** Renders a request. Throws an EgressError if it is invalid. */
export function requestText({ host, pathname, search }: Target, { method, headers, body }: EgressRequest): RequestText {
  const path = pathname + search;
  if (!targetText.test(path)) throw unsendable("the path has a character that no request can carry");
  let lines = written.get(headers);
  if (lines === undefined) {
    lines = headerLines(headers);
    written.set(headers, lines);
  }
  const text = body ?? "";
  const bodyBytes = Buffer.byteLength(text);
  const length = method === "POST" || text !== "" ? `content-length: ${bodyBytes}\r\n` : "";
  const connection = lines.closes ? "close" : "keep-alive";
  return {
    head: `${method} ${path} HTTP/1.1\r\nhost: ${lines.host ?? host}\r\nconnection: ${connection}\r\n${lines.lines}${length}\r\n`,
    body: text,
    isLatin: bodyBytes === text.length,
    closes: lines.closes,
  };
}

function headerLines(headers: readonly string[]): HeaderLines {
  let lines = "";
  let host: string | null = null;
  let closes = false;
  for (let at = 0; at < headers.length; at += 2) {
    const [name = "", content = ""] = [headers[at], headers[at + 1]];
    const lower = name.toLowerCase();
    if (!token.test(name)) throw unsendable("invalid name of a header");
    if (!value.test(content)) throw unsendable(`invalid ${lower} header`);
    if (own.has(lower)) throw unsendable(`the ${lower} header is not the caller's to say`);
    if (lower === "host") host = content;
    else if (lower === "connection") closes ||= content.toLowerCase() === "close";
    else lines += `${name}: ${content}\r\n`;
  }
  return { lines, host, closes };
}

function unsendable(why: string): EgressError {
  return new EgressError("unsendable", why);
}
