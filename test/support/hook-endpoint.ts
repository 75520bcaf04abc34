import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

// An endpoint of spec.hooks with scripted answers.

/** One call of a hook. */
export interface HookCall {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: {
    readonly type: string;
    readonly hook: string;
    readonly tenant_id: string;
    readonly manifest_id: string;
    readonly thread_id: string;
    readonly data: Readonly<Record<string, unknown>>;
  };
}

/** An answer: a JSON value with status 200, a status, or `hang`, `flood` and `junk`. */
export type HookReply = object | number | "hang" | "flood" | "junk" | "";

export interface HookEndpoint {
  readonly url: string;
  readonly calls: HookCall[];
  /** Answers calls by the id of their hook; without an answer the body is empty. */
  readonly answers: Map<string, (call: HookCall) => HookReply>;
}

/** Starts an endpoint. */
export async function hookEndpoint(atEnd: Cleanup): Promise<HookEndpoint> {
  const calls: HookCall[] = [];
  const answers = new Map<string, (call: HookCall) => HookReply>();
  const server = createServer((request, response) => {
    response.on("error", () => {});
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8");
      const call: HookCall = { headers: request.headers, text, body: JSON.parse(text) };
      calls.push(call);
      const reply = answers.get(call.body.hook)?.(call) ?? "";
      if (reply === "hang") return;
      if (typeof reply === "number") return void response.writeHead(reply).end("no");
      if (reply === "junk") return void response.end("<html>");
      if (reply === "") return void response.writeHead(204).end();
      if (typeof reply === "object") return void response.end(JSON.stringify(reply));
      const flood = (): void => {
        while (!response.destroyed && response.write("x".repeat(65_536)));
        response.once("drain", flood);
      };
      flood();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, calls, answers };
}
